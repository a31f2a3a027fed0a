"""Reading the pronouncing dictionary CMUdict, and splitting it by word.

Every line is counted. A line is a word and its phonemes in ARPAbet: 24 consonants, and 15 vowels that end in their
stress (0 none, 1 primary, 2 secondary). `word(2)` is another pronunciation of `word`, and a comment may follow after
`#`:

    tomato T AH0 M EY1 T OW2
    tomato(2) T AH0 M AA1 T OW2
"""

from __future__ import annotations

import re
from pathlib import Path

from seq2see.core.errors import UserError
from seq2see.core.seeds import derive_seed
from seq2see.data.examples import Example
from seq2see.data.hold_out import Splits
from seq2see.data.readers.data_report import DataReport
from seq2see.data.readers.lines import Line, read_lines

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
