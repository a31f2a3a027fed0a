"""Recurrent networks of several layers, unidirectional or bidirectional.

In a stack, the input of each layer is the output of the layer below (Graves 2013). In a bidirectional layer, a second
cell processes each row from its last valid vector to its first (Schuster & Paliwal 1997).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.core.batch import Sequences
from seq2see.layers.masks import last_valid, reverse_sequences, zero_padding
from seq2see.layers.norms_and_dropout import VariationalDropout
from seq2see.layers.recurrent_cells import CellState, RecurrentCell


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
