"""Length penalties: they convert a sum of log-probabilities to a score that can be compared across lengths.

Every token makes the sum smaller, so a plain sum prefers short outputs. A penalty is a small class that is its own
setting. `lengths` is the number of summed log-probabilities, including that of <eos>, so it is never 0. Every penalty
is monotonic in the length: beam search needs this property for the best attainable score of a hypothesis.
"""

from __future__ import annotations

from typing import Annotated, Literal

from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from seq2see.core.settings import Settings

Lengths = Int[Tensor, "*#any"] | int


class NoPenalty(Settings):
    """The log-probability of the whole output, without a length penalty."""

    kind: Literal["none"] = "none"

    def __call__(self, sums: Float[Tensor, "*any"], lengths: Lengths) -> Float[Tensor, "*any"]:
        return sums


class Average(Settings):
    """Divide by length ** alpha; alpha = 1 is the mean log-probability of a token.

    This is the length penalty of Hugging Face and fairseq.
    """

    kind: Literal["average"] = "average"
    alpha: float = 1.0
    """The exponent of the length: 0 is no penalty, 1 divides by the length."""

    def __call__(self, sums: Float[Tensor, "*any"], lengths: Lengths) -> Float[Tensor, "*any"]:
        return sums / lengths**self.alpha


class GNMT(Settings):
    """Divide by ((5 + length) / 6) ** alpha: a penalty with less effect on short outputs.

    Wu et al. 2016 (Google's Neural Machine Translation System), eq. 14, without the coverage term.
    """

    kind: Literal["gnmt"] = "gnmt"
    alpha: float = 0.6
    """The exponent: 0 is no penalty; the paper finds 0.6 to 0.7 best."""

    def __call__(self, sums: Float[Tensor, "*any"], lengths: Lengths) -> Float[Tensor, "*any"]:
        return sums / ((5 + lengths) / 6) ** self.alpha


LengthPenalty = Annotated[NoPenalty | Average | GNMT, Field(discriminator="kind")]
