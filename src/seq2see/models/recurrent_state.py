"""What a recurrent decoder carries from one token to the next, and how it begins."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.core.rows import INPUT_ONLY
from seq2see.layers.recurrent_cells import CellState
from seq2see.models.encoder_output import EncoderOutput


@dataclass(frozen=True)
class RecurrentState:
    """The whole past of a recurrent decoder, rows first, and what it looks at.

    A Transformer's state grows with every token; this one does not. `cell` is there only for an LSTM,
    `keys` only for attention, `memory` only for a decoder that looks at it again after the start.
    """

    hidden: Float[Tensor, "row layer width"]
    cell: Float[Tensor, "row layer width"] | None = None
    keys: Float[Tensor, "row key size"] | None = field(default=None, metadata=INPUT_ONLY)
    memory: EncoderOutput | None = field(default=None, metadata=INPUT_ONLY)

    @property
    def cell_state(self) -> CellState:
        """The part that the recurrent cells carry along."""
        return CellState(self.hidden, self.cell)

    def with_cells(self, cells: CellState) -> RecurrentState:
        """The state after the cells have read on."""
        return replace(self, hidden=cells.hidden, cell=cells.cell)


class CopyBridge(nn.Module):
    """The summary itself is the first state of every layer; an LSTM's cell begins with zeros."""

    def forward(self, pooled: Float[Tensor, "row memory"], zero_state: CellState) -> CellState:
        """The first state; `zero_state` is the stack's state of zeros."""
        return CellState(pooled[:, None].expand_as(zero_state.hidden), zero_state.cell)


class DenseBridge(nn.Module):
    """A layer of its own makes the first state, tanh(W summary + b); Bahdanau et al. 2015, appendix A.2.2.

    Encoder and decoder are then free to use their states differently, and to differ in width. `parts`
    is the number of vectors in each layer's state.
    """

    def __init__(self, memory_width: int, width: int, depth: int, parts: int):
        super().__init__()
        self.shape = (parts, depth, width)
        self.project = nn.Linear(memory_width, parts * depth * width)

    def forward(self, pooled: Float[Tensor, "row memory"], zero_state: CellState) -> CellState:
        """The first state; `zero_state` is the stack's state of zeros."""
        states = torch.tanh(self.project(pooled)).unflatten(-1, self.shape).unbind(dim=1)
        return CellState(*states)


Bridge = CopyBridge | DenseBridge
