"""Metrics of predicted tokens: perplexity and accuracy.

Perplexity is the number of equally probable choices with the uncertainty of the model, per token, word or character.

The perplexities per token of two tokenizers cannot be compared: with longer tokens each prediction is harder, and there
are fewer predictions. So the unit is part of the value, and values with different units are never compared. Bits per
character of the same text can be compared for all tokenizers.

Accuracy is the share of correct predictions, by token or by sentence. The result stores its two counts, so that batches
can be summed: the mean of the accuracies of batches would weight a token in a small batch more than one in a large
batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from seq2see.core.batch import IGNORE_INDEX
from seq2see.core.errors import UserError
from seq2see.data.windows import Unit


@dataclass(frozen=True)
class Perplexity:
    """exp(loss / count): the geometric mean of 1 / p over all predictions, with its unit.

    (Some course notes call it the harmonic mean of the number of choices; it is the geometric mean.)

    >>> print(Perplexity(loss=4 * math.log(8), count=4, unit="character"))
    8.00 per character (3.000 bits per character)
    """

    loss: float
    """The sum of the negative log-likelihoods of the text, in nats."""
    count: int
    """The number of predictions: tokens (including <eos>), words or characters."""
    unit: Unit
    characters: int | None = None
    """The length of the text in characters, for bits per character; not necessary if the unit is the character."""
    tokenizer: str = ""
    """The name or fingerprint of the tokenizer. Tokens of two tokenizers are different units."""

    def __post_init__(self) -> None:
        if self.count <= 0:
            raise UserError(f"A perplexity needs at least one {self.unit}, but the count is {self.count}.")

    @property
    def value(self) -> float:
        """The perplexity; infinite if it exceeds the range of floating-point numbers."""
        try:
            return math.exp(self.loss / self.count)
        except OverflowError:
            return math.inf

    @property
    def bits_per_character(self) -> float:
        """The loss in bits, divided by the number of characters of the text: one scale for all tokenizers."""
        characters = self.characters or (self.count if self.unit == "character" else None)
        if not characters:
            raise UserError(
                "Bits per character need the number of characters of the text, which is not set.",
                hint="Pass `characters` to Perplexity.",
            )
        return self.loss / math.log(2) / characters

    def __str__(self) -> str:
        tokenizer = f" of {self.tokenizer}" if self.tokenizer else ""
        has_characters = self.unit == "character" or self.characters
        bits = f" ({self.bits_per_character:.3f} bits per character)" if has_characters else ""
        return f"{self.value:.2f} per {self.unit}{tokenizer}{bits}"

    def __lt__(self, other: Perplexity) -> bool:
        """Whether this perplexity is better; raises an error if the units or tokenizers differ."""
        if (self.unit, self.tokenizer) != (other.unit, other.tokenizer):
            raise UserError(
                f"Perplexities of different units cannot be compared: {self} and {other}.",
                hint="Compare their bits per character on the same text instead.",
            )
        return self.value < other.value


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
