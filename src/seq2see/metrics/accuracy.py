"""Accuracy: which share of the answers is right, token by token or sentence by sentence.

The result keeps its two counts, so that batches can be added up: the mean of the batches' shares would
give a token in a small batch more weight than one in a large batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from seq2see.core.batch import NOT_ASKED
from seq2see.core.errors import UserError
from seq2see.metrics.pairs import require_pairs


@dataclass(frozen=True)
class Accuracy:
    """Right answers among those that were asked for.

    >>> print(Accuracy(3, 4) + Accuracy(0, 1))
    60.0 % (3 of 5)
    """

    right: int
    asked: int

    @property
    def value(self) -> float:
        """The share of right answers, between 0 and 1."""
        if self.asked == 0:
            raise UserError("An accuracy needs at least one answer, but none was asked for.")
        return self.right / self.asked

    def __add__(self, other: Accuracy) -> Accuracy:
        return Accuracy(self.right + other.right, self.asked + other.asked)

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} % ({self.right} of {self.asked})"


def token_accuracy(predictions: Int[Tensor, "row ..."], labels: Int[Tensor, "row ..."]) -> Accuracy:
    """How many labels were predicted, the real past given at each step (teacher forcing)."""
    if predictions.shape != labels.shape:
        raise ValueError(f"predictions {tuple(predictions.shape)} but labels {tuple(labels.shape)}")
    asked = labels != NOT_ASKED
    right = (predictions == labels) & asked
    return Accuracy(int(right.sum()), int(asked.sum()))


def sentence_accuracy(outputs: Sequence[object], references: Sequence[object]) -> Accuracy:
    """How many outputs equal their reference exactly: strings, or lists of tokens."""
    require_pairs(outputs, references)
    equal = [output == reference for output, reference in zip(outputs, references, strict=True)]
    return Accuracy(sum(equal), len(equal))
