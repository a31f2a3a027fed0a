"""Error rates by edit distance: of pronunciations, and of speech recognition with intervals that resample speakers.

The error rate of speech recognition and of grapheme-to-phoneme conversion is the number of edits (inserted, deleted and
substituted symbols; Levenshtein 1966) divided by the number of reference symbols. The symbols are words for the word
error rate, characters for the character error rate. A word with two pronunciations has two references; the output is
compared with the nearest one.

Recordings of one speaker are not independent: a voice that is hard to understand causes many errors. So the bootstrap
draws speakers, with all of their recordings (Bisani & Ney 2004).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from seq2see.core.errors import UserError
from seq2see.core.seeds import generator
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


SAMPLES = 1000
"""The number of resampled test sets."""
SYLLABLE = re.compile(r"^[a-zü:]+[1-5]$")
"""A toned syllable of pinyin: letters, and the number of the tone; 5 is the neutral tone."""


@dataclass(frozen=True)
class ErrorRate:
    """An error rate in percent, and its 95 % interval."""

    value: float
    low: float
    high: float
    edits: int
    symbols: int
    groups: int
    """The number of speakers that were resampled; a recording whose speaker is unknown counts as one."""

    def __str__(self) -> str:
        return f"{self.value:.2f} % ({self.low:.2f} to {self.high:.2f})"


def edit_counts(
    outputs: Sequence[Sequence[Hashable]], references: Sequence[Sequence[Hashable]]
) -> list[tuple[int, int]]:
    """For each recording the number of edits, and of symbols in the reference."""
    from rapidfuzz.distance import Levenshtein  # imported here: training does not need it

    check_same_length(outputs, references)
    rows = zip(outputs, references, strict=True)
    return [(Levenshtein.distance(output, reference), len(reference)) for output, reference in rows]


def error_rate(counts: Sequence[tuple[int, int]], speakers: Sequence[str] = (), *, seed: int = 1) -> ErrorRate:
    """Edits divided by symbols; a recording whose speaker is unknown (an empty name) is resampled by itself."""
    names: list[Hashable] = [name or index for index, name in enumerate(speakers or [""] * len(counts))]
    groups = {name: index for index, name in enumerate(dict.fromkeys(names))}
    sums = np.zeros((len(groups), 2), np.int64)
    for name, each in zip(names, counts, strict=True):
        sums[groups[name]] += each
    draws = generator(seed, "bootstrap").multinomial(len(sums), np.full(len(sums), 1 / len(sums)), size=SAMPLES) @ sums
    rates = 100 * draws[:, 0] / np.maximum(draws[:, 1], 1)
    edits, symbols = (int(each) for each in sums.sum(0))
    low, high = np.quantile(rates, [0.025, 0.975])
    return ErrorRate(100 * edits / max(symbols, 1), float(low), float(high), edits, symbols, len(groups))


def words_of(text: str) -> list[str]:
    """The words of a text."""
    return text.split()


def characters_of(text: str) -> list[str]:
    """The characters of a text, spaces included."""
    return list(text)


UNITS: dict[str, Callable[[str], list[str]]] = {"character": characters_of, "word": words_of}
"""The units of the error rates."""


def error_rates(
    outputs: Sequence[str], references: Sequence[str], speakers: Sequence[str] = ()
) -> dict[str, ErrorRate]:
    """The character and the word error rate."""
    return {
        unit: error_rate(edit_counts([*map(split, outputs)], [*map(split, references)]), speakers)
        for unit, split in UNITS.items()
    }


@dataclass(frozen=True)
class ToneErrors:
    """The errors of toned syllables: all, and those with right letters and a wrong tone."""

    syllables: int
    edits: int
    """All wrong syllables."""
    tone_edits: int
    """The wrong syllables that are right without the tones."""

    @property
    def syllable_error_rate(self) -> float:
        """All wrong syllables, in percent of those of the references."""
        return 100 * self.edits / max(self.syllables, 1)

    @property
    def tone_error_rate(self) -> float:
        """Syllables with right letters and a wrong tone, in percent."""
        return 100 * self.tone_edits / max(self.syllables, 1)


def is_toned(texts: Sequence[str]) -> bool:
    """Whether these texts are syllables with tones.

    >>> is_toned(["ni3 hao3", "ma5"]), is_toned(["hello"])
    (True, False)
    """
    syllables = [syllable for text in texts for syllable in text.split()]
    return bool(syllables) and all(SYLLABLE.match(syllable) for syllable in syllables)


def tone_errors(outputs: Sequence[str], references: Sequence[str]) -> ToneErrors:
    """Count the wrong syllables, and those that are right without their tones.

    >>> tone_errors(["ni2 ha3"], ["ni3 hao3"])
    ToneErrors(syllables=2, edits=2, tone_edits=1)
    """
    spoken, expected = [*map(words_of, outputs)], [*map(words_of, references)]
    toned = edit_counts(spoken, expected)
    toneless = edit_counts([*map(_without_tones, spoken)], [*map(_without_tones, expected)])
    edits, syllables = (sum(column) for column in zip(*toned, strict=True))
    return ToneErrors(syllables, edits, edits - sum(count for count, _ in toneless))


def _without_tones(syllables: Sequence[str]) -> list[str]:
    return [syllable.rstrip("12345") for syllable in syllables]


@dataclass(frozen=True)
class TimingErrors:
    """The distances of the middles of aligned letters from the true times of the letters."""

    letters: int
    within: float
    """The percentage of letters whose middle lies in the true interval, extended by the tolerance on both sides."""
    seconds: float
    """The mean distance of the middle from the true interval; inside the interval it is 0."""


Interval = tuple[float, float]


def timing_errors(aligned: Sequence[Interval], truth: Sequence[Interval], tolerance: float) -> TimingErrors:
    """Compare the times of aligned letters with the true ones.

    >>> timing_errors([(0.0, 0.2), (1.0, 1.2)], [(0.0, 0.3), (0.5, 0.8)], 0.0)
    TimingErrors(letters=2, within=50.0, seconds=0.15)
    """
    middles = [(start + end) / 2 for start, end in aligned]
    distances = [max(start - middle, middle - end, 0.0) for middle, (start, end) in zip(middles, truth, strict=True)]
    if not distances:
        return TimingErrors(0, 0.0, 0.0)
    within = sum(distance <= tolerance for distance in distances)
    return TimingErrors(len(distances), 100 * within / len(distances), round(float(np.mean(distances)), 9))
