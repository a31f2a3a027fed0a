"""How ragged rows lie in memory while a stack works on them: below each other, or on one line.

Everything in a Transformer but attention treats each token by itself, so it need not know rows at all: the
tokens of a whole batch can stand on one line, and no time is spent on padding. Only to look at one another
they are spread out to rows, and gathered again. On a GPU the rows stay as they are: there a shape that
depends on what the lengths are would make everybody wait until they are known.

Both layouts give a stack vectors of the shape (row, time, width); a line is simply one long row.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Shaped
from torch import Tensor

from seq2see.core.batch import DenseSequences, Sequences
from seq2see.layers.padding import zero_padding

UnpaddedVectors = Shaped[Tensor, "line token width"]
PaddedVectors = Shaped[Tensor, "row time width"]


class PaddedLayout:
    """Rows below each other, as they came; the padding is computed with the rest."""

    def from_sequences(self, sequences: Sequences) -> tuple[UnpaddedVectors, Bool[Tensor, "line token"]]:
        """The vectors as a stack works on them, and which of them are data; padding becomes zeros."""
        return zero_padding(sequences).values, sequences.valid

    def pad(self, vectors: UnpaddedVectors) -> PaddedVectors:
        """The stream as rows below each other."""
        return vectors

    def unpad(self, rows: PaddedVectors) -> UnpaddedVectors:
        """Rows below each other as a stream."""
        return rows


class UnpaddedLayout(PaddedLayout):
    """All real vectors on one line, row after row; padding exists only where rows are looked at."""

    def __init__(self, sequences: Sequences):
        self.shape = sequences.values.shape[:2]
        self.indices = sequences.valid.flatten().nonzero().squeeze(1)

    def from_sequences(self, sequences: Sequences) -> tuple[UnpaddedVectors, Bool[Tensor, "line token"]]:
        """The real vectors, and that all of them are."""
        return self.unpad(sequences.values), torch.ones_like(self.indices, dtype=torch.bool)[None]

    def pad(self, vectors: UnpaddedVectors) -> PaddedVectors:
        """Each vector where it belongs, and zeros as padding."""
        rows = vectors.new_zeros(self.shape.numel(), vectors.size(-1))
        return rows.index_copy(0, self.indices, vectors[0]).unflatten(0, self.shape)

    def unpad(self, rows: PaddedVectors) -> UnpaddedVectors:
        """The real vectors of all rows."""
        return rows.flatten(0, 1).index_select(0, self.indices)[None]


def choose_layout(sequences: Sequences) -> PaddedLayout:
    """The layout that is fastest for these rows where they are.

    What is compiled or exported must hold for rows of any length, so nothing may depend on theirs.
    """
    lengths = sequences.lengths
    if isinstance(sequences, DenseSequences) or lengths.device.type != "cpu" or torch.compiler.is_compiling():
        return PaddedLayout()
    full = int(lengths.sum()) == sequences.values.shape[:2].numel()
    return PaddedLayout() if full else UnpaddedLayout(sequences)
