"""Edit distance: the number of inserted, deleted and substituted symbols between an output and a reference.

The error rate of speech recognition and of grapheme-to-phoneme conversion is the number of edits (Levenshtein 1966)
divided by the number of reference symbols. A word with two pronunciations has two references; the output is compared
with the nearest one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from seq2see.core.errors import UserError
from seq2see.metrics.classification import check_same_length

Symbols = Sequence[str]


@dataclass(frozen=True)
class EditErrorCounts:
    """The number of wrong outputs, and of the edits that correct them; as counts they can be summed over batches.

    >>> print(EditErrorCounts(wrong_sequences=1, rows=4, edits=3, symbols=20))
    25.0 % of 4 wrong, 15.0 % of their 20 symbols
    """

    wrong_sequences: int
    """The number of outputs that equal none of their references."""
    rows: int
    edits: int
    """The sum of the edit distances to the nearest references."""
    symbols: int
    """The sum of the lengths of those references."""

    @property
    def sequence_error_rate(self) -> float:
        """The share of wrong outputs, in percent."""
        return 100 * self.wrong_sequences / self.rows

    @property
    def symbol_error_rate(self) -> float:
        """Edits divided by reference symbols, in percent; long wrong outputs can exceed 100."""
        if self.symbols == 0:
            raise UserError("An error rate needs references with at least one symbol.")
        return 100 * self.edits / self.symbols

    def __add__(self, other: EditErrorCounts) -> EditErrorCounts:
        sums = {name: value + getattr(other, name) for name, value in asdict(self).items()}
        return EditErrorCounts(**sums)

    def __str__(self) -> str:
        symbols = f"{self.symbol_error_rate:.1f} % of their {self.symbols} symbols"
        return f"{self.sequence_error_rate:.1f} % of {self.rows} wrong, {symbols}"


def count_edit_errors(outputs: Sequence[Symbols], all_references: Sequence[Sequence[Symbols]]) -> EditErrorCounts:
    """Compare each output with its nearest reference; among equally near references the first one is used."""
    from rapidfuzz.distance import Levenshtein  # imported here: training does not need it

    check_same_length(outputs, all_references)
    edits = symbols = wrong_sequences = 0
    for output, references in zip(outputs, all_references, strict=True):
        if not references:
            raise UserError("An output has no reference to compare it with.")
        distances = [Levenshtein.distance(output, reference) for reference in references]
        nearest = distances.index(min(distances))
        edits += distances[nearest]
        symbols += len(references[nearest])
        wrong_sequences += distances[nearest] > 0
    return EditErrorCounts(wrong_sequences, len(outputs), edits, symbols)


def without_stress(phonemes: Symbols) -> list[str]:
    """ARPAbet phonemes without the digits that mark stress.

    >>> without_stress(["HH", "AH0", "L", "OW1"])
    ['HH', 'AH', 'L', 'OW']
    """
    return [phoneme.rstrip("012") for phoneme in phonemes]


def pronunciation_errors(outputs: Sequence[str], all_references: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Word and phoneme error rate in percent, of phonemes separated by spaces.

    Papers report error rates without stress; with stress every stress digit must be correct, too.
    """
    predicted = [output.split() for output in outputs]
    expected = [[reference.split() for reference in each] for each in all_references]
    with_stress = count_edit_errors(predicted, expected)
    unstressed = count_edit_errors(
        [without_stress(each) for each in predicted],
        [[without_stress(reference) for reference in each] for each in expected],
    )
    return {
        "word_error_rate": unstressed.sequence_error_rate,
        "phoneme_error_rate": unstressed.symbol_error_rate,
        "word_error_rate_with_stress": with_stress.sequence_error_rate,
        "phoneme_error_rate_with_stress": with_stress.symbol_error_rate,
    }
