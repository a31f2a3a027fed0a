"""How a model is told where its tokens stand, as numbers to look at; and the same model when it is not told.

What is added to vectors is a table (time, width), what attention turns is a table of angles (time, pair), what is added
to its scores a table (query, key). Two times can be compared in all of them: how alike they look to the model.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from seq2see.layers.attention import SelfAttention
from seq2see.layers.positions import (
    Grid,
    LearnedGrid,
    LearnedPositions,
    NoGrid,
    NoPositions,
    SinusoidalGrid,
    SinusoidalPositions,
)
from seq2see.layers.relative_positions import LinearBias, Rotary

Table = NDArray[np.float32]

KINDS: dict[type, str] = {
    SinusoidalPositions: "sinusoidal",
    LearnedPositions: "learned",
    SinusoidalGrid: "sinusoidal-grid",
    LearnedGrid: "learned-grid",
    Rotary: "rotary",
    LinearBias: "alibi",
}


@dataclass(frozen=True)
class Told:
    """The way in which one side of a model is told positions: a word, the part that tells, and who shall hear it."""

    kind: str
    """A word of `KINDS`, or "none"."""
    teller: Any = None

    @property
    def longest(self) -> int | None:
        """How many places have something of their own, if that has an end."""
        return self.teller.longest if isinstance(self.teller, LearnedPositions) else None

    @property
    def grid(self) -> Grid | None:
        """Of a picture, the grid that was learnt."""
        return self.teller.grid if isinstance(self.teller, LearnedGrid) else None

    @property
    def heads(self) -> int:
        """How many heads are told differently."""
        return len(self.teller.slopes) if isinstance(self.teller, LinearBias) else 1


def told_to(frontend: nn.Module, body: nn.Module) -> Told:
    """How a frontend, or the attention of the body behind it, tells positions."""
    adding = getattr(frontend, "positions", None)
    tellers = [adding, *(each.places for each in body.modules() if isinstance(each, SelfAttention))]
    return next((Told(KINDS[type(each)], each) for each in tellers if type(each) in KINDS), Told("none"))


@torch.inference_mode()
def table_of(told: Told, length: int, head: int = 0) -> Table:
    """What there is to see: vectors (time, width), angles (time, pair) from 0 to 2π, or what a head adds (query, key).

    Of a picture `length` is ignored where the grid was learnt, else it is the number of lines and of columns.
    """
    times, teller = torch.arange(length)[None], told.teller
    if isinstance(teller, Rotary):
        return (times[0, :, None] * teller.frequencies.cpu() % math.tau).numpy()
    if isinstance(teller, LinearBias):
        there = times.to(teller.slopes.device)
        return teller.lean(there, there)[0, head].cpu().numpy()
    if isinstance(teller, LearnedGrid | SinusoidalGrid):
        return teller(told.grid or (length, length))[0].float().cpu().numpy()
    if teller is None:
        return np.zeros((length, 1), np.float32)
    there = times.to(next(iter([*teller.parameters(), *teller.buffers()])).device)
    return teller(there)[0].float().cpu().numpy()


def alike(told: Told, length: int, head: int = 0) -> Table:
    """(place, place): how alike two places look.

    Of vectors it is their cosine. Rotary turns a query at t and a key at s to t - s: the mean cosine of these angles is
    what the product of two equal vectors keeps. ALiBi says it itself.
    """
    table = table_of(told, length, head)
    if told.kind == "alibi":
        return table
    if told.kind == "rotary":
        return np.cos(table[:, None] - table[None]).mean(-1)
    lengths = np.linalg.norm(table, axis=1, keepdims=True)
    unit = table / np.where(lengths == 0, 1, lengths)
    return np.asarray(unit @ unit.T, np.float32)


def without_positions(model: nn.Module) -> nn.Module:
    """The same model, weights shared, that is told nothing of where its tokens or patches stand.

    The model itself stays as it is: only the frame is copied.
    """
    shared = {id(each): each for each in [*model.parameters(), *model.buffers()]}
    blind = copy.deepcopy(model, shared)
    for part in blind.modules():
        positions = getattr(part, "positions", None)
        if isinstance(positions, SinusoidalPositions | LearnedPositions):
            part.positions = NoPositions(_width(positions))
        if isinstance(positions, SinusoidalGrid | LearnedGrid):
            part.positions = NoGrid(_width(positions)).to(next(model.parameters()).device)
        if isinstance(part, SelfAttention):
            part.places = None
    return blind.eval()


def _width(positions: nn.Module) -> int:
    if isinstance(positions, SinusoidalGrid):
        return 2 * _width(positions.along)
    if isinstance(positions, SinusoidalPositions):
        return 2 * len(positions.frequencies)
    assert isinstance(positions, LearnedPositions | LearnedGrid)
    return positions.table.embedding_dim
