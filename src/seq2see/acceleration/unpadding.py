"""The memory layout of rows of different length in a stack: padded rows, or one line without padding.

All layers of a Transformer but attention process each token by itself. So the tokens of a whole batch can be
concatenated to one long row without padding, and no time is spent on padding. Only attention needs rows: `pad` restores
them, and `unpad` concatenates them again. On a GPU the rows stay padded: a shape that depends on the lengths would need
a synchronization of CPU and GPU.

In both layouts a stack has vectors of the shape (row, time, width); the unpadded line is one long row.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Shaped
from torch import Tensor

from seq2see.core.batch import DenseSequences, Sequences
from seq2see.layers.masks import zero_padding
from seq2see.models.encoder_model import EncoderOutput

UnpaddedVectors = Shaped[Tensor, "line token width"]
PaddedVectors = Shaped[Tensor, "row time width"]


class PaddedLayout:
    """Padded rows: `pad` and `unpad` change nothing, and padded positions are computed like all others."""

    def from_sequences(self, sequences: Sequences) -> tuple[UnpaddedVectors, Bool[Tensor, "line token"]]:
        """The vectors in this layout, with zeros at padded positions, and which of them are valid."""
        return zero_padding(sequences).values, sequences.valid

    def pad(self, vectors: UnpaddedVectors) -> PaddedVectors:
        """From this layout to padded rows."""
        return vectors

    def unpad(self, rows: PaddedVectors) -> UnpaddedVectors:
        """From padded rows to this layout."""
        return rows


class UnpaddedLayout(PaddedLayout):
    """The valid vectors of all rows, concatenated to one long row; only attention works on padded rows."""

    def __init__(self, sequences: Sequences):
        self.shape = sequences.values.shape[:2]
        self.indices = sequences.valid.flatten().nonzero().squeeze(1)

    def from_sequences(self, sequences: Sequences) -> tuple[UnpaddedVectors, Bool[Tensor, "line token"]]:
        """The valid vectors on one line; all of its positions are valid."""
        return self.unpad(sequences.values), torch.ones_like(self.indices, dtype=torch.bool)[None]

    def pad(self, vectors: UnpaddedVectors) -> PaddedVectors:
        """Padded rows, with zeros at padded positions."""
        rows = vectors.new_zeros(self.shape.numel(), vectors.size(-1))
        return rows.index_copy(0, self.indices, vectors[0]).unflatten(0, self.shape)

    def unpad(self, rows: PaddedVectors) -> UnpaddedVectors:
        """The valid vectors of all rows as one long row."""
        return rows.flatten(0, 1).index_select(0, self.indices)[None]


PADDED = PaddedLayout()
"""The default layout."""


@dataclass(frozen=True)
class UnpaddedMemory(EncoderOutput):
    """An encoder output whose `values` are in a layout; its lengths are those of the padded rows."""

    layout: PaddedLayout = PADDED


def choose_layout(sequences: Sequences) -> PaddedLayout:
    """The fastest layout for these rows on their device.

    A compiled or exported graph must be correct for rows of any length, so it must not depend on the lengths.
    """
    lengths = sequences.lengths
    if isinstance(sequences, DenseSequences) or lengths.device.type != "cpu" or torch.compiler.is_compiling():
        return PaddedLayout()
    has_no_padding = int(lengths.sum()) == sequences.values.shape[:2].numel()
    return PaddedLayout() if has_no_padding else UnpaddedLayout(sequences)
