"""What an encoder hands on to a decoder."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Int, Shaped  # noqa: F401 - the inherited fields' annotations are read here too
from torch import Tensor

from seq2see.core.batch import Sequences, Strung


@dataclass(frozen=True)
class Memory(Sequences):
    """A vector for each place of the source, and one that sums the whole source up.

    The first encoder-decoders passed on nothing but the summary, the context vector C = q(h₁, ..., h_T) of the notes;
    attention looks at the vectors h_t of all places. Every encoder gives both, so that any decoder fits.
    """

    summary: Float[Tensor, "row width"]
    read: Strung | None = None
    """What was read, if several texts lie on a line: the decoder must know which part of it is whose."""
