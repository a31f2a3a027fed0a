"""The embedding of sound: two convolutions over the log-mel spectrogram turn every four frames into one vector.

After it, a recording is a sequence like any other, and encoders and decoders are those of text.
"""

from __future__ import annotations

import torch
from torch import nn

from seq2see.core.batch import Sequences
from seq2see.data.log_mel import vectors_of
from seq2see.layers.norms_and_dropout import Dropout, LayerNorm


class SoundEmbedding(nn.Module):
    """x = norm(W [two convolutions over time and frequency] + b) + position encoding.

    Each convolution has a kernel of 3 x 3 and stride 2 in both directions (Dong, Xu & Xu 2018, "Speech-Transformer",
    section 3.2). A convolution over frequency finds a pattern at any pitch. The norm is not in the paper: it gives the
    vectors the scale of the position encodings.
    """

    def __init__(self, bands: int, channels: int, width: int, positions: nn.Module, dropout: float):
        super().__init__()
        self.first = nn.Conv2d(1, channels, 3, stride=2, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, stride=2, padding=1)
        self.project, self.norm = nn.Linear(channels * vectors_of(bands), width), LayerNorm(width)
        self.positions, self.dropout = positions, Dropout(dropout)

    def forward(self, spectrogram: Sequences) -> Sequences:
        """One vector for every four frames."""
        values, lengths = spectrogram.values[:, None], spectrogram.lengths  # (row, channel, time, frequency)
        for convolution in (self.first, self.second):
            # At the end of a row the kernel covers padding, which must be zero, as the padding of the convolution is.
            valid = torch.arange(values.size(2), device=values.device) < lengths[:, None]
            values = convolution(torch.where(valid[:, None, :, None], values, 0)).relu()
            lengths = (lengths + 1).div(2, rounding_mode="floor")
        vectors = Sequences(self.project(values.transpose(1, 2).flatten(2)), lengths)
        times = torch.arange(vectors.values.size(1), device=vectors.values.device)[None]
        values = self.norm(vectors.values, vectors.valid) + self.positions(times)
        return Sequences(self.dropout(values), vectors.lengths)
