"""Encoder-only models: an encoder of a whole text or image, and a head for labels, tags, tokens or embeddings.

Every encoder can be used. Compare `language_model.py`: there a decoder generates a text and each position depends on
the positions before it; here every position may depend on the whole text, and all outputs are computed at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxtyping import Float, Int, Shaped  # noqa: F401 - annotations of inherited fields are evaluated here
from torch import Tensor, nn

from seq2see.core.batch import Batch, Images, PackedSequences, Sequences


@dataclass(frozen=True)
class EncoderOutput(Sequences):
    """The hidden state of each position of the source, and one pooled vector for the whole source.

    The first encoder-decoders used only the pooled vector, the context vector C = q(h₁, ..., h_T) of the course notes;
    attention uses the hidden states h_t of all positions. Every encoder returns both, so that every decoder can use it.
    """

    pooled: Float[Tensor, "row width"]
    packed_source: PackedSequences | None = None
    """The source, if its rows are packed: the decoder needs its document ids for the attention mask."""


class EncoderModel(nn.Module):
    """An encoder and a head; subclasses differ in the hidden states that the head gets."""

    def __init__(self, source: nn.Module, encoder: nn.Module, head: nn.Module):
        super().__init__()
        self.source, self.encoder = source, encoder
        self.head: Any = head

    def forward(self, batch: Batch) -> Float[Tensor, "row position class"]:
        """The logits at every position that has an output."""
        return self.head(self.hidden(batch).values)

    def hidden(self, batch: Batch) -> Sequences:
        """The input of the head: here the hidden state of every token."""
        assert batch.source is not None, "an encoder model needs a source"
        encoded = self.encode(batch.source)
        return Sequences(encoded.values, encoded.lengths)

    def pooled(self, source: Sequences | Images) -> Float[Tensor, "row width"]:
        """One vector for each whole text or image: here the encoder's own pooled vector."""
        return self.encode(source).pooled

    def encode(self, source: Sequences | Images) -> EncoderOutput:
        """The encoder output for the text or the image."""
        return self.encoder(self.source(source))
