"""Convolutional encoders: gated CNN, dilated CNN and TextCNN, which process all positions in parallel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from pydantic import Field, PositiveInt
from torch import nn
from torch.nn import functional

from seq2see.core.batch import Sequences
from seq2see.core.settings import Settings
from seq2see.layers.convolution import ConvolutionBlock, DilatedBlock
from seq2see.layers.masks import masked_mean, zero_padding
from seq2see.layers.norms_and_dropout import LayerNorm
from seq2see.models.encoder_model import EncoderOutput

KERNEL_SIZE = 3
"""Positions that a gated convolution reads: its own and its two neighbors."""
DILATED_KERNEL_SIZE = 5
"""Positions that a dilated convolution reads: its own and two on each side."""


class GatedCNNSettings(Settings):
    """A stack of gated convolutions (Gehring et al. 2017)."""

    kind: Literal["gated-cnn"] = "gated-cnn"
    width: PositiveInt = 256
    """Width of the hidden states."""
    depth: PositiveInt = 4
    """The number of layers; with kernels of size 3 the receptive field is 2 · depth + 1 positions."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Dropout rate before each convolution."""


class DilatedCNNSettings(Settings):
    """A stack of dilated gated convolutions, which reads far to both sides (Kalchbrenner et al. 2016, ByteNet)."""

    kind: Literal["dilated-cnn"] = "dilated-cnn"
    width: PositiveInt = 128
    """Width of the hidden states."""
    depth: int = Field(5, ge=1, le=12)
    """The number of layers; the dilations are 1, 2, 4, ..., and the receptive field is 2^(depth + 2) - 3 positions."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Dropout rate of the output of each layer."""


class TextCNNSettings(Settings):
    """TextCNN: convolutions with three kernel sizes and max pooling over time (Kim 2014)."""

    kind: Literal["text-cnn"] = "text-cnn"
    width: Annotated[int, Field(ge=3)] = 300
    """The number of filters, a third of them for each kernel size (3, 4 and 5); also the embedding width."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """Dropout rate of the embeddings and of the pooled vector."""


class TextCNN(nn.Module):
    """max over time of relu(W x[t .. t+k] + b), for windows of k = 3, 4 and 5 tokens (Kim 2014, section 2).

    The pooled vector is the maximum of each filter over time, so word order matters only within a window.
    """

    def __init__(self, width: int, kernel_sizes: Sequence[int] = (3, 4, 5)):
        super().__init__()
        quotient, remainder = divmod(width, len(kernel_sizes))
        filter_counts = [quotient + (number < remainder) for number in range(len(kernel_sizes))]
        self.convolutions = nn.ModuleList(
            nn.Conv1d(width, count, kernel) for count, kernel in zip(filter_counts, kernel_sizes, strict=True)
        )
        self.paddings = [((kernel - 1) // 2, kernel // 2) for kernel in kernel_sizes]  # zeros on both sides

    @staticmethod
    def from_settings(settings: TextCNNSettings) -> TextCNN:
        """The encoder that the settings describe."""
        return TextCNN(settings.width)

    def forward(self, vectors: Sequences) -> EncoderOutput:
        """The activations of all filters at every position, and their maxima over time."""
        inputs = zero_padding(vectors).values.mT
        outputs = [
            functional.relu(convolution(functional.pad(inputs, padding))).mT
            for convolution, padding in zip(self.convolutions, self.paddings, strict=True)
        ]
        features = zero_padding(Sequences(torch.cat(outputs, dim=-1), vectors.lengths))
        return EncoderOutput(features.values, features.lengths, features.values.amax(1))  # padding is 0, the minimum


class GatedCNN(nn.Module):
    """A stack of gated convolutions (Gehring et al. 2017). The pooled vector is the masked mean."""

    def __init__(self, input_width: int, width: int, depth: int, kernel: int, dropout: float = 0.0):
        super().__init__()
        self.input_projection = nn.Linear(input_width, width)
        self.blocks = nn.ModuleList(ConvolutionBlock(width, kernel, dropout) for _ in range(depth))

    @staticmethod
    def from_settings(settings: GatedCNNSettings, input_width: int | None = None) -> GatedCNN:
        """The encoder that the settings describe; by default the width of its input is that of its output."""
        width = settings.width
        return GatedCNN(input_width or width, width, settings.depth, KERNEL_SIZE, settings.dropout)

    def forward(self, vectors: Sequences) -> EncoderOutput:
        """The encoder output for the embedded source."""
        vectors = Sequences(self.input_projection(zero_padding(vectors).values), vectors.lengths)
        for block in self.blocks:
            vectors = block(vectors)
        return EncoderOutput(vectors.values, vectors.lengths, masked_mean(vectors))


class DilatedCNN(nn.Module):
    """A stack of dilated gated convolutions (Kalchbrenner et al. 2016). The pooled vector is the masked mean."""

    def __init__(self, width: int, depth: int, kernel: int, dropout: float = 0.0):
        super().__init__()
        self.blocks = nn.ModuleList(DilatedBlock(width, kernel, 2**number, dropout) for number in range(depth))
        self.final_norm = LayerNorm(width)

    @staticmethod
    def from_settings(settings: DilatedCNNSettings) -> DilatedCNN:
        """The encoder that the settings describe."""
        return DilatedCNN(settings.width, settings.depth, DILATED_KERNEL_SIZE, settings.dropout)

    def forward(self, vectors: Sequences) -> EncoderOutput:
        """The encoder output for the embedded source."""
        vectors = zero_padding(vectors)
        for block in self.blocks:
            vectors = block(vectors)
        vectors = zero_padding(Sequences(self.final_norm(vectors.values, vectors.valid), vectors.lengths))
        return EncoderOutput(vectors.values, vectors.lengths, masked_mean(vectors))
