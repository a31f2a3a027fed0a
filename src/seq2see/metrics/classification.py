"""Classification metrics: the confusion matrix, and precision, recall and F1 of each label.

Precision is the share of the predictions of a label that are correct, recall is the share of its examples that are
found, and F1 is their harmonic mean (van Rijsbergen 1979, chapter 7). Accuracy does not show that a rare label is never
found; macro F1, the unweighted mean over the labels, does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from seq2see.core.errors import UserError
from seq2see.metrics.checks import check_same_length


@dataclass(frozen=True)
class PrecisionRecallF1:
    """The metrics of one label."""

    precision: float
    """0 if the label is never predicted."""
    recall: float
    """0 if there is no example of the label."""
    support: int
    """The number of examples of the label."""

    @property
    def f1(self) -> float:
        """2 · precision · recall / (precision + recall); 0 if both are."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


@dataclass(frozen=True)
class ConfusionMatrix:
    """How often each label (row) is predicted as each label (column).

    >>> ConfusionMatrix.of(["a", "b"], references=["a", "a", "b"], predictions=["a", "b", "b"]).counts
    ((1, 1), (0, 1))
    """

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(labels: Sequence[str], references: Sequence[str], predictions: Sequence[str]) -> ConfusionMatrix:
        """Count the pairs of reference and prediction."""
        check_same_length(predictions, references)
        pairs = Counter(zip(references, predictions, strict=True))
        if unknown := {label for pair in pairs for label in pair} - set(labels):
            raise UserError(f"{min(unknown)!r} is none of the labels.")
        return ConfusionMatrix(tuple(labels), tuple(tuple(pairs[row, column] for column in labels) for row in labels))

    @property
    def total(self) -> int:
        """The number of examples."""
        return sum(map(sum, self.counts))

    @property
    def accuracy(self) -> float:
        """The share of correct predictions."""
        return sum(row[index] for index, row in enumerate(self.counts)) / self.total

    @property
    def scores(self) -> dict[str, PrecisionRecallF1]:
        """The metrics of each label."""
        predicted = [sum(column) for column in zip(*self.counts, strict=True)]
        scores = {}
        for index, (label, row) in enumerate(zip(self.labels, self.counts, strict=True)):
            correct, support = row[index], sum(row)
            precision = correct / predicted[index] if predicted[index] else 0.0
            scores[label] = PrecisionRecallF1(precision, correct / support if support else 0.0, support)
        return scores

    @property
    def macro_f1(self) -> float:
        """The mean F1 of all labels that occur in the references or in the predictions."""
        scores = [each for each, support, predicted in self._with_counts() if support or predicted]
        return sum(each.f1 for each in scores) / len(scores)

    def _with_counts(self) -> list[tuple[PrecisionRecallF1, int, int]]:
        rows, columns = map(sum, self.counts), map(sum, zip(*self.counts, strict=True))
        return list(zip(self.scores.values(), rows, columns, strict=True))
