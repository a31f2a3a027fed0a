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
    LearnedPositions,
    LearnedPositions2d,
    NoPositions,
    NoPositions2d,
    SinusoidalPositions,
    SinusoidalPositions2d,
)
from seq2see.layers.relative_positions import AlibiPositions, RotaryPositions

Table = NDArray[np.float32]

KINDS: dict[type, str] = {
    SinusoidalPositions: "sinusoidal",
    LearnedPositions: "learned",
    SinusoidalPositions2d: "sinusoidal-grid",
    LearnedPositions2d: "learned-grid",
    RotaryPositions: "rotary",
    AlibiPositions: "alibi",
}


@dataclass(frozen=True)
class PositionEncoding:
    """The way in which one side of a model is told positions: a word, the part that tells, and who shall hear it."""

    kind: str
    """A word of `KINDS`, or "none"."""
    module: Any = None

    @property
    def max_positions(self) -> int | None:
        """How many places have something of their own, if that has an end."""
        return self.module.max_positions if isinstance(self.module, LearnedPositions) else None

    @property
    def grid(self) -> Grid | None:
        """Of an image, the grid that was learned."""
        return self.module.grid if isinstance(self.module, LearnedPositions2d) else None

    @property
    def heads(self) -> int:
        """How many heads are told differently."""
        return len(self.module.slopes) if isinstance(self.module, AlibiPositions) else 1


def find_position_encoding(frontend: nn.Module, body: nn.Module) -> PositionEncoding:
    """How a frontend, or the attention of the body behind it, tells positions."""
    adding = getattr(frontend, "positions", None)
    tellers = [adding, *(each.relative_positions for each in body.modules() if isinstance(each, SelfAttention))]
    return next(
        (PositionEncoding(KINDS[type(each)], each) for each in tellers if type(each) in KINDS), PositionEncoding("none")
    )


@torch.inference_mode()
def position_table(encoding: PositionEncoding, length: int, head: int = 0) -> Table:
    """What there is to see: vectors (time, width), angles (time, pair) from 0 to 2π, or what a head adds (query, key).

    Of an image `length` is ignored where the grid was learned, else it is the number of lines and of columns.
    """
    times, module = torch.arange(length)[None], encoding.module
    if isinstance(module, RotaryPositions):
        return (times[0, :, None] * module.frequencies.cpu() % math.context).numpy()
    if isinstance(module, AlibiPositions):
        there = times.to(module.slopes.device)
        return module.attention_bias(there, there)[0, head].cpu().numpy()
    if isinstance(module, LearnedPositions2d | SinusoidalPositions2d):
        return module(encoding.grid or (length, length))[0].float().cpu().numpy()
    if module is None:
        return np.zeros((length, 1), np.float32)
    there = times.to(next(iter([*module.parameters(), *module.buffers()])).device)
    return module(there)[0].float().cpu().numpy()


def position_similarity(encoding: PositionEncoding, length: int, head: int = 0) -> Table:
    """(place, place): how alike two places look.

    Of vectors it is their cosine. Rotary turns a query at t and a key at s to t - s: the mean cosine of these angles is
    what the product of two equal vectors keeps. ALiBi says it itself.
    """
    table = position_table(encoding, length, head)
    if encoding.kind == "alibi":
        return table
    if encoding.kind == "rotary":
        return np.cos(table[:, None] - table[None]).mean(-1)
    lengths = np.linalg.norm(table, axis=1, keepdims=True)
    unit = table / np.where(lengths == 0, 1, lengths)
    return np.asarray(unit @ unit.T, np.float32)


def remove_positions(model: nn.Module) -> nn.Module:
    """The same model, weights shared, that is told nothing of where its tokens or patches stand.

    The model itself stays as it is: only the frame is copied.
    """
    shared = {id(each): each for each in [*model.parameters(), *model.buffers()]}
    ablated = copy.deepcopy(model, shared)
    for part in ablated.modules():
        positions = getattr(part, "positions", None)
        if isinstance(positions, SinusoidalPositions | LearnedPositions):
            part.positions = NoPositions(_width(positions))
        if isinstance(positions, SinusoidalPositions2d | LearnedPositions2d):
            part.positions = NoPositions2d(_width(positions)).to(next(model.parameters()).device)
        if isinstance(part, SelfAttention):
            part.relative_positions = None
    return ablated.eval()


def _width(positions: nn.Module) -> int:
    if isinstance(positions, SinusoidalPositions2d):
        return 2 * _width(positions.axis_positions)
    if isinstance(positions, SinusoidalPositions):
        return 2 * len(positions.frequencies)
    assert isinstance(positions, LearnedPositions | LearnedPositions2d)
    return positions.table.embedding_dim
