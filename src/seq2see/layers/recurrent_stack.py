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
from seq2see.layers.dropout import LockedDropout
from seq2see.layers.padding import blank, last_real, reverse
from seq2see.layers.recurrent import Cell, CellState


class CellStack(nn.Module):
    """Cells on top of each other, read with a state that goes in and comes out: a decoder's engine.

    Dropout acts between the layers and on what the top layer gives away, never inside the recurrence
    (Zaremba et al. 2014).
    """

    def __init__(self, cells: Sequence[Cell], dropout: float = 0.0):
        super().__init__()
        self.cells = cast("Sequence[Cell]", nn.ModuleList(cells))
        self.between: nn.Module = nn.Dropout(dropout)
        self.above: nn.Module = nn.Dropout(dropout)

    def read(
        self, inputs: Float[Tensor, "row time input"], state: CellState
    ) -> tuple[Float[Tensor, "row time width"], CellState]:
        """Read all times, layer by layer; the state is that of all layers, (row, layer, width)."""
        layers = []
        for place, cell in enumerate(self.cells):
            inputs, last = cell.read(self.between(inputs) if place else inputs, state.layer(place, cell.width))
            layers.append(last)
        return self.above(inputs), CellState.stack(layers)

    def first_state(self, rows: int, like: Tensor) -> CellState:
        """The state of all layers before anything was read: zeros."""
        return CellState.stack([cell.first_state(rows, like) for cell in self.cells])


class LockedStack(CellStack):
    """The same with masks that hold for all times (`LockedDropout`), between the layers.

    What the top layer gives away is left whole: its user drops out as much of it as the head shall miss.
    """

    def __init__(self, cells: Sequence[Cell], dropout: float = 0.0):
        super().__init__(cells)
        self.between, self.above = LockedDropout(dropout), nn.Identity()


class ReadForwards(nn.Module):
    """Each vector out knows everything up to its place.

    Gives the sequences read, zeros at the padding, and what sums each row up: the state after its
    last real vector.
    """

    def __init__(self, cells: Sequence[Cell], dropout: float = 0.0):
        super().__init__()
        self.cells = cast("Sequence[Cell]", nn.ModuleList(cells))
        self.dropout = nn.Dropout(dropout)

    def forward(self, vectors: Sequences) -> tuple[Sequences, Float[Tensor, "row width"]]:
        """Read every row from its first vector to its last."""
        vectors = blank(vectors)
        for place, cell in enumerate(self.cells):
            inputs = self.dropout(vectors.values) if place else vectors.values
            hidden, _ = cell.read(inputs, cell.first_state(len(inputs), inputs))
            vectors = blank(Sequences(hidden, vectors.lengths))
        return Sequences(self.dropout(vectors.values), vectors.lengths), last_real(vectors)


class ReadBothWays(nn.Module):
    """Each vector out knows the whole row: one half what comes before its place, the other what comes after.

    Both halves of a layer are read by both halves of the next. What sums a row up is the forward half at
    its last real vector beside the backward half at its first: each where it has read everything.
    """

    def __init__(self, ahead: Sequence[Cell], back: Sequence[Cell], dropout: float = 0.0):
        super().__init__()
        self.ahead = cast("Sequence[Cell]", nn.ModuleList(ahead))
        self.back = cast("Sequence[Cell]", nn.ModuleList(back))
        self.dropout = nn.Dropout(dropout)

    def forward(self, vectors: Sequences) -> tuple[Sequences, Float[Tensor, "row width"]]:
        """Read every row in both directions."""
        vectors = blank(vectors)
        for place, (ahead, back) in enumerate(zip(self.ahead, self.back, strict=True)):
            if place:
                vectors = Sequences(self.dropout(vectors.values), vectors.lengths)
            forwards = self._read(ahead, vectors)
            # Reversed by its own length, a row begins with its last real vector, never with padding.
            backwards = reverse(self._read(back, reverse(vectors)))
            vectors = Sequences(torch.cat([forwards.values, backwards.values], dim=-1), vectors.lengths)
        summary = torch.cat([last_real(forwards), backwards.values[:, 0]], dim=-1)
        return Sequences(self.dropout(vectors.values), vectors.lengths), summary

    def _read(self, cell: Cell, vectors: Sequences) -> Sequences:
        hidden, _ = cell.read(vectors.values, cell.first_state(len(vectors.values), vectors.values))
        return blank(Sequences(hidden, vectors.lengths))
