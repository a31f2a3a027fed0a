"""The convolutional encoder: the source read through windows, all places at once."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt
from torch import nn

from seq2see.core.batch import Sequences
from seq2see.core.settings import Settings
from seq2see.layers.convolution import ConvolutionBlock
from seq2see.layers.padding import blank, mean_real
from seq2see.models.memory import Memory

KERNEL = 3
"""Places one convolution sees at once: its own and its two neighbours."""


class ConvolutionalEncoderSettings(Settings):
    """An encoder of gated convolutions on top of each other."""

    kind: Literal["convolutional"] = "convolutional"
    width: PositiveInt = 256
    """Numbers in each vector."""
    depth: PositiveInt = 4
    """Convolutions on top of each other; each sees three places, together they see 2 · depth + 1."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Share of the numbers that is set to zero before each convolution while training."""


class ConvolutionalEncoder(nn.Module):
    """A stack of gated convolutions; Gehring et al. 2017. The summary is the mean of the real places."""

    def __init__(self, input_width: int, width: int, depth: int, kernel: int, dropout: float = 0.0):
        super().__init__()
        self.enter = nn.Linear(input_width, width)
        self.blocks = nn.ModuleList(ConvolutionBlock(width, kernel, dropout) for _ in range(depth))

    @staticmethod
    def of(settings: ConvolutionalEncoderSettings, input_width: int | None = None) -> ConvolutionalEncoder:
        """The encoder that the settings describe; its input has the same width, unless told otherwise."""
        width = settings.width
        return ConvolutionalEncoder(input_width or width, width, settings.depth, KERNEL, settings.dropout)

    def forward(self, vectors: Sequences) -> Memory:
        """The memory of these source vectors."""
        vectors = Sequences(self.enter(blank(vectors).values), vectors.lengths)
        for block in self.blocks:
            vectors = block(vectors)
        return Memory(vectors.values, vectors.lengths, mean_real(vectors))
