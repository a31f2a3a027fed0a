"""Reading whole sequences with recurrent cells: in stacks, in one direction or in both.

A cell reads one direction; depth comes from letting a second cell read what the first one said (Graves
2013), both directions from a second cell that reads the row from its last real vector to its first
(Schuster & Paliwal 1997).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.core.batch import Sequences
from seq2see.layers.dropout import VariationalDropout
from seq2see.layers.padding import last_valid, reverse_sequences, zero_padding
from seq2see.layers.recurrent_cells import CellState, RecurrentCell


class StackedRNN(nn.Module):
    """Cells on top of each other, read with a state that goes in and comes out: a decoder's engine.

    Dropout acts between the layers and on what the top layer gives away, never inside the recurrence
    (Zaremba et al. 2014).
    """

    def __init__(self, cells: Sequence[RecurrentCell], dropout: float = 0.0):
        super().__init__()
        self.cells = cast("Sequence[Cell]", nn.ModuleList(cells))
        self.layer_dropout: nn.Module = nn.Dropout(dropout)
        self.output_dropout: nn.Module = nn.Dropout(dropout)

    def unroll(
        self, inputs: Float[Tensor, "row time input"], state: CellState
    ) -> tuple[Float[Tensor, "row time width"], CellState]:
        """Read all times, layer by layer; the state is that of all layers, (row, layer, width)."""
        layers = []
        for place, cell in enumerate(self.cells):
            inputs, last = cell.unroll(self.layer_dropout(inputs) if place else inputs, state.layer(place, cell.width))
            layers.append(last)
        return self.output_dropout(inputs), CellState.stack(layers)

    def initial_state(self, rows: int, like: Tensor) -> CellState:
        """The state of all layers before anything was read: zeros."""
        return CellState.stack([cell.initial_state(rows, like) for cell in self.cells])


class VariationalStackedRNN(StackedRNN):
    """The same with masks that hold for all times (`VariationalDropout`), between the layers.

    What the top layer gives away is left whole: its user drops out as much of it as the head shall miss.
    """

    def __init__(self, cells: Sequence[RecurrentCell], dropout: float = 0.0):
        super().__init__(cells)
        self.layer_dropout, self.output_dropout = VariationalDropout(dropout), nn.Identity()


class UnidirectionalRNN(nn.Module):
    """Each vector out knows everything up to its place.

    Gives the sequences read, zeros at the padding, and what sums each row up: the state after its
    last real vector.
    """

    def __init__(self, cells: Sequence[RecurrentCell], dropout: float = 0.0):
        super().__init__()
        self.cells = cast("Sequence[Cell]", nn.ModuleList(cells))
        self.dropout = nn.Dropout(dropout)

    def forward(self, vectors: Sequences) -> tuple[Sequences, Float[Tensor, "row width"]]:
        """Read every row from its first vector to its last."""
        vectors = zero_padding(vectors)
        for place, cell in enumerate(self.cells):
            inputs = self.dropout(vectors.values) if place else vectors.values
            hidden, _ = cell.unroll(inputs, cell.initial_state(len(inputs), inputs))
            vectors = zero_padding(Sequences(hidden, vectors.lengths))
        return Sequences(self.dropout(vectors.values), vectors.lengths), last_valid(vectors)


class BidirectionalRNN(nn.Module):
    """Each vector out knows the whole row: one half what comes before its place, the other what comes after.

    Both halves of a layer are read by both halves of the next. What sums a row up is the forward half at
    its last real vector beside the backward half at its first: each where it has read everything.
    """

    def __init__(
        self, forward_cells: Sequence[RecurrentCell], backward_cells: Sequence[RecurrentCell], dropout: float = 0.0
    ):
        super().__init__()
        self.forward_cells = cast("Sequence[Cell]", nn.ModuleList(forward_cells))
        self.backward_cells = cast("Sequence[Cell]", nn.ModuleList(backward_cells))
        self.dropout = nn.Dropout(dropout)

    def forward(self, vectors: Sequences) -> tuple[Sequences, Float[Tensor, "row width"]]:
        """Read every row in both directions."""
        vectors = zero_padding(vectors)
        for place, (forward_cells, backward_cells) in enumerate(
            zip(self.forward_cells, self.backward_cells, strict=True)
        ):
            if place:
                vectors = Sequences(self.dropout(vectors.values), vectors.lengths)
            forwards = self._read(forward_cells, vectors)
            # Reversed by its own length, a row begins with its last real vector, never with padding.
            backwards = reverse_sequences(self._read(backward_cells, reverse_sequences(vectors)))
            vectors = Sequences(torch.cat([forwards.values, backwards.values], dim=-1), vectors.lengths)
        final_state = torch.cat([last_valid(forwards), backwards.values[:, 0]], dim=-1)
        return Sequences(self.dropout(vectors.values), vectors.lengths), final_state

    def _read(self, cell: RecurrentCell, vectors: Sequences) -> Sequences:
        hidden, _ = cell.unroll(vectors.values, cell.initial_state(len(vectors.values), vectors.values))
        return zero_padding(Sequences(hidden, vectors.lengths))
