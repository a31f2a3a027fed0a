"""Edits: how far an answer is from a right one, counted in symbols that were put in, left out or exchanged.

The error rate of speech recognition and of spelling to sound is the number of edits (Levenshtein 1966)
over the number of right symbols. A word that can be said in two ways has two right answers, and is
compared with the nearer one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rapidfuzz.distance import Levenshtein

from seq2see.core.errors import UserError
from seq2see.metrics.checks import check_same_length

Symbols = Sequence[str]


@dataclass(frozen=True)
class EditErrorCounts:
    """Answers that are wrong, and the edits that would mend them; counts, so that parts add up.

    >>> print(EditErrors(wrong=1, rows=4, edits=3, symbols=20))
    25.0 % of 4 wrong, 15.0 % of their 20 symbols
    """

    wrong_sequences: int
    """Answers that are none of the right ones."""
    rows: int
    edits: int
    """The fewest edits that turn each answer into a right one, summed."""
    symbols: int
    """The length of those right answers, summed."""

    @property
    def sequence_error_rate(self) -> float:
        """The share of wrong answers, in percent."""
        return 100 * self.wrong_sequences / self.rows

    @property
    def symbol_error_rate(self) -> float:
        """Edits over right symbols, in percent; long wrong answers can take it over 100."""
        if self.symbols == 0:
            raise UserError("An error rate needs right answers with at least one symbol.")
        return 100 * self.edits / self.symbols

    def __add__(self, other: EditErrorCounts) -> EditErrorCounts:
        sums = {name: value + getattr(other, name) for name, value in asdict(self).items()}
        return EditErrorCounts(**sums)

    def __str__(self) -> str:
        return f"{self.sequence_error_rate:.1f} % of {self.rows} wrong, {self.symbol_error_rate:.1f} % of their {self.symbols} symbols"


def count_edit_errors(outputs: Sequence[Symbols], all_references: Sequence[Sequence[Symbols]]) -> EditErrorCounts:
    """Compare each output with its right answers; of equally near ones the first counts."""
    check_same_length(outputs, all_references)
    edits = symbols = wrong_sequences = 0
    for output, right in zip(outputs, all_references, strict=True):
        if not right:
            raise UserError("There is no right answer to compare an output with.")
        distances = [Levenshtein.distance(output, answer) for answer in right]
        nearest = distances.index(min(distances))
        edits += distances[nearest]
        symbols += len(right[nearest])
        wrong_sequences += distances[nearest] > 0
    return EditErrorCounts(wrong_sequences, len(outputs), edits, symbols)


def without_stress(phonemes: Symbols) -> list[str]:
    """ARPAbet without the digit that says how a vowel is stressed.

    >>> without_stress(["HH", "AH0", "L", "OW1"])
    ['HH', 'AH', 'L', 'OW']
    """
    return [phoneme.rstrip("012") for phoneme in phonemes]


def pronunciation_errors(outputs: Sequence[str], all_references: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Word and phoneme error rate of phonemes between spaces, in percent; a word is wrong if it is no right answer.

    The field reports them without stress; with stress every digit must be right too.
    """
    predicted = [output.split() for output in outputs]
    right = [[answer.split() for answer in each] for each in all_references]
    stressed = count_edit_errors(predicted, right)
    bare = count_edit_errors(
        [without_stress(each) for each in predicted], [[without_stress(answer) for answer in each] for each in right]
    )
    return {
        "word_error_rate": bare.sequence_error_rate,
        "phoneme_error_rate": bare.symbol_error_rate,
        "word_error_rate_with_stress": stressed.sequence_error_rate,
        "phoneme_error_rate_with_stress": stressed.symbol_error_rate,
    }
