"""Remembering with gates: cells that decide what to keep, what to take in and what to show.

A plain cell (`recurrent.py`) passes its whole state through a matrix and a curve at every step. Here parts of it can go
on unchanged, as long as a gate is open; that is how something from long ago gets through.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from seq2see.layers.recurrent_cells import CellState, FusedCell, RecurrentCell


class GRUCell(FusedCell):
    """A gated recurrent unit as cuDNN and torch compute it: the reset gate acts *after* the product.

    r = σ(W_xr x + W_hr h + b_r), z = σ(W_xz x + W_hz h + b_z)
    n = tanh(W_xn x + b_xn + r ⊙ (W_hn h + b_hn)), h' = z ⊙ h + (1 − z) ⊙ n

    Since r multiplies a finished product, the three products W_h h are one product: fast. As in the
    notes, z near 1 keeps the old state. (In Chung et al. 2014 it is the other way round: z takes the new.)
    """

    rnn_class = nn.GRU
    rnn_function = staticmethod(torch.gru)

    def gates(self, projected: Float[Tensor, "row gates"], state: CellState) -> dict[str, Tensor]:
        """Reset gate, update gate and candidate."""
        reset_in, update_in, candidate_in = projected.chunk(3, dim=-1)
        reset_back, update_back, candidate_back = self.project_hidden(state.hidden).chunk(3, dim=-1)
        reset = torch.sigmoid(reset_in + reset_back)
        update = torch.sigmoid(update_in + update_back)
        candidate = torch.tanh(candidate_in + reset * candidate_back)
        return {"reset": reset, "update": update, "candidate": candidate}

    def next_state(self, gates: dict[str, Tensor], state: CellState) -> CellState:
        """A convex mix: the update gate says how much of the old state is copied."""
        update = gates["update"]
        return CellState(update * state.hidden + (1 - update) * gates["candidate"])


class ResetBeforeGRUCell(RecurrentCell):
    """The gated recurrent unit of the course notes: the reset gate acts *before* the product.

    R = σ(X W_xr + H W_hr + b_r), Z = σ(X W_xz + H W_hz + b_z)
    H̃ = tanh(X W_xh + (R ⊙ H) W_hh + b_h), H' = Z ⊙ H + (1 − Z) ⊙ H̃

    This is the form of Cho et al. 2014, eqs. 5-8. The candidate's product has to wait for the reset gate,
    so no fused kernel computes it, and it is read by a loop. Compare `GRUCell`.
    """

    def __init__(self, input_width: int, width: int):
        super().__init__(input_width, width)
        self.input_weight = nn.Parameter(torch.empty(3 * width, input_width))
        self.input_bias = nn.Parameter(torch.empty(3 * width))
        self.gates_weight = nn.Parameter(torch.empty(2 * width, width))
        self.candidate_weight = nn.Parameter(torch.empty(width, width))
        # The same first weights as in torch's recurrent modules, so that the cells can be compared.
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(width**-0.5), width**-0.5)

    def project_inputs(self, inputs: Float[Tensor, "... input"]) -> Float[Tensor, "... gates"]:
        """X W_xr + b_r, X W_xz + b_z and X W_xh + b_h side by side."""
        return functional.linear(inputs, self.input_weight, self.input_bias)

    def gates(self, projected: Float[Tensor, "row gates"], state: CellState) -> dict[str, Tensor]:
        """Reset gate, update gate and candidate."""
        reset_in, update_in, candidate_in = projected.chunk(3, dim=-1)
        reset_back, update_back = functional.linear(state.hidden, self.gates_weight).chunk(2, dim=-1)
        reset = torch.sigmoid(reset_in + reset_back)
        update = torch.sigmoid(update_in + update_back)
        candidate_back = functional.linear(reset * state.hidden, self.candidate_weight)
        candidate = torch.tanh(candidate_in + candidate_back)
        return {"reset": reset, "update": update, "candidate": candidate}

    def next_state(self, gates: dict[str, Tensor], state: CellState) -> CellState:
        """A convex mix: where Z is 1, the old state is kept exactly."""
        update = gates["update"]
        return CellState(update * state.hidden + (1 - update) * gates["candidate"])


class LSTMCell(FusedCell):
    """Long short-term memory: a second vector, changed only by gates, carries what must last.

    i, f, o = σ(W_x x + W_h h + b), g = tanh(W_xg x + W_hg h + b_g)
    c' = f ⊙ c + i ⊙ g, h' = o ⊙ tanh(c'); Hochreiter & Schmidhuber 1997, with the forget gate of Gers et
    al. 2000. From c to c' there is no matrix and no tanh: with f near 1 a gradient passes unchanged.
    """

    parts = 2
    rnn_class = nn.LSTM
    rnn_function = staticmethod(torch.lstm)

    def gates(self, projected: Float[Tensor, "row gates"], state: CellState) -> dict[str, Tensor]:
        """Input, forget and output gate, and the candidate, in the kernel's order."""
        sums = projected + self.project_hidden(state.hidden)
        write, keep, candidate, show = sums.chunk(4, dim=-1)
        return {
            "input": torch.sigmoid(write),
            "forget": torch.sigmoid(keep),
            "candidate": torch.tanh(candidate),
            "output": torch.sigmoid(show),
        }

    def next_state(self, gates: dict[str, Tensor], state: CellState) -> CellState:
        """Forget some of the old cell, write some of the candidate, show some of the result."""
        assert state.cell is not None
        cell = gates["forget"] * state.cell + gates["input"] * gates["candidate"]
        return CellState(gates["output"] * torch.tanh(cell), cell)
