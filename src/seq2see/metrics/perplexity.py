"""Perplexity: how many equally likely choices a model hesitates between, and per what.

Perplexity per token of one tokenizer says nothing about perplexity per token of another: with longer
pieces each single guess is harder, and there are fewer of them. So the unit is part of the value, and
two units are never compared. Bits per character can be compared on the same text for every tokenizer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from seq2see.core.errors import UserError
from seq2see.sequences.windows import Unit


@dataclass(frozen=True)
class Perplexity:
    """exp(loss / count): the geometric mean of 1 / p over all guesses, with its unit.

    (The notes call it a harmonic mean of choices; it is the geometric one.)

    >>> print(Perplexity(loss=4 * math.log(8), count=4, unit="character"))
    8.00 per character (3.000 bits per character)
    """

    loss: float
    """Summed negative log-likelihood of the text, in nats."""
    count: int
    """How many guesses were made: tokens (with their <eos>), words or characters."""
    unit: Unit
    characters: int | None = None
    """Length of the same text in characters, for bits per character; known anyway if that is the unit."""
    tokenizer: str = ""
    """Whose tokens were counted: a name or fingerprint. Tokens of two tokenizers are two units."""

    def __post_init__(self) -> None:
        if self.count <= 0:
            raise UserError(f"A perplexity needs at least one {self.unit}, but none was counted.")

    @property
    def value(self) -> float:
        """The perplexity itself; infinite if the model was too wrong for a floating-point number."""
        try:
            return math.exp(self.loss / self.count)
        except OverflowError:
            return math.inf

    @property
    def bits_per_character(self) -> float:
        """The loss in bits, divided by the characters of the text: the same scale for all tokenizers."""
        characters = self.characters or (self.count if self.unit == "character" else None)
        if not characters:
            raise UserError(
                "The characters of this text were not counted.",
                hint="Give `characters` to get bits per character.",
            )
        return self.loss / math.log(2) / characters

    def __str__(self) -> str:
        of = f" of {self.tokenizer}" if self.tokenizer else ""
        known = self.unit == "character" or self.characters
        bits = f" ({self.bits_per_character:.3f} bits per character)" if known else ""
        return f"{self.value:.2f} per {self.unit}{of}{bits}"

    def __lt__(self, other: Perplexity) -> bool:
        """True if this one is better; refuses if the two are not on one scale."""
        if (self.unit, self.tokenizer) != (other.unit, other.tokenizer):
            raise UserError(
                f"Perplexities of different units cannot be compared: {self} and {other}.",
                hint="Compare their bits per character on the same text instead.",
            )
        return self.value < other.value
