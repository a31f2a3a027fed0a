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

from seq2see.core.errors import UserError, unknown_name
from seq2see.core.settings import Settings
from seq2see.sources.archives import extracted_member
from seq2see.sources.corpus_files import (
    MAX_BYTES,
    CatalogueEntry,
    CorpusFiles,
    FileCheck,
    download,
    locate,
    record_hashes,
    verify,
)
from seq2see.sources.data_report import DataReport, ErrorPolicy
from seq2see.sources.entries import CATALOGUE, FURTHER_TESTS
from seq2see.sources.examples import Example
from seq2see.sources.hold_out import Splits, hold_out_components
from seq2see.sources.labeled_corpora import LABELED_CORPORA, read_labeled
from seq2see.sources.pair_files import read_pairs
from seq2see.sources.pronunciations import read_dictionary, split_by_word
from seq2see.sources.tagged_corpora import TAGGED_CORPORA, read_universal_dependencies


class CatalogueCorpus(Settings):
    """A real corpus of the catalogue: `seq2see data list` shows them."""

    kind: Literal["catalogue"] = "catalogue"
    name: str = "multi30k"
    """Which corpus, by its name in the catalogue."""
    languages: str | None = None
    """What is read and what is written, say en-de or fr-en; by itself the corpus's first two."""

    def splits(self) -> Splits:
        """The examples as train, valid and test; fetched first if they are not on this machine."""
        source, target = self.column_pair
        return READERS[self.name](get(self.name), source, target)

    @property
    def column_pair(self) -> tuple[str, str]:
        """What is read, and what is written."""
        entry = find_entry(self.name)
        if entry.languages == ("text",):
            raise UserError(f"{entry.name} is running text, not pairs.", hint="Set corpus.kind=catalogue-text.")
        if entry.languages[0] == "image":
            message = f"{entry.name} is a set of images, not of texts."
            raise UserError(message, hint="Set corpus.kind=catalogue-images, in a recipe that looks at images.")
        if self.languages is None:
            return entry.languages[0], entry.languages[1]
        source, dash, target = self.languages.partition("-")
        if not dash:
            raise UserError(f"'{self.languages}' does not name two sides.", hint="Write corpus.languages like en-de.")
        for side in (source, target):
            if side not in entry.languages:
                raise unknown_name(f"side of {entry.name}", side, entry.languages)
        if source == target:
            raise UserError(f"Source and target of {entry.name} are both '{source}'.", hint="Change one.")
        return source, target


@dataclass(frozen=True)
class CorpusListing:
    """A line of `seq2see data list`."""

    name: str
    description: str
    license: str
    home: str
    size: int
    """Bytes of text that are known beforehand."""
    found: str
    """Where it is found now; empty if it would have to be fetched."""


def list_corpora() -> list[CorpusListing]:
    """All corpora of the catalogue, and where each is found now."""
    return [
        CorpusListing(entry.name, entry.description, entry.license, entry.home, _size(entry), _place(locate(entry)))
        for entry in CATALOGUE.values()
    ]


def _size(entry: CatalogueEntry) -> int:
    return sum(file.size for file in entry.files)


def get(name: str, log: Callable[[str], None] | None = None) -> CorpusFiles:
    """Find a corpus on this machine, or fetch it from its public home; its hashes are verified."""
    log = log or _log
    entry = find_entry(name)
    corpus_files = locate(entry) or download(entry)
    for path in record_hashes(corpus_files):
        log(
            f"{entry.home} changes its file from time to time, so no hash is known beforehand; "
            f"the hash of your copy was recorded in {path.parent / 'LOCK.json'}."
        )
    for checked in verify(corpus_files):
        if checked.status == "different":
            raise UserError(
                f"This is not the expected file: SHA-256 {checked.found} instead of {checked.expected}.",
                location=str(checked.path),
                hint=f"Delete it and run `seq2see data get {name}`, or train on it as a file of your own.",
            )
    return corpus_files


def check(name: str) -> list[FileCheck]:
    """Compare the files of a corpus with their hashes, without changing or fetching anything."""
    entry = find_entry(name)
    corpus_files = locate(entry)
    if corpus_files is None:
        raise UserError(f"{name} is not on this machine.", hint=f"`seq2see data get {name}` fetches it.")
    return verify(corpus_files)


def find_entry(name: str) -> CatalogueEntry:
    """The entry of this name."""
    if name not in CATALOGUE:
        raise unknown_name("corpus", name, CATALOGUE)
    return CATALOGUE[name]


def _place(corpus_files: CorpusFiles | None) -> str:
    if corpus_files is None:
        return ""
    return f"package {corpus_files.package}" if corpus_files.package else str(corpus_files.paths[0].parent)


def _log(text: str) -> None:
    print(text, file=sys.stderr)


def read_multi30k(corpus_files: CorpusFiles, source: str, target: str) -> Splits:
    """Multi30k: line n of one language says what line n of another says; the splits are the authors'."""
    names = {"train": "train", "valid": "val", "test": "test_2016_flickr", **FURTHER_TESTS}
    found = {path.name: path for path in corpus_files.paths}
    splits: Splits = {}
    for split, name in names.items():
        files = [f"{name}.{side}.gz" for side in (source, target)]
        if split not in FURTHER_TESTS or all(file in found for file in files):
            splits[split] = read_pairs([found[file] for file in files])[0]
    return splits


def read_tatoeba(corpus_files: CorpusFiles, source: str, target: str) -> Splits:
    """Tatoeba: English, the other language and (not always) an attribution between tabs.

    One sentence often has several translations, so pairs are held out with all pairs that share a text.
    """
    file, path = corpus_files.files[0], corpus_files.paths[0]
    shown = f"{path}/{file.member}" if file.member else str(path)
    with ExitStack() as stack:
        table = stack.enter_context(extracted_member(path, file.member, MAX_BYTES)) if file.member else path
        # Volunteers write this: a few bad lines in a new edition are left out, and that is said.
        examples, report = read_pairs([table], ErrorPolicy("skip"))
    if report.rejected:
        _log(f"{path}: {report.rejected:,} of {report.read:,} lines cannot be used and are left out.")
    return hold_out_components([_swap_languages(example, source, str(table), shown) for example in examples])


def _swap_languages(example: Example, source: str, table: str, shown: str) -> Example:
    """The example in the asked direction, its place named by the file that the user knows."""
    place = example.location.replace(table, shown)
    if source == "en":
        return replace(example, location=place)
    return replace(example, source=example.target, target=example.source, location=place)


def read_cmudict(corpus_files: CorpusFiles, source: str, target: str) -> Splits:
    """CMUdict: spelling to phonemes. A word that is said in several ways has as many right answers."""
    if source != "letters":
        hint = "Leave out source and target."
        raise UserError("cmudict is read from letters to phonemes only.", hint=hint)
    report = DataReport()
    words = read_dictionary(corpus_files.paths[0], report)
    report.raise_for_errors(ErrorPolicy())
    odd = report.counts["unsupported characters"]
    if odd:
        _log(
            f"{corpus_files.paths[0]}: {odd:,} of {report.read:,} words are left out: they have digits or other signs."
        )
    return split_by_word(words)


READERS: dict[str, Callable[[CorpusFiles, str, str], Splits]] = {
    "multi30k": read_multi30k,
    "tatoeba-zh-en": read_tatoeba,
    "tatoeba-fr-en": read_tatoeba,
    "cmudict": read_cmudict,
    **dict.fromkeys(LABELED_CORPORA, read_labeled),
    **dict.fromkeys(TAGGED_CORPORA, read_universal_dependencies),
}
