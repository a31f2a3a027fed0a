"""Accuracy: the share of correct predictions, by token or by sentence.

The result stores its two counts, so that batches can be summed: the mean of the accuracies of batches would weight a
token in a small batch more than one in a large batch. `check_same_length` serves all metrics that compare outputs with
references.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from seq2see.core.batch import IGNORE_INDEX
from seq2see.core.errors import UserError


def check_same_length(outputs: Sequence[object], references: Sequence[object]) -> None:
    """Raise an error if there are no outputs, or if the numbers of outputs and references differ."""
    if len(outputs) != len(references):
        raise UserError(
            f"There are {len(outputs)} outputs but {len(references)} references.",
            hint="Each output needs one reference, in the same order.",
        )
    if not outputs:
        raise UserError("There are no outputs to score.")


@dataclass(frozen=True)
class Accuracy:
    """The number of correct predictions and the number of all predictions.

    >>> print(Accuracy(3, 4) + Accuracy(0, 1))
    60.0 % (3 of 5)
    """

    correct: int
    total: int

    @property
    def value(self) -> float:
        """The share of correct predictions, between 0 and 1."""
        if self.total == 0:
            raise UserError("An accuracy needs at least one prediction, but there are none.")
        return self.correct / self.total

    def __add__(self, other: Accuracy) -> Accuracy:
        return Accuracy(self.correct + other.correct, self.total + other.total)

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} % ({self.correct} of {self.total})"


def token_accuracy(predictions: Int[Tensor, "row ..."], labels: Int[Tensor, "row ..."]) -> Accuracy:
    """The accuracy of next-token predictions with teacher forcing; labels with IGNORE_INDEX are not counted."""
    if predictions.shape != labels.shape:
        raise ValueError(f"predictions {tuple(predictions.shape)} but labels {tuple(labels.shape)}")
    label_mask = labels != IGNORE_INDEX
    is_correct = (predictions == labels) & label_mask
    return Accuracy(int(is_correct.sum()), int(label_mask.sum()))


def sentence_accuracy(outputs: Sequence[object], references: Sequence[object]) -> Accuracy:
    """The share of outputs that equal their reference exactly; both are strings or lists of tokens."""
    check_same_length(outputs, references)
    is_equal = [output == reference for output, reference in zip(outputs, references, strict=True)]
    return Accuracy(sum(is_equal), len(is_equal))
