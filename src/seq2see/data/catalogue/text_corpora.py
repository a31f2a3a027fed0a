"""Texts of the catalogue with labels, tags or pronunciations: reviews, treebanks, and a pronouncing dictionary.

Every line of a file is counted. A line of the dictionary CMUdict is a word and its phonemes in ARPAbet: 24 consonants,
and 15 vowels that end in their stress (0 none, 1 primary, 2 secondary). `word(2)` is another pronunciation of `word`,
and a comment may follow after `#`:

    tomato T AH0 M EY1 T OW2
    tomato(2) T AH0 M AA1 T OW2
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from seq2see.core.errors import UserError
from seq2see.core.seeds import derive_seed
from seq2see.data.catalogue.corpus_files import CatalogueEntry, CorpusFiles, File
from seq2see.data.examples import Example
from seq2see.data.hold_out import Splits, hold_out
from seq2see.data.readers.conll import read_tagged
from seq2see.data.readers.data_report import DataReport
from seq2see.data.readers.lines import Line, read_lines
from seq2see.data.readers.pair_files import read_pairs

VOWELS = ("AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW")
CONSONANTS = (
    "B", "CH", "D", "DH", "F", "G", "HH", "JH", "K", "L", "M", "N", "NG",
    "P", "R", "S", "SH", "T", "TH", "V", "W", "Y", "Z", "ZH",
)  # fmt: skip
PHONEMES = frozenset([*CONSONANTS, *(vowel + stress for vowel in VOWELS for stress in "012")])

SPELLING = re.compile(r"[a-z'.-]+")
"""The characters of a word. Dots and hyphens belong to it: `u.s.` is pronounced letter by letter."""
VARIANT = re.compile(r"\(\d+\)$")

SEED = 1
TEST, VALID = 5000, 2000
"""The number of words that are held out ..."""
TEST_SHARE, VALID_SHARE = 20, 50
"""... but of a small dictionary at most one word in 20 and one in 50."""

Dictionary = dict[str, dict[str, str]]
"""For each word its pronunciations in the order of the file, with the location of each."""


def read_dictionary(path: Path, report: DataReport) -> Dictionary:
    """All words of a file; issues are added to the report, and read = kept + skipped + rejected."""
    words: Dictionary = {}
    for line in read_lines(path, report):
        report.read += 1
        word, *phonemes = line.text.partition("#")[0].split() or [""]
        spelling, pronunciation = VARIANT.sub("", word), " ".join(phonemes)
        if not line.is_valid or _has_error(word, phonemes, line, report):
            report.rejected += 1
        elif not word or word.startswith(";;;") or _is_ignored(spelling, pronunciation, words, line, report):
            report.skipped += 1
        else:
            words.setdefault(spelling, {})[pronunciation] = f"{line.file}:{line.number}"
            report.kept += 1
    if not words and report.first_error is None:
        report.add_issue("no examples", Line(str(path), 0, 0, "").location(), "There is no word in it.")
    return words


def _has_error(word: str, phonemes: list[str], line: Line, report: DataReport) -> bool:
    """Whether a word has no phonemes, or an unknown one; if so, an issue is added to the report."""
    if not word or word.startswith(";;;"):
        return False
    if not phonemes:
        report.add_issue("empty field", line.location(), "The word has no phonemes.", text=line.text)
        return True
    unknown = [phoneme for phoneme in phonemes if phoneme not in PHONEMES]
    if unknown:
        report.add_issue("unknown phoneme", line.location(), f"There is no phoneme '{unknown[0]}'.", text=line.text)
    return bool(unknown)


def _is_ignored(spelling: str, pronunciation: str, words: Dictionary, line: Line, report: DataReport) -> bool:
    """Whether a valid entry is skipped: words with digits or accents are too rare, duplicates are redundant."""
    if not SPELLING.fullmatch(spelling):
        message = f"'{spelling}' has other characters than a-z, apostrophes, hyphens and dots."
        report.add_issue("unsupported characters", line.location(), message, text=line.text)
        return True
    first = words.get(spelling, {}).get(pronunciation)
    if first:
        message = f"The same pronunciation is at {first}."
        report.add_issue("duplicate pronunciation", line.location(), message, text=line.text)
    return first is not None


def split_by_word(words: Dictionary) -> Splits:
    """Split by word, pseudo-randomly and reproducibly: no held-out word occurs in training with any pronunciation.

    In training every pronunciation is an example, because each is correct. A held-out word is one example: its first
    pronunciation is the target, and all of them are its `references`. The split of a word depends on a hash of its
    spelling, so a new edition of the dictionary changes the split of few words.
    """
    if len(words) < 3:
        message = (
            f"There are {len(words)} different words, and at least 3 are needed: one each for train, valid and test."
        )
        raise UserError(message, hint="Use a larger dictionary.")
    order = sorted(words, key=lambda word: (derive_seed(SEED, f"pronunciation split {word}"), word))
    test = set(order[: max(1, min(TEST, len(words) // TEST_SHARE))])
    valid = set(order[-max(1, min(VALID, len(words) // VALID_SHARE)) :])
    splits: Splits = {"train": [], "valid": [], "test": []}
    for word, pronunciations in words.items():
        references = tuple(pronunciations)
        examples = [
            Example(word, pronunciation, references=references, location=location)
            for pronunciation, location in pronunciations.items()
        ]
        if word in test or word in valid:
            splits["test" if word in test else "valid"].append(examples[0])
        else:
            splits["train"] += examples
    return splits


LABELED_CORPORA: dict[str, CatalogueEntry] = {
    "sst2": CatalogueEntry(
        name="sst2",
        description="English movie reviews and parts of them, good or bad; 67,349 + 872 texts",
        license="none stated; used for research",
        home="https://nlp.stanford.edu/sentiment",
        columns=("text", "label"),
        files=(
            File("sst2/train.tsv.xz", 3_806_081, "e981ceb4fe6c9acd1c79851d0d091b9e78103f1f2a399ca83dda27915d41c56c"),
            File("sst2/dev.tsv.xz", 94_414, "84207e6be5873fb18db798cc6faec86871f5a426554650ff64a1c34e87665f6f"),
        ),
    ),
    "chnsenticorp": CatalogueEntry(
        name="chnsenticorp",
        description="Chinese reviews of hotels, books and computers, good or bad; 9,600 + 1,200 texts",
        license="none stated; used for research",
        home="no known public home; SEQ2SEE_DATA must name a folder that contains it",
        columns=("text", "label"),
        files=(
            File(
                "chnsenticorp/train.tsv.xz",
                3_087_161,
                "2d055b163db91611d08039f7b8d7fec453fb9de45e3d892f1dbc162fb0486da4",
            ),
            File(
                "chnsenticorp/dev.tsv.xz", 382_617, "7f55d58efd9783720ff9247de3513bb11a09521e77a6c73a7c7767b5d6d8279a"
            ),
        ),
    ),
}
LABEL_NAMES = {"0": "negative", "1": "positive"}
"""The names of the labels of SST-2."""


def read_labeled(corpus_files: CorpusFiles, source: str, target: str) -> Splits:
    """The published development texts are the test split; some of the training texts are held out as valid.

    Training texts that also occur in the test split are removed.
    """
    train, test = ([_labeled(example) for example in read_pairs([path])[0]] for path in corpus_files.paths)
    train, test = ([example for example in each if example.target != "label"] for each in (train, test))
    test_sources = {example.source for example in test}
    return hold_out([example for example in train if example.source not in test_sources], test=test)


def _labeled(example: Example) -> Example:
    """The example with the text as source and the label as target; SST-2 has them swapped, with a header."""
    if example.source in (*LABEL_NAMES, "label"):
        label = LABEL_NAMES.get(example.source, example.source)
        return replace(example, source=example.target.strip(), target=label)
    return example


TAGGED_CORPORA: dict[str, CatalogueEntry] = {
    "ud-english-ewt": CatalogueEntry(
        name="ud-english-ewt",
        description="English of the web, every word with its part of speech; 12,544 + 2,001 sentences",
        license="CC BY-SA 4.0",
        home="https://github.com/UniversalDependencies/UD_English-EWT",
        columns=("words", "tags"),
        files=(
            File(
                "ud-english-ewt/en_ewt-ud-train.conllu.xz",
                14_203_025,
                "3fb78e2b55482c8ee00caa653af436c88c9e5bc9a73ce26e4ae3ddc79d2b7e7b",
            ),
            File(
                "ud-english-ewt/en_ewt-ud-dev.conllu.xz",
                1_805_545,
                "531a54ff90d6ab12201c5a50c3e78e6ddac4de69abc4bce5d275d3cd29efe2b6",
            ),
        ),
    ),
    "ud-chinese-gsd": CatalogueEntry(
        name="ud-chinese-gsd",
        description="Chinese (traditional characters), every word with its part of speech; 3,997 + 500 sentences",
        license="CC BY-NC-SA 4.0",
        home="https://github.com/UniversalDependencies/UD_Chinese-GSD",
        columns=("words", "tags"),
        files=(
            File(
                "ud-chinese-gsd-r1.4/zh-ud-train.conllu.xz",
                3_281_947,
                "94c1ad7f8f7d545169bafbef367852b965ec5eada13d614d8e8b6b9297ee6d0d",
            ),
            File(
                "ud-chinese-gsd-r1.4/zh-ud-dev.conllu.xz",
                422_074,
                "574a2c826fc4207530be65b9cd9d8d9611a9749716ab1e3349ec681b93c7a42f",
            ),
        ),
    ),
}


def read_universal_dependencies(corpus_files: CorpusFiles, source: str, target: str) -> Splits:
    """The development sentences are the test split; some of the training sentences are held out as valid."""
    train, test = (read_tagged(path)[0] for path in corpus_files.paths)
    return hold_out(train, test=test, allow_overlap=True)  # short sentences such as "Thanks !" occur many times
