"""The catalogue of real corpora (`entries.py`) in use: they are found, verified and read.

`get` finds a corpus on this machine (see `holdings.py`) or fetches it from its public home, and its hashes are verified
on every reading. Pairs are read here, running text in `catalogued_texts.py`.
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
from seq2see.sources.entries import CATALOGUE, FURTHER_TESTS
from seq2see.sources.examples import Example
from seq2see.sources.holding_out import Splits, hold_out_linked
from seq2see.sources.holdings import (
    MOST_BYTES,
    Checked,
    Entry,
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
        if entry.sides == ("text",):
            raise UserError(f"{entry.name} is running text, not pairs.", remedy="Set corpus.kind=catalogue-text.")
        if entry.sides[0] == "picture":
            what = f"{entry.name} is a set of pictures, not of texts."
            raise UserError(what, remedy="Set corpus.kind=catalogue-pictures, in a recipe that looks at pictures.")
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
