"""Gated convolutional blocks: a convolution over time, as an alternative to recurrence in an encoder.

A convolution with a kernel of size k covers k positions, and computes all positions in parallel. A stack of d such
convolutions has a receptive field of d·(k − 1) + 1 positions. If the l-th convolution reads every 2^l-th position only
(l = 0, ..., d − 1), its receptive field is (2^d − 1)·(k − 1) + 1: it grows exponentially with the depth.
"""

from __future__ import annotations

from torch import nn
from torch.nn import functional

from seq2see.core.batch import Sequences
from seq2see.core.errors import UserError
from seq2see.layers.masks import zero_padding
from seq2see.layers.norms_and_dropout import LayerNorm


class ConvolutionBlock(nn.Module):
    """A convolution over time, a gated linear unit, and a residual connection (Gehring et al. 2017, section 3.2).

    The convolution computes two vectors a and b for each position; the gated linear unit is a ⊙ σ(b). The sum with the
    input is divided by √2, so that its variance stays the same.
    """

    def __init__(self, width: int, kernel: int, dropout: float = 0.0):
        super().__init__()
        if kernel % 2 == 0:
            raise UserError(f"A kernel of size {kernel} has no center.", hint=f"Make the kernel {kernel + 1}.")
        self.dropout = nn.Dropout(dropout)
        self.convolution = nn.Conv1d(width, 2 * width, kernel, padding=kernel // 2)

    def forward(self, vectors: Sequences) -> Sequences:
        """One vector for each position, computed from its neighbors as well; zeros at padded positions."""
        # The kernel reaches past the end of a row. The padding there must be zero, as it is past the edge of the
        # tensor, or the output would depend on the amount of padding.
        vectors = zero_padding(vectors)
        outputs = self.convolution(self.dropout(vectors.values).mT).mT
        gated = functional.glu(outputs, dim=-1)
        return zero_padding(Sequences((vectors.values + gated) * 0.5**0.5, vectors.lengths))


class DilatedBlock(nn.Module):
    """x + glu(conv(norm(x))), whose convolution has gaps: its inputs are `dilation` positions apart.

    Dilated convolutions, norms and residual connections are those of the encoder of ByteNet (Kalchbrenner et al. 2016,
    sections 3.5 and 3.6), and the gate is that of `ConvolutionBlock`. Compare pre-norm in `norms_and_dropout.py`.
    """

    def __init__(self, width: int, kernel: int, dilation: int, dropout: float = 0.0):
        super().__init__()
        self.norm, self.dropout = LayerNorm(width), nn.Dropout(dropout)
        self.convolution = nn.Conv1d(width, 2 * width, kernel, padding=kernel // 2 * dilation, dilation=dilation)

    def forward(self, vectors: Sequences) -> Sequences:
        """One vector for each position, computed from positions on both sides as well; zeros at padded positions."""
        inputs = zero_padding(Sequences(self.norm(vectors.values, vectors.valid), vectors.lengths)).values
        outputs = functional.glu(self.convolution(inputs.mT).mT, dim=-1)
        return zero_padding(Sequences(vectors.values + self.dropout(outputs), vectors.lengths))
