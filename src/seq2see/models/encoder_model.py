"""Readers: take a whole text in, both ways at once, and answer a question about it.

Any encoder goes. Compare `language_model.py`: there a decoder writes, and each place knows only what comes before it;
here nothing is written, so each place may know all of the text, and the answers are given all at once.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from seq2see.core.batch import Batch, Images, Sequences
from seq2see.models.encoder_output import EncoderOutput


class EncoderModel(nn.Module):
    """An encoder that reads, and a head that answers; what is asked, and where, is what its kinds differ in."""

    def __init__(self, source: nn.Module, encoder: nn.Module, head: nn.Module):
        super().__init__()
        self.source, self.encoder = source, encoder
        self.head: Any = head

    def forward(self, batch: Batch) -> Float[Tensor, "row place answer"]:
        """The scores of all answers, at every place that can be asked."""
        return self.head(self.hidden(batch).values)

    def hidden(self, batch: Batch) -> Sequences:
        """A vector for every place that can be asked: by itself, each token's."""
        assert batch.source is not None, "a reader needs a text"
        read = self.encode(batch.source)
        return Sequences(read.values, read.lengths)

    def pooled(self, source: Sequences | Images) -> Float[Tensor, "row width"]:
        """One vector for each whole text or image: by itself, the encoder's own summary."""
        return self.encode(source).pooled

    def encode(self, source: Sequences | Images) -> EncoderOutput:
        """Read the text, or look at the image."""
        return self.encoder(self.source(source))
