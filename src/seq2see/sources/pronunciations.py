"""A pronouncing dictionary as examples: the spelling of a word to its phonemes, every line accounted for.

CMUdict writes a word, then its sounds in ARPAbet: 24 consonants, and 15 vowels that end in their stress (0
none, 1 main, 2 second). `word(2)` is another way to say `word`, and a comment may follow behind `#`:

    tomato T AH0 M EY1 T OW2
    tomato(2) T AH0 M AA1 T OW2
"""

from __future__ import annotations

import re
from pathlib import Path

from seq2see.core.errors import UserError
from seq2see.core.seeds import derive_seed
from seq2see.sources.data_report import DataReport
from seq2see.sources.examples import Example
from seq2see.sources.hold_out import Splits
from seq2see.sources.lines import Line, read_lines

VOWELS = ("AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW")
CONSONANTS = (
    "B", "CH", "D", "DH", "F", "G", "HH", "JH", "K", "L", "M", "N", "NG",
    "P", "R", "S", "SH", "T", "TH", "V", "W", "Y", "Z", "ZH",
)  # fmt: skip
PHONEMES = frozenset([*CONSONANTS, *(vowel + stress for vowel in VOWELS for stress in "012")])

SPELLING = re.compile(r"[a-z'.-]+")
"""What a word is spelt with. Dots and hyphens belong to it: `u.s.` is said letter by letter."""
VARIANT = re.compile(r"\(\d+\)$")

SEED = 1
TEST, VALID = 5000, 2000
"""How many words are held out ..."""
TEST_SHARE, VALID_SHARE = 20, 50
"""... but of a small dictionary no more than one word in so many."""

Dictionary = dict[str, dict[str, str]]
"""For each word its pronunciations in the order of the file, and where each stands."""


def read_dictionary(path: Path, report: DataReport) -> Dictionary:
    """All words of a file; what cannot be used goes to the report, and read = kept + skipped + rejected."""
    words: Dictionary = {}
    for line in read_lines(path, report):
        report.read += 1
        word, *phonemes = line.text.partition("#")[0].split() or [""]
        spelling, sound = VARIANT.sub("", word), " ".join(phonemes)
        if not line.is_valid or _has_error(word, phonemes, line, report):
            report.rejected += 1
        elif not word or word.startswith(";;;") or _is_ignored(spelling, sound, words, line, report):
            report.skipped += 1
        else:
            words.setdefault(spelling, {})[sound] = f"{line.file}:{line.number}"
            report.kept += 1
    if not words and report.first_error is None:
        report.add_issue("no examples", Line(str(path), 0, 0, "").location(), "There is not one word in it.")
    return words


def _has_error(word: str, phonemes: list[str], line: Line, report: DataReport) -> bool:
    """Whether a word has no sound, or one that does not exist; if so, that is said."""
    if not word or word.startswith(";;;"):
        return False
    if not phonemes:
        report.add_issue("empty field", line.location(), "The word has no phonemes.", text=line.text)
        return True
    strange = [phoneme for phoneme in phonemes if phoneme not in PHONEMES]
    if strange:
        report.add_issue("unknown phoneme", line.location(), f"There is no phoneme '{strange[0]}'.", text=line.text)
    return bool(strange)


def _is_ignored(spelling: str, sound: str, words: Dictionary, line: Line, report: DataReport) -> bool:
    """Whether a sound entry is not wanted: digits and accents are too rare to learn, a repetition says nothing."""
    if not SPELLING.fullmatch(spelling):
        message = f"'{spelling}' has other signs than letters, apostrophes, hyphens and dots."
        report.add_issue("unsupported characters", line.location(), message, text=line.text)
        return True
    before = words.get(spelling, {}).get(sound)
    if before:
        message = f"The pronunciation was there before, at {before}."
        report.add_issue("duplicate pronunciation", line.location(), message, text=line.text)
    return before is not None


def split_by_word(words: Dictionary) -> Splits:
    """Divide by word, at random but always alike: no word that is tested was seen in training, however it is said.

    Every pronunciation is a training example, because each is right and tells about letters and sounds. A
    held-out word is one example, whichever way it is said: its first pronunciation is the target, and all
    of them are its `references`. A word's split follows from a hash of its spelling, so a new edition of the
    dictionary moves few words.
    """
    if len(words) < 3:
        message = f"There are {len(words)} different words, and at least 3 are needed: to train, validate and test on."
        raise UserError(message, hint="Give a larger dictionary.")
    order = sorted(words, key=lambda word: (derive_seed(SEED, f"pronunciation split {word}"), word))
    test = set(order[: max(1, min(TEST, len(words) // TEST_SHARE))])
    valid = set(order[-max(1, min(VALID, len(words) // VALID_SHARE)) :])
    splits: Splits = {"train": [], "valid": [], "test": []}
    for word, pronunciations in words.items():
        references = tuple(pronunciations)
        examples = [Example(word, sound, references=references, location=place) for sound, place in pronunciations.items()]
        if word in test or word in valid:
            splits["test" if word in test else "valid"].append(examples[0])
        else:
            splits["train"] += examples
    return splits
