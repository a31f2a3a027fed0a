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


class WindowEncoderSettings(Settings):
    """An encoder of windows of three widths side by side, which looks for the best place of each pattern."""

    kind: Literal["windows"] = "windows"
    width: Annotated[int, Field(ge=3)] = 300
    """Numbers in each vector: patterns that are looked for, a third of them with each width of window."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """Share of the numbers that is set to zero, in the vectors of tokens and in the summary, while training."""


class WindowEncoder(nn.Module):
    """max over time of relu(W x[t .. t+k] + b), for windows of k = 3, 4 and 5 tokens (Kim 2014, section 2).

    Of every pattern only how well it fits anywhere is kept, in the summary; order counts inside a window alone.
    """

    def __init__(self, width: int, kernels: Sequence[int] = (3, 4, 5)):
        super().__init__()
        share, rest = divmod(width, len(kernels))
        sizes = [share + (number < rest) for number in range(len(kernels))]
        self.windows = nn.ModuleList(
            nn.Conv1d(width, size, kernel) for size, kernel in zip(sizes, kernels, strict=True)
        )
        self.sides = [((kernel - 1) // 2, kernel // 2) for kernel in kernels]  # zeros that a window may reach out to

    @staticmethod
    def of(settings: WindowEncoderSettings) -> WindowEncoder:
        """The encoder that the settings describe."""
        return WindowEncoder(settings.width)

    def forward(self, vectors: Sequences) -> Memory:
        """How well each pattern fits at every place, and at its best."""
        places = blank(vectors).values.mT
        found = [
            functional.relu(window(functional.pad(places, side))).mT
            for window, side in zip(self.windows, self.sides, strict=True)
        ]
        fits = blank(Sequences(torch.cat(found, dim=-1), vectors.lengths))
        return Memory(fits.values, fits.lengths, fits.values.amax(1))  # padding is 0, and nothing is less


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
