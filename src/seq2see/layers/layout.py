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

from seq2see.core.batch import Sequences, Whole
from seq2see.layers.padding import blank

Stream = Shaped[Tensor, "line token width"]
Rows = Shaped[Tensor, "row time width"]


class Padded:
    """Rows below each other, as they came; the padding is computed with the rest."""

    def enter(self, sequences: Sequences) -> tuple[Stream, Bool[Tensor, "line token"]]:
        """The vectors as a stack works on them, and which of them are data; padding becomes zeros."""
        return blank(sequences).values, sequences.real

    def spread(self, stream: Stream) -> Rows:
        """The stream as rows below each other."""
        return stream

    def gather(self, rows: Rows) -> Stream:
        """Rows below each other as a stream."""
        return rows


class Unpadded(Padded):
    """All real vectors on one line, row after row; padding exists only where rows are looked at."""

    def __init__(self, sequences: Sequences):
        self.shape = sequences.values.shape[:2]
        self.places = sequences.real.flatten().nonzero().squeeze(1)

    def enter(self, sequences: Sequences) -> tuple[Stream, Bool[Tensor, "line token"]]:
        """The real vectors, and that all of them are."""
        return self.gather(sequences.values), torch.ones_like(self.places, dtype=torch.bool)[None]

    def spread(self, stream: Stream) -> Rows:
        """Each vector where it belongs, and zeros as padding."""
        rows = stream.new_zeros(self.shape.numel(), stream.size(-1))
        return rows.index_copy(0, self.places, stream[0]).unflatten(0, self.shape)

    def gather(self, rows: Rows) -> Stream:
        """The real vectors of all rows."""
        return rows.flatten(0, 1).index_select(0, self.places)[None]


def layout_of(sequences: Sequences) -> Padded:
    """The layout that is fastest for these rows where they are.

    What is compiled or exported must hold for rows of any length, so nothing may depend on theirs.
    """
    lengths = sequences.lengths
    if isinstance(sequences, Whole) or lengths.device.type != "cpu" or torch.compiler.is_compiling():
        return Padded()
    full = int(lengths.sum()) == sequences.values.shape[:2].numel()
    return Padded() if full else Unpadded(sequences)
