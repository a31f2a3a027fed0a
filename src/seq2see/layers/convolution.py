"""Reading through a window: a convolution over time, as an encoder's alternative to recurrence.

A convolution of width k sees k neighbors at once, all places in parallel; d of them on top of each other
see d·(k − 1) + 1 places.
"""

from __future__ import annotations

from torch import nn
from torch.nn import functional

from seq2see.core.batch import Sequences
from seq2see.core.errors import UserError
from seq2see.layers.padding import zero_padding


class ConvolutionBlock(nn.Module):
    """A convolution over time, a gate, and a way around both; Gehring et al. 2017, section 3.2.

    The convolution gives two vectors for each place; the gated linear unit lets the first through as far
    as the sigmoid of the second allows: a ⊙ σ(b). The sum with the input is divided by √2, which
    keeps its variance.
    """

    def __init__(self, width: int, kernel: int, dropout: float = 0.0):
        super().__init__()
        if kernel % 2 == 0:
            raise UserError(f"A window of {kernel} places has no middle.", hint=f"Make the kernel {kernel + 1}.")
        self.dropout = nn.Dropout(dropout)
        self.convolution = nn.Conv1d(width, 2 * width, kernel, padding=kernel // 2)

    def forward(self, vectors: Sequences) -> Sequences:
        """The same number of vectors, each informed by its neighbors; zeros at the padding."""
        # The convolution looks across the end of a row: what stands there must be the same zeros as
        # beyond the edge of the tensor, or the amount of padding would matter.
        vectors = zero_padding(vectors)
        windows = self.convolution(self.dropout(vectors.values).mT).mT
        gated = functional.glu(windows, dim=-1)
        return zero_padding(Sequences((vectors.values + gated) * 0.5**0.5, vectors.lengths))
