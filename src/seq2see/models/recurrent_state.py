"""The state of a recurrent decoder, and the bridge from the encoder to the initial state."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.core.batch import INPUT_ONLY
from seq2see.layers.recurrent_cells import CellState
from seq2see.models.encoder_model import EncoderOutput


@dataclass(frozen=True)
class RecurrentState:
    """The state of a recurrent decoder; rows are the first dimension.

    A Transformer's state grows with every token; this one does not. Only an LSTM has `cell`, only attention has `keys`,
    and `memory` (the encoder output) is stored only if it is read at every step.
    """

    hidden: Float[Tensor, "row layer width"]
    cell: Float[Tensor, "row layer width"] | None = None
    keys: Float[Tensor, "row key size"] | None = field(default=None, metadata=INPUT_ONLY)
    memory: EncoderOutput | None = field(default=None, metadata=INPUT_ONLY)

    @property
    def cell_state(self) -> CellState:
        """The state of the recurrent cells."""
        return CellState(self.hidden, self.cell)

    def with_cells(self, cells: CellState) -> RecurrentState:
        """The state with new states of the cells."""
        return replace(self, hidden=cells.hidden, cell=cells.cell)


class CopyBridge(nn.Module):
    """The encoder's pooled vector is the initial hidden state of every layer; an LSTM's cell state is zero."""

    def forward(self, pooled: Float[Tensor, "row memory"], zero_state: CellState) -> CellState:
        """The initial state; `zero_state` is the stack's state of zeros."""
        return CellState(pooled[:, None].expand_as(zero_state.hidden), zero_state.cell)


class DenseBridge(nn.Module):
    """A dense layer computes the initial state, tanh(W pooled + b); Bahdanau et al. 2015, appendix A.2.2.

    So encoder and decoder may use their states differently and differ in width. `parts` is the number of vectors in
    each layer's state: 2 for an LSTM, else 1.
    """

    def __init__(self, memory_width: int, width: int, depth: int, parts: int):
        super().__init__()
        self.shape = (parts, depth, width)
        self.project = nn.Linear(memory_width, parts * depth * width)

    def forward(self, pooled: Float[Tensor, "row memory"], zero_state: CellState) -> CellState:
        """The initial state; `zero_state` is the stack's state of zeros."""
        states = torch.tanh(self.project(pooled)).unflatten(-1, self.shape).unbind(dim=1)
        return CellState(*states)


Bridge = CopyBridge | DenseBridge
