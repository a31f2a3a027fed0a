"""What a recurrent decoder carries from one token to the next, and how it begins."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.core.rows import OF_INPUT
from seq2see.layers.recurrent import CellState
from seq2see.models.memory import Memory


@dataclass(frozen=True)
class RecurrentState:
    """The whole past of a recurrent decoder, rows first, and what it looks at.

    A Transformer's state grows with every token; this one does not. `cell` is there only for an LSTM,
    `keys` only for attention, `memory` only for a decoder that looks at it again after the start.
    """

    hidden: Float[Tensor, "row layer width"]
    cell: Float[Tensor, "row layer width"] | None = None
    keys: Float[Tensor, "row key size"] | None = field(default=None, metadata=OF_INPUT)
    memory: Memory | None = field(default=None, metadata=OF_INPUT)

    @property
    def cells(self) -> CellState:
        """The part that the recurrent cells carry along."""
        return CellState(self.hidden, self.cell)

    def after(self, cells: CellState) -> RecurrentState:
        """The state after the cells have read on."""
        return replace(self, hidden=cells.hidden, cell=cells.cell)


class HandOver(nn.Module):
    """The summary itself is the first state of every layer; an LSTM's cell begins with zeros."""

    def forward(self, summary: Float[Tensor, "row memory"], nothing: CellState) -> CellState:
        """The first state; `nothing` is the stack's state of zeros."""
        return CellState(summary[:, None].expand_as(nothing.hidden), nothing.cell)


class ProjectedStart(nn.Module):
    """A layer of its own makes the first state, tanh(W summary + b); Bahdanau et al. 2015, appendix A.2.2.

    Encoder and decoder are then free to use their states differently, and to differ in width. `parts`
    is the number of vectors in each layer's state.
    """

    def __init__(self, memory_width: int, width: int, depth: int, parts: int):
        super().__init__()
        self.shape = (parts, depth, width)
        self.project = nn.Linear(memory_width, parts * depth * width)

    def forward(self, summary: Float[Tensor, "row memory"], nothing: CellState) -> CellState:
        """The first state; `nothing` is the stack's state of zeros."""
        states = torch.tanh(self.project(summary)).unflatten(-1, self.shape).unbind(dim=1)
        return CellState(*states)


Bridge = HandOver | ProjectedStart
