"""The output of an encoder."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Int, Shaped  # noqa: F401 - annotations of inherited fields are evaluated here
from torch import Tensor

from seq2see.core.batch import PackedSequences, Sequences


@dataclass(frozen=True)
class EncoderOutput(Sequences):
    """The hidden state of each position of the source, and one pooled vector for the whole source.

    The first encoder-decoders used only the pooled vector, the context vector C = q(h₁, ..., h_T) of the course notes;
    attention uses the hidden states h_t of all positions. Every encoder returns both, so that every decoder can use it.
    """

    pooled: Float[Tensor, "row width"]
    packed_source: PackedSequences | None = None
    """The source, if its rows are packed: the decoder needs its document ids for the attention mask."""
