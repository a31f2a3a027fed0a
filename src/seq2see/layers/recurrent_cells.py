"""Recurrent cells and stacks of them: the base classes, the vanilla RNN cells, and networks of several layers.

A cell computes a new state from one input vector and the old state. Two small methods define it: `gates` (the gates and
the candidate) and `next_state` (the new state). Where torch has a fused kernel for the same equations, `unroll` uses it
for whole sequences, with the same parameters. `gru_lstm.py` holds the gated cells.

In a stack, the input of each layer is the output of the layer below (Graves 2013). In a bidirectional layer, a second
cell processes each row from its last valid vector to its first (Schuster & Paliwal 1997).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from seq2see.core.batch import Sequences
from seq2see.layers.masks import last_valid, reverse_sequences, zero_padding
from seq2see.layers.norms_and_dropout import Dropout, VariationalDropout


@dataclass(frozen=True)
class CellRecord:
    """The gates and states of a recurrent cell at each time step."""

    gates: dict[str, Tensor]
    """The gates by name (row, time, width), computed again by the equations, since a fused kernel returns none."""
    hidden: Float[Tensor, "row time width"]
    """The hidden states that the cell returned."""
    cell: Float[Tensor, "row time width"] | None
    """The memory cells of an LSTM, computed again with the gates."""


Hook = Callable[[CellRecord], None]


@dataclass(frozen=True)
class CellState:
    """The state of a recurrent cell between two time steps, for one layer or for a stack of layers.

    `hidden` is the hidden state, which is also the output; `cell` is the memory cell of an LSTM.
    """

    hidden: Float[Tensor, "row *layer width"]
    cell: Float[Tensor, "row *layer width"] | None = None

    def layer(self, index: int, width: int) -> CellState:
        """The state of one layer of a stack, whose width is `width`."""
        cell = None if self.cell is None else self.cell[:, index, :width]
        return CellState(self.hidden[:, index, :width], cell)

    @staticmethod
    def stack(layers: Sequence[CellState]) -> CellState:
        """The state of a stack, (row, layer, width), from the states of its layers; narrower states are zero-padded."""
        max_width = max(layer.hidden.size(-1) for layer in layers)
        hidden = [_pad_width(layer.hidden, max_width) for layer in layers]
        cells = [_pad_width(layer.cell, max_width) for layer in layers if layer.cell is not None]
        return CellState(torch.stack(hidden, dim=1), torch.stack(cells, dim=1) if cells else None)


def _pad_width(vectors: Float[Tensor, "row own"], width: int) -> Float[Tensor, "row width"]:
    missing = width - vectors.size(-1)
    return functional.pad(vectors, (0, missing)) if missing else vectors


class RecurrentCell(nn.Module):
    """One recurrent cell: `state = cell(inputs, state)` is one time step; `unroll` computes all time steps.

    If `hook` is set, it is called with the gates and states of all time steps. The gates are then computed a second
    time; the output does not change.
    """

    state_count = 1
    """The number of vectors in a state: 2 for an LSTM."""
    hook: Hook | None = None

    def __init__(self, input_width: int, width: int):
        super().__init__()
        self.input_width, self.width = input_width, width

    def project_inputs(self, inputs: Float[Tensor, "... input"]) -> Float[Tensor, "... gates"]:
        """The part of every gate that depends on the inputs alone, computed for all time steps at once."""
        raise NotImplementedError

    def gates(self, projected: Float[Tensor, "row gates"], state: CellState) -> dict[str, Tensor]:
        """The gates and the candidate, by name, from the projected inputs and the old state."""
        raise NotImplementedError

    def next_state(self, gates: dict[str, Tensor], state: CellState) -> CellState:
        """The new state from the old one and the gates."""
        raise NotImplementedError

    def forward(self, inputs: Float[Tensor, "row input"], state: CellState) -> CellState:
        """Compute one time step by the equations."""
        new_state = self.next_state(self.gates(self.project_inputs(inputs), state), state)
        if self.hook is not None:
            self.call_hook(self.hook, inputs[:, None], state, new_state.hidden[:, None])
        return new_state

    def unroll(
        self, inputs: Float[Tensor, "row time input"], state: CellState
    ) -> tuple[Float[Tensor, "row time width"], CellState]:
        """Compute all time steps: the hidden state after each step, and the state after the last step."""
        hidden, last = self.unroll_eagerly(inputs, state)
        if self.hook is not None:
            self.call_hook(self.hook, inputs, state, hidden)
        return hidden, last

    def unroll_eagerly(
        self, inputs: Float[Tensor, "row time input"], state: CellState
    ) -> tuple[Float[Tensor, "row time width"], CellState]:
        """Compute all time steps with a loop over the equations: the definition of `unroll`."""
        hidden = []
        for projected in self.project_inputs(inputs).unbind(dim=1):
            state = self.next_state(self.gates(projected, state), state)
            hidden.append(state.hidden)
        return torch.stack(hidden, dim=1), state

    @torch.no_grad()
    def call_hook(
        self,
        hook: Hook,
        inputs: Float[Tensor, "row time input"],
        state: CellState,
        hidden: Float[Tensor, "row time width"],
    ) -> None:
        """Call the hook with the gates of all time steps and the hidden states."""
        gates_by_step, cells = [], []
        for projected in self.project_inputs(inputs).unbind(dim=1):
            gates_by_step.append(self.gates(projected, state))
            state = self.next_state(gates_by_step[-1], state)
            cells += [] if state.cell is None else [state.cell]
        gates = {name: torch.stack([each[name] for each in gates_by_step], dim=1) for name in gates_by_step[0]}
        hook(CellRecord(gates, hidden, torch.stack(cells, dim=1) if cells else None))

    def initial_state(self, rows: int, like: Tensor) -> CellState:
        """The state before the first time step: zeros."""
        zeros = like.new_zeros(rows, self.width)
        return CellState(zeros, zeros if self.state_count == 2 else None)


class FusedCell(RecurrentCell):
    """A cell whose parameters are those of a recurrent module of torch, whose fused kernel unrolls sequences.

    In training, elements of W_h are zeroed with probability `weight_dropout`; the mask is drawn once for each sequence
    (DropConnect, Wan et al. 2013; on W_h Merity et al. 2018, section 2). It is the same at all time steps, so that the
    fused kernel can be used.
    """

    rnn_class: type[nn.RNN] | type[nn.GRU] | type[nn.LSTM]
    rnn_options: ClassVar[dict[str, str]] = {}
    """The arguments of that class, apart from the widths."""
    rnn_function: Callable[..., tuple[Tensor, ...]]
    """The function that this class calls. Its arguments are: input, initial state, weights, whether there are biases,
    the number of layers, the dropout between them, whether it is training, bidirectional, and batch-first.
    """

    def __init__(self, input_width: int, width: int, weight_dropout: float = 0.0):
        super().__init__(input_width, width)
        self.rnn = self.rnn_class(input_width, width, batch_first=True, **self.rnn_options)
        self.weight_dropout = Dropout(weight_dropout)

    def project_inputs(self, inputs: Float[Tensor, "... input"]) -> Float[Tensor, "... gates"]:
        """W_x x + b_x for every gate: the weights of all gates are stacked in one matrix."""
        weight, _, bias, _ = self.rnn.all_weights[0]
        return functional.linear(inputs, weight, bias)

    def project_hidden(self, hidden: Float[Tensor, "row width"]) -> Float[Tensor, "row gates"]:
        """W_h h + b_h for every gate."""
        _, weight, _, bias = self.rnn.all_weights[0]
        return functional.linear(hidden, weight, bias)

    def unroll(
        self, inputs: Float[Tensor, "row time input"], state: CellState
    ) -> tuple[Float[Tensor, "row time width"], CellState]:
        """Compute all time steps with the fused kernel; `unroll_eagerly` is the definition."""
        initial = tuple(part[None].contiguous() for part in (state.hidden, state.cell) if part is not None)
        hidden, *final = (
            self.run_with_weight_dropout(inputs, initial)
            if self.training and self.weight_dropout.p
            else self.run_fused(inputs, initial)
        )
        if self.hook is not None:
            self.call_hook(self.hook, inputs, state, hidden)
        return hidden, CellState(*(part[0] for part in final))

    def run_fused(self, inputs: Tensor, initial: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Run the fused kernel. The first axis of its states is the layer; each cell is a module with one layer."""
        hidden, final = self.rnn(inputs, initial if self.state_count == 2 else initial[0])
        return hidden, *(final if self.state_count == 2 else (final,))

    def run_with_weight_dropout(self, inputs: Tensor, initial: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Run the fused kernel with dropout on W_h.

        On a GPU, all weights must be in one contiguous buffer, in this order. They are copied once for each sequence.
        """
        input_weight, hidden_weight, input_bias, hidden_bias = self.rnn.all_weights[0]
        parts = (input_weight, self.weight_dropout(hidden_weight), input_bias, hidden_bias)
        buffer = torch.cat([part.flatten() for part in parts]).split([part.numel() for part in parts])
        weights = [flat.view_as(part) for flat, part in zip(buffer, parts, strict=True)]
        return self.rnn_function(
            inputs, initial if self.state_count == 2 else initial[0], weights, True, 1, 0.0, True, False, True
        )


class RNNCell(FusedCell):
    """The vanilla RNN (Elman 1990): h' = tanh(W_x x + b_x + W_h h + b_h).

    The course notes have one bias where torch's kernel has two. Every step multiplies by W_h and applies tanh, so the
    influence of early inputs vanishes or explodes; gated cells avoid this.
    """

    rnn_class = nn.RNN
    rnn_function = staticmethod(torch.rnn_tanh)

    def gates(self, projected: Float[Tensor, "row gates"], state: CellState) -> dict[str, Tensor]:
        """The candidate; there is no gate."""
        return {"candidate": torch.tanh(projected + self.project_hidden(state.hidden))}

    def next_state(self, gates: dict[str, Tensor], state: CellState) -> CellState:
        """The candidate replaces the old state."""
        return CellState(gates["candidate"])


class ReluRNNCell(RNNCell):
    """The vanilla RNN with ReLU: h' = max(0, W_x x + b_x + W_h h + b_h) (Le, Jaitly & Hinton 2015).

    A gradient passes a ReLU unchanged or not at all, so it does not vanish there; but nothing bounds a state that grows
    from step to step.
    """

    rnn_options: ClassVar[dict[str, str]] = {"nonlinearity": "relu"}
    rnn_function = staticmethod(torch.rnn_relu)

    def gates(self, projected: Float[Tensor, "row gates"], state: CellState) -> dict[str, Tensor]:
        """The candidate; there is no gate."""
        return {"candidate": torch.relu(projected + self.project_hidden(state.hidden))}


class StackedRNN(nn.Module):
    """A stack of recurrent cells with an explicit state as input and output, for decoders.

    Dropout is applied between the layers and to the output of the top layer, never inside the recurrence (Zaremba et
    al. 2014).
    """

    def __init__(self, cells: Sequence[RecurrentCell], dropout: float = 0.0):
        super().__init__()
        self.cells = cast("Sequence[RecurrentCell]", nn.ModuleList(cells))
        self.layer_dropout: nn.Module = nn.Dropout(dropout)
        self.output_dropout: nn.Module = nn.Dropout(dropout)

    def unroll(
        self, inputs: Float[Tensor, "row time input"], state: CellState
    ) -> tuple[Float[Tensor, "row time width"], CellState]:
        """Compute all time steps, layer by layer; the state is that of all layers, (row, layer, width)."""
        states = []
        for index, cell in enumerate(self.cells):
            inputs, final_state = cell.unroll(
                self.layer_dropout(inputs) if index else inputs, state.layer(index, cell.width)
            )
            states.append(final_state)
        return self.output_dropout(inputs), CellState.stack(states)

    def initial_state(self, rows: int, like: Tensor) -> CellState:
        """The state of all layers before the first time step: zeros."""
        return CellState.stack([cell.initial_state(rows, like) for cell in self.cells])


class VariationalStackedRNN(StackedRNN):
    """A stack of recurrent cells with `VariationalDropout` between the layers.

    The output of the top layer has no dropout here: the decoder applies its own before the head.
    """

    def __init__(self, cells: Sequence[RecurrentCell], dropout: float = 0.0):
        super().__init__(cells)
        self.layer_dropout, self.output_dropout = VariationalDropout(dropout), nn.Identity()


class UnidirectionalRNN(nn.Module):
    """A unidirectional recurrent encoder: each output vector depends on the inputs up to its own position.

    It returns the outputs, with zeros at padded positions, and the final state of each row: the output at its last
    valid position.
    """

    def __init__(self, cells: Sequence[RecurrentCell], dropout: float = 0.0):
        super().__init__()
        self.cells = cast("Sequence[RecurrentCell]", nn.ModuleList(cells))
        self.dropout = nn.Dropout(dropout)

    def forward(self, vectors: Sequences) -> tuple[Sequences, Float[Tensor, "row width"]]:
        """Process every row from its first vector to its last."""
        vectors = zero_padding(vectors)
        for index, cell in enumerate(self.cells):
            inputs = self.dropout(vectors.values) if index else vectors.values
            hidden, _ = cell.unroll(inputs, cell.initial_state(len(inputs), inputs))
            vectors = zero_padding(Sequences(hidden, vectors.lengths))
        return Sequences(self.dropout(vectors.values), vectors.lengths), last_valid(vectors)


class BidirectionalRNN(nn.Module):
    """A bidirectional recurrent encoder: each output is the concatenation of a forward and a backward hidden state.

    Both cells of a layer take the concatenated output of the layer below. The final state of a row is the forward
    state at its last valid position, concatenated with the backward state at its first: both depend on the whole row.
    """

    def __init__(
        self, forward_cells: Sequence[RecurrentCell], backward_cells: Sequence[RecurrentCell], dropout: float = 0.0
    ):
        super().__init__()
        self.forward_cells = cast("Sequence[RecurrentCell]", nn.ModuleList(forward_cells))
        self.backward_cells = cast("Sequence[RecurrentCell]", nn.ModuleList(backward_cells))
        self.dropout = nn.Dropout(dropout)

    def forward(self, vectors: Sequences) -> tuple[Sequences, Float[Tensor, "row width"]]:
        """Process every row in both directions."""
        vectors = zero_padding(vectors)
        for index, (forward_cell, backward_cell) in enumerate(
            zip(self.forward_cells, self.backward_cells, strict=True)
        ):
            if index:
                vectors = Sequences(self.dropout(vectors.values), vectors.lengths)
            forward_output = self._unroll(forward_cell, vectors)
            # Each row is reversed by its own length, so that it begins with its last valid vector, never with padding.
            backward_output = reverse_sequences(self._unroll(backward_cell, reverse_sequences(vectors)))
            vectors = Sequences(torch.cat([forward_output.values, backward_output.values], dim=-1), vectors.lengths)
        final_state = torch.cat([last_valid(forward_output), backward_output.values[:, 0]], dim=-1)
        return Sequences(self.dropout(vectors.values), vectors.lengths), final_state

    def _unroll(self, cell: RecurrentCell, vectors: Sequences) -> Sequences:
        hidden, _ = cell.unroll(vectors.values, cell.initial_state(len(vectors.values), vectors.values))
        return zero_padding(Sequences(hidden, vectors.lengths))
