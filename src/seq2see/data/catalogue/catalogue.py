"""The corpora of the catalogue (`entries.py`): finding, verifying and reading them.

`get_corpus` finds a corpus on this machine (see `corpus_files.py`) or downloads it from its public home; its hashes are
verified at every reading. Pairs are read here, running text in `catalogue_texts.py`, images in `catalogue_images.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Literal

from seq2see.core.errors import UserError, unknown_name
from seq2see.core.settings import Settings
from seq2see.data.catalogue.corpus_files import (
    MAX_BYTES,
    CatalogueEntry,
    CorpusFiles,
    FileCheck,
    download,
    locate,
    record_hashes,
    verify,
)
from seq2see.data.catalogue.download import extracted_member
from seq2see.data.catalogue.entries import CATALOGUE, FURTHER_TESTS
from seq2see.data.catalogue.text_corpora import (
    LABELED_CORPORA,
    TAGGED_CORPORA,
    read_dictionary,
    read_labeled,
    read_universal_dependencies,
    split_by_word,
)
from seq2see.data.examples import Example
from seq2see.data.hold_out import Splits, hold_out_components
from seq2see.data.readers.data_report import DataReport, ErrorPolicy
from seq2see.data.readers.pair_files import read_pairs


class CatalogueCorpus(Settings):
    """A real corpus of the catalogue: `seq2see data list` shows them."""

    kind: Literal["catalogue"] = "catalogue"
    name: str = "multi30k"
    """The name of the corpus in the catalogue."""
    languages: str | None = None
    """Source and target language, such as en-de or fr-en; by default the first two of the corpus."""

    def splits(self) -> Splits:
        """The examples as train, valid and test; downloaded first if they are not on this machine."""
        source, target = self.column_pair
        return READERS[self.name](get_corpus(self.name), source, target)

    @property
    def column_pair(self) -> tuple[str, str]:
        """The names of the source and target columns."""
        entry = find_entry(self.name)
        if entry.columns == ("text",):
            raise UserError(f"{entry.name} is running text, not pairs.", hint="Set corpus.kind=catalogue-text.")
        if entry.columns[0] == "image":
            message = f"{entry.name} is a set of images, not of texts."
            raise UserError(message, hint="Set corpus.kind=catalogue-images, in a recipe for images.")
        if self.languages is None:
            return entry.columns[0], entry.columns[1]
        source, dash, target = self.languages.partition("-")
        if not dash:
            message = f"'{self.languages}' does not name a source and a target."
            raise UserError(message, hint="Write corpus.languages like en-de.")
        for language in (source, target):
            if language not in entry.columns:
                raise unknown_name(f"language of {entry.name}", language, entry.columns)
        if source == target:
            message = f"Source and target of {entry.name} are both '{source}'."
            raise UserError(message, hint="Write corpus.languages with two different names.")
        return source, target


@dataclass(frozen=True)
class CorpusListing:
    """A line of `seq2see data list`."""

    name: str
    description: str
    license: str
    home: str
    size: int
    """Bytes of text, as far as the catalogue states them."""
    found: str
    """Where it was found on this machine; empty if it must be downloaded."""


def list_corpora() -> list[CorpusListing]:
    """All corpora of the catalogue, and where each was found on this machine."""
    return [
        CorpusListing(entry.name, entry.description, entry.license, entry.home, _size(entry), _found_in(locate(entry)))
        for entry in CATALOGUE.values()
    ]


def _size(entry: CatalogueEntry) -> int:
    return sum(file.size for file in entry.files)


def get_corpus(name: str, log: Callable[[str], None] | None = None) -> CorpusFiles:
    """Find a corpus on this machine, or download it from its public home; its hashes are verified."""
    log = log or _log
    entry = find_entry(name)
    corpus_files = locate(entry) or download(entry)
    for path in record_hashes(corpus_files):
        log(
            f"{entry.home} updates its file from time to time, so the catalogue has no hash of it; "
            f"the hash of your copy was recorded in {path.parent / 'LOCK.json'}."
        )
    for checked in verify(corpus_files):
        if checked.status == "mismatch":
            raise UserError(
                f"This is not the expected file: its SHA-256 is {checked.found} instead of {checked.expected}.",
                location=str(checked.path),
                hint=f"Delete it and run `seq2see data get {name}`, or train on it as a file of your own.",
            )
    return corpus_files


def check(name: str) -> list[FileCheck]:
    """Compare the files of a corpus with their hashes; nothing is changed or downloaded."""
    entry = find_entry(name)
    corpus_files = locate(entry)
    if corpus_files is None:
        raise UserError(f"{name} is not on this machine.", hint=f"`seq2see data get {name}` downloads it.")
    return verify(corpus_files)


def find_entry(name: str) -> CatalogueEntry:
    """The entry of this name."""
    if name not in CATALOGUE:
        raise unknown_name("corpus", name, CATALOGUE)
    return CATALOGUE[name]


def _found_in(corpus_files: CorpusFiles | None) -> str:
    if corpus_files is None:
        return ""
    return f"package {corpus_files.package}" if corpus_files.package else str(corpus_files.paths[0].parent)


def _log(text: str) -> None:
    print(text, file=sys.stderr)


def read_multi30k(corpus_files: CorpusFiles, source: str, target: str) -> Splits:
    """Multi30k: line n of one language is the translation of line n of another; the splits are the authors'."""
    names = {"train": "train", "valid": "val", "test": "test_2016_flickr", **FURTHER_TESTS}
    paths = {path.name: path for path in corpus_files.paths}
    splits: Splits = {}
    for split, name in names.items():
        files = [f"{name}.{language}.gz" for language in (source, target)]
        if split not in FURTHER_TESTS or all(file in paths for file in files):
            splits[split] = read_pairs([paths[file] for file in files])[0]
    return splits


