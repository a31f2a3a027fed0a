"""Length penalties: how a sum of log-probabilities becomes a score that is fair to long answers.

Every token makes the sum smaller, so a plain sum prefers short answers. A penalty is a small class that
is its own setting. `lengths` counts the tokens whose log-probabilities were summed, <eos> among them, so
it is never 0. All penalties rise or fall steadily with the length; beam search relies on that when it
asks what a hypothesis can still become.
"""

from __future__ import annotations

from typing import Annotated, Literal

from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from seq2see.core.settings import Settings

Lengths = Int[Tensor, "*#any"] | int


class NoPenalty(Settings):
    """The plain log-probability of the whole answer."""

    kind: Literal["none"] = "none"

    def __call__(self, sums: Float[Tensor, "*any"], lengths: Lengths) -> Float[Tensor, "*any"]:
        return sums


class Average(Settings):
    """Divide by length ** alpha; alpha = 1 is the mean log-probability of a token.

    This is what Hugging Face and fairseq call the length penalty.
    """

    kind: Literal["average"] = "average"
    alpha: float = 1.0
    """0 divides by nothing, 1 by the whole length."""

    def __call__(self, sums: Float[Tensor, "*any"], lengths: Lengths) -> Float[Tensor, "*any"]:
        return sums / lengths**self.alpha


class GNMT(Settings):
    """Divide by ((5 + length) / 6) ** alpha: a division that short answers feel less.

    Wu et al. 2016 (Google's Neural Machine Translation System), eq. 14, without the coverage term.
    """

    kind: Literal["gnmt"] = "gnmt"
    alpha: float = 0.6
    """0 divides by nothing; the paper finds 0.6 to 0.7 best."""

    def __call__(self, sums: Float[Tensor, "*any"], lengths: Lengths) -> Float[Tensor, "*any"]:
        return sums / ((5 + lengths) / 6) ** self.alpha


LengthPenalty = Annotated[NoPenalty | Average | GNMT, Field(discriminator="kind")]
