"""What an encoder hands on to a decoder."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Int, Shaped  # noqa: F401 - the inherited fields' annotations are read here too
from torch import Tensor

from seq2see.core.batch import PackedSequences, Sequences


@dataclass(frozen=True)
class EncoderOutput(Sequences):
    """A vector for each place of the source, and one that sums the whole source up.

    The first encoder-decoders passed on nothing but the summary, the context vector C = q(h₁, ..., h_T) of the notes;
    attention looks at the vectors h_t of all places. Every encoder gives both, so that any decoder fits.
    """

    pooled: Float[Tensor, "row width"]
    packed_source: PackedSequences | None = None
    """What was read, if several texts lie on a line: the decoder must know which part of it is whose."""
