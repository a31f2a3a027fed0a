"""Encoder-only models: an encoder of a whole text or image, and a head for labels, tags, tokens or embeddings.

Every encoder can be used. Compare `language_model.py`: there a decoder generates a text and each position depends on
the positions before it; here every position may depend on the whole text, and all outputs are computed at once.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from seq2see.core.batch import Batch, Images, Sequences
from seq2see.models.encoder_output import EncoderOutput


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
