"""Gated recurrent cells: GRU and LSTM.

A vanilla RNN cell (`recurrent_cells.py`) applies a matmul and an activation to its whole state at every step. In a
gated cell, parts of the state are copied unchanged while a gate is open. So information and gradients can cross many
steps.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from seq2see.layers.recurrent_cells import CellState, FusedCell, RecurrentCell


class GRUCell(FusedCell):
    """A gated recurrent unit as cuDNN and torch compute it: the reset gate is applied *after* the matmul.

    r = σ(W_xr x + W_hr h + b_r), z = σ(W_xz x + W_hz h + b_z)
    n = tanh(W_xn x + b_xn + r ⊙ (W_hn h + b_hn)), h' = z ⊙ h + (1 − z) ⊙ n

    Since r is applied after the matmul, the three products with h are one matmul, which is fast. As in the course
    notes, z near 1 copies the old state. (In Chung et al. 2014 the roles are reversed: z near 1 selects the candidate.)
    """

    rnn_class = nn.GRU
    rnn_function = staticmethod(torch.gru)

    def gates(self, projected: Float[Tensor, "row gates"], state: CellState) -> dict[str, Tensor]:
        """Reset gate, update gate and candidate."""
        reset_x, update_x, candidate_x = projected.chunk(3, dim=-1)
        reset_h, update_h, candidate_h = self.project_hidden(state.hidden).chunk(3, dim=-1)
        reset = torch.sigmoid(reset_x + reset_h)
        update = torch.sigmoid(update_x + update_h)
        candidate = torch.tanh(candidate_x + reset * candidate_h)
        return {"reset": reset, "update": update, "candidate": candidate}

    def next_state(self, gates: dict[str, Tensor], state: CellState) -> CellState:
        """A convex combination of the old state and the candidate; its weight is the update gate."""
        update = gates["update"]
        return CellState(update * state.hidden + (1 - update) * gates["candidate"])


class ResetBeforeGRUCell(RecurrentCell):
    """The gated recurrent unit of the course notes: the reset gate is applied *before* the matmul.

    R = σ(X W_xr + H W_hr + b_r), Z = σ(X W_xz + H W_hz + b_z)
    H̃ = tanh(X W_xh + (R ⊙ H) W_hh + b_h), H' = Z ⊙ H + (1 − Z) ⊙ H̃

    This is the form of Cho et al. 2014, eqs. 5-8 (in Keras: `reset_after=False`). The matmul of the candidate needs the
    reset gate first, so there is no fused kernel, and sequences are processed by a loop. Compare `GRUCell`.
    """

    def __init__(self, input_width: int, width: int):
        super().__init__(input_width, width)
        self.input_weight = nn.Parameter(torch.empty(3 * width, input_width))
        self.input_bias = nn.Parameter(torch.empty(3 * width))
        self.gates_weight = nn.Parameter(torch.empty(2 * width, width))
        self.candidate_weight = nn.Parameter(torch.empty(width, width))
        # The same initial distribution as in torch's recurrent modules, so that the cells can be compared.
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(width**-0.5), width**-0.5)

    def project_inputs(self, inputs: Float[Tensor, "... input"]) -> Float[Tensor, "... gates"]:
        """X W_xr + b_r, X W_xz + b_z and X W_xh + b_h, concatenated."""
        return functional.linear(inputs, self.input_weight, self.input_bias)

    def gates(self, projected: Float[Tensor, "row gates"], state: CellState) -> dict[str, Tensor]:
        """Reset gate, update gate and candidate."""
        reset_x, update_x, candidate_x = projected.chunk(3, dim=-1)
        reset_h, update_h = functional.linear(state.hidden, self.gates_weight).chunk(2, dim=-1)
        reset = torch.sigmoid(reset_x + reset_h)
        update = torch.sigmoid(update_x + update_h)
        candidate_h = functional.linear(reset * state.hidden, self.candidate_weight)
        candidate = torch.tanh(candidate_x + candidate_h)
        return {"reset": reset, "update": update, "candidate": candidate}

    def next_state(self, gates: dict[str, Tensor], state: CellState) -> CellState:
        """A convex combination of the old state and the candidate: where Z is 1, the old state is copied exactly."""
        update = gates["update"]
        return CellState(update * state.hidden + (1 - update) * gates["candidate"])


class LSTMCell(FusedCell):
    """Long short-term memory: a second state vector, the memory cell, which only gates and the candidate change.

    i, f, o = σ(W_x x + W_h h + b), g = tanh(W_xg x + W_hg h + b_g)
    c' = f ⊙ c + i ⊙ g, h' = o ⊙ tanh(c'); Hochreiter & Schmidhuber 1997, with the forget gate of Gers et
    al. 2000. Between c and c' there is no matmul and no tanh: with f near 1 a gradient passes unchanged.
    """

    state_count = 2
    rnn_class = nn.LSTM
    rnn_function = staticmethod(torch.lstm)

    def gates(self, projected: Float[Tensor, "row gates"], state: CellState) -> dict[str, Tensor]:
        """Input gate, forget gate, candidate and output gate, in the order of torch's kernel."""
        preactivations = projected + self.project_hidden(state.hidden)
        input_gate, forget_gate, candidate, output_gate = preactivations.chunk(4, dim=-1)
        return {
            "input": torch.sigmoid(input_gate),
            "forget": torch.sigmoid(forget_gate),
            "candidate": torch.tanh(candidate),
            "output": torch.sigmoid(output_gate),
        }

    def next_state(self, gates: dict[str, Tensor], state: CellState) -> CellState:
        """c' = f ⊙ c + i ⊙ g and h' = o ⊙ tanh(c')."""
        assert state.cell is not None
        cell = gates["forget"] * state.cell + gates["input"] * gates["candidate"]
        return CellState(gates["output"] * torch.tanh(cell), cell)
