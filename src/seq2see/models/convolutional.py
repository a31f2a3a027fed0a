"""Convolutional encoders: the source read through windows, all places at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from pydantic import Field, PositiveInt
from torch import nn
from torch.nn import functional

from seq2see.core.batch import Sequences
from seq2see.core.settings import Settings
from seq2see.layers.convolution import ConvolutionBlock
from seq2see.layers.padding import masked_mean, zero_padding
from seq2see.models.encoder_output import EncoderOutput

KERNEL_SIZE = 3
"""Places one convolution sees at once: its own and its two neighbors."""


class GatedCNNSettings(Settings):
    """An encoder of gated convolutions on top of each other."""

    kind: Literal["gated-cnn"] = "gated-cnn"
    width: PositiveInt = 256
    """Numbers in each vector."""
    depth: PositiveInt = 4
    """Convolutions on top of each other; each sees three places, together they see 2 · depth + 1."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Share of the numbers that is set to zero before each convolution while training."""


class TextCNNSettings(Settings):
    """An encoder of windows of three widths side by side, which looks for the best place of each pattern."""

    kind: Literal["text-cnn"] = "text-cnn"
    width: Annotated[int, Field(ge=3)] = 300
    """Numbers in each vector: patterns that are looked for, a third of them with each width of window."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """Share of the numbers that is set to zero, in the vectors of tokens and in the summary, while training."""


class TextCNN(nn.Module):
    """max over time of relu(W x[t .. t+k] + b), for windows of k = 3, 4 and 5 tokens (Kim 2014, section 2).

    Of every pattern only how well it fits anywhere is kept, in the summary; order counts inside a window alone.
    """

    def __init__(self, width: int, kernel_sizes: Sequence[int] = (3, 4, 5)):
        super().__init__()
        share, rest = divmod(width, len(kernel_sizes))
        sizes = [share + (number < rest) for number in range(len(kernel_sizes))]
        self.convolutions = nn.ModuleList(
            nn.Conv1d(width, size, kernel) for size, kernel in zip(sizes, kernel_sizes, strict=True)
        )
        self.paddings = [
            ((kernel - 1) // 2, kernel // 2) for kernel in kernel_sizes
        ]  # zeros that a window may reach out to

    @staticmethod
    def from_settings(settings: TextCNNSettings) -> TextCNN:
        """The encoder that the settings describe."""
        return TextCNN(settings.width)

    def forward(self, vectors: Sequences) -> EncoderOutput:
        """How well each pattern fits at every place, and at its best."""
        places = zero_padding(vectors).values.mT
        found = [
            functional.relu(window(functional.pad(places, side))).mT
            for window, side in zip(self.convolutions, self.paddings, strict=True)
        ]
        fits = zero_padding(Sequences(torch.cat(found, dim=-1), vectors.lengths))
        return EncoderOutput(fits.values, fits.lengths, fits.values.amax(1))  # padding is 0, and nothing is less


class GatedCNN(nn.Module):
    """A stack of gated convolutions; Gehring et al. 2017. The summary is the mean of the real places."""

    def __init__(self, input_width: int, width: int, depth: int, kernel: int, dropout: float = 0.0):
        super().__init__()
        self.input_projection = nn.Linear(input_width, width)
        self.blocks = nn.ModuleList(ConvolutionBlock(width, kernel, dropout) for _ in range(depth))

    @staticmethod
    def from_settings(settings: GatedCNNSettings, input_width: int | None = None) -> GatedCNN:
        """The encoder that the settings describe; its input has the same width, unless told otherwise."""
        width = settings.width
        return GatedCNN(input_width or width, width, settings.depth, KERNEL_SIZE, settings.dropout)

    def forward(self, vectors: Sequences) -> EncoderOutput:
        """The memory of these source vectors."""
        vectors = Sequences(self.input_projection(zero_padding(vectors).values), vectors.lengths)
        for block in self.blocks:
            vectors = block(vectors)
        return EncoderOutput(vectors.values, vectors.lengths, masked_mean(vectors))