def read_tatoeba(corpus_files: CorpusFiles, source: str, target: str) -> Splits:
    """Tatoeba: English, the other language and (not always) an attribution, separated by tabs.

    One sentence often has several translations, so a pair is held out together with all pairs that share a text.
    """
    file, path = corpus_files.files[0], corpus_files.paths[0]
    shown_path = f"{path}/{file.member}" if file.member else str(path)
    with ExitStack() as stack:
        table = stack.enter_context(extracted_member(path, file.member, MAX_BYTES)) if file.member else path
        # Volunteers write this corpus: a few invalid lines in a new edition are skipped, with a message.
        examples, report = read_pairs([table], ErrorPolicy("skip"))
    if report.rejected:
        _log(f"{path}: {report.rejected:,} of {report.read:,} lines are invalid and were skipped.")
    return hold_out_components([_swap_languages(example, source, str(table), shown_path) for example in examples])


def _swap_languages(example: Example, source: str, table: str, shown_path: str) -> Example:
    """The example in this direction; its location has the path of the corpus file instead of the temporary one."""
    location = example.location.replace(table, shown_path)
    if source == "en":
        return replace(example, location=location)
    return replace(example, source=example.target, target=example.source, location=location)


def read_cmudict(corpus_files: CorpusFiles, source: str, target: str) -> Splits:
    """CMUdict: spelling to phonemes. A word with several pronunciations has several references."""
    if source != "letters":
        hint = "Remove corpus.languages, or set it to letters-phonemes."
        raise UserError("cmudict can only be read from letters to phonemes.", hint=hint)
    report = DataReport()
    words = read_dictionary(corpus_files.paths[0], report)
    report.raise_for_errors(ErrorPolicy())
    if skipped := report.counts["unsupported characters"]:
        reason = "they have digits or other unsupported characters"
        _log(f"{corpus_files.paths[0]}: {skipped:,} of {report.read:,} words were skipped: {reason}.")
    return split_by_word(words)


READERS: dict[str, Callable[[CorpusFiles, str, str], Splits]] = {
    "multi30k": read_multi30k,
    "tatoeba-zh-en": read_tatoeba,
    "tatoeba-fr-en": read_tatoeba,
    "cmudict": read_cmudict,
    **dict.fromkeys(LABELED_CORPORA, read_labeled),
    **dict.fromkeys(TAGGED_CORPORA, read_universal_dependencies),
}
