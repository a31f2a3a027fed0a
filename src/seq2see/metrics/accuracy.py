"""Accuracy: which share of the answers is right, token by token or sentence by sentence.

The result keeps its two counts, so that batches can be added up: the mean of the batches' shares would
give a token in a small batch more weight than one in a large batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from seq2see.core.batch import IGNORE_INDEX
from seq2see.core.errors import UserError
from seq2see.metrics.checks import check_same_length


@dataclass(frozen=True)
class Accuracy:
    """Right answers among those that were asked for.

    >>> print(Accuracy(3, 4) + Accuracy(0, 1))
    60.0 % (3 of 5)
    """

    correct: int
    total: int

    @property
    def value(self) -> float:
        """The share of right answers, between 0 and 1."""
        if self.total == 0:
            raise UserError("An accuracy needs at least one answer, but none was asked for.")
        return self.correct / self.total

    def __add__(self, other: Accuracy) -> Accuracy:
        return Accuracy(self.correct + other.correct, self.total + other.total)

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} % ({self.correct} of {self.total})"


def token_accuracy(predictions: Int[Tensor, "row ..."], labels: Int[Tensor, "row ..."]) -> Accuracy:
    """How many labels were predicted, the real past given at each step (teacher forcing)."""
    if predictions.shape != labels.shape:
        raise ValueError(f"predictions {tuple(predictions.shape)} but labels {tuple(labels.shape)}")
    total = labels != IGNORE_INDEX
    correct = (predictions == labels) & total
    return Accuracy(int(correct.sum()), int(total.sum()))


def sentence_accuracy(outputs: Sequence[object], references: Sequence[object]) -> Accuracy:
    """How many outputs equal their reference exactly: strings, or lists of tokens."""
    check_same_length(outputs, references)
    equal = [output == reference for output, reference in zip(outputs, references, strict=True)]
    return Accuracy(sum(equal), len(equal))
