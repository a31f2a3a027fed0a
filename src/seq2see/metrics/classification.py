"""How well labels are told apart: which was taken for which, and what follows from that for each of them.

Of one label, precision is the share of its answers that are right, recall the share of its cases that are found, and F1
their harmonic mean (van Rijsbergen 1979, chapter 7). Accuracy hides a rare label that is never found; macro F1, the
plain mean over the labels, does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from seq2see.core.errors import UserError
from seq2see.metrics.checks import check_same_length


@dataclass(frozen=True)
class PrecisionRecallF1:
    """What is known of one label."""

    precision: float
    """0 if the label was never answered."""
    recall: float
    """0 if there was no case of it."""
    support: int
    """How many cases of it there were."""

    @property
    def f1(self) -> float:
        """2 · precision · recall / (precision + recall); 0 if both are."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


@dataclass(frozen=True)
class ConfusionMatrix:
    """How often each label (row) was taken for each label (column).

    >>> Confusion.of(["a", "b"], truths=["a", "a", "b"], answers=["a", "b", "b"]).counts
    ((1, 1), (0, 1))
    """

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(labels: Sequence[str], references: Sequence[str], answers: Sequence[str]) -> ConfusionMatrix:
        """Count answers to cases whose truth is known."""
        check_same_length(answers, references)
        found = Counter(zip(references, answers, strict=True))
        if strange := {label for pair in found for label in pair} - set(labels):
            raise UserError(f"{min(strange)!r} is none of the labels.")
        return ConfusionMatrix(tuple(labels), tuple(tuple(found[row, column] for column in labels) for row in labels))

    @property
    def total(self) -> int:
        """How many cases there were."""
        return sum(map(sum, self.counts))

    @property
    def accuracy(self) -> float:
        """The share of right answers."""
        return sum(row[place] for place, row in enumerate(self.counts)) / self.total

    @property
    def scores(self) -> dict[str, PrecisionRecallF1]:
        """What is known of each label."""
        answered = [sum(column) for column in zip(*self.counts, strict=True)]
        found = {}
        for place, (label, row) in enumerate(zip(self.labels, self.counts, strict=True)):
            right, cases = row[place], sum(row)
            precision = right / answered[place] if answered[place] else 0.0
            found[label] = PrecisionRecallF1(precision, right / cases if cases else 0.0, cases)
        return found

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the labels that there were cases of, or answers."""
        seen = [each for each, row, column in self._with_counts() if row or column]
        return sum(each.f1 for each in seen) / len(seen)

    def _with_counts(self) -> list[tuple[PrecisionRecallF1, int, int]]:
        rows, columns = map(sum, self.counts), map(sum, zip(*self.counts, strict=True))
        return list(zip(self.scores.values(), rows, columns, strict=True))
