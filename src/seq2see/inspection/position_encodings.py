"""Position encodings as arrays, their similarity, and the effect of positions on the vectors of a model.

Absolute positions are a table (position, width) that is added to the embeddings. Rotary positions are a table of angles
(position, pair). ALiBi is an attention bias (query, key). The similarity of two positions is defined for all of them.

Two experiments show the effect of positions: a copy of the model without position encodings, and permuted tokens. In
the second, the vectors of the permuted text are put back into the original order, and compared layer by layer with the
vectors of the same tokens in the original text.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seq2see.core.batch import Batch, Sequences
from seq2see.core.devices import plain_class
from seq2see.inspection.trace import trace
from seq2see.layers.attention import SelfAttention
from seq2see.layers.positions import (
    AlibiPositions,
    Grid,
    LearnedPositions,
    LearnedPositions2d,
    NoPositions,
    NoPositions2d,
    RotaryPositions,
    SinusoidalPositions,
    SinusoidalPositions2d,
)

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
    """The position encoding of one side of a model: its kind and its module."""

    kind: str
    """A value of `KINDS`, or "none"."""
    module: Any = None

    @property
    def max_positions(self) -> int | None:
        """The number of learned position vectors; None if the positions are not limited."""
        return self.module.max_positions if isinstance(self.module, LearnedPositions) else None

    @property
    def grid(self) -> Grid | None:
        """The learned grid, if the positions are learned ones of an image."""
        return self.module.grid if isinstance(self.module, LearnedPositions2d) else None

    @property
    def heads(self) -> int:
        """The number of heads with different encodings: 1 unless ALiBi has a slope for each."""
        return len(self.module.slopes) if isinstance(self.module, AlibiPositions) else 1


def find_position_encoding(embedding: nn.Module, body: nn.Module) -> PositionEncoding:
    """The position encoding of an embedding layer, or of the self-attention of the encoder or decoder after it."""
    absolute = getattr(embedding, "positions", None)
    modules = [absolute, *(each.relative_positions for each in body.modules() if isinstance(each, SelfAttention))]
    found = (each for each in modules if each is not None and plain_class(each) in KINDS)
    return next((PositionEncoding(KINDS[plain_class(each)], each) for each in found), PositionEncoding("none"))


@torch.inference_mode()
def position_table(encoding: PositionEncoding, length: int, head: int = 0) -> Table:
    """Vectors (position, width), angles (position, pair) in [0, 2π), or the attention bias (query, key) of a head.

    Of an image, `length` is the number of rows and of columns; it is ignored if the grid is learned.
    """
    positions, module = torch.arange(length)[None], encoding.module
    if isinstance(module, RotaryPositions):
        return (positions[0, :, None] * module.frequencies.cpu() % math.tau).numpy()
    if isinstance(module, AlibiPositions):
        positions = positions.to(module.slopes.device)
        return module.attention_bias(positions, positions)[0, head].cpu().numpy()
    if isinstance(module, LearnedPositions2d | SinusoidalPositions2d):
        return module(encoding.grid or (length, length))[0].float().cpu().numpy()
    if module is None:
        return np.zeros((length, 1), np.float32)
    positions = positions.to(next(iter([*module.parameters(), *module.buffers()])).device)
    return module(positions)[0].float().cpu().numpy()


def position_similarity(encoding: PositionEncoding, length: int, head: int = 0) -> Table:
    """(position, position): the similarity of each pair of positions.

    Of vectors it is the cosine similarity. RoPE rotates the dot product of a query at t and a key at s by t - s: the
    mean cosine of these angles is the factor for two equal vectors. Of ALiBi it is the bias itself.
    """
    table = position_table(encoding, length, head)
    if encoding.kind == "alibi":
        return table
    if encoding.kind == "rotary":
        return np.cos(table[:, None] - table[None]).mean(-1)
    norms = np.linalg.norm(table, axis=1, keepdims=True)
    unit = table / np.where(norms == 0, 1, norms)
    return np.asarray(unit @ unit.T, np.float32)


def remove_positions(model: nn.Module) -> nn.Module:
    """A copy of the model without position encodings. The copy shares all parameters; the model does not change."""
    shared = {id(each): each for each in [*model.parameters(), *model.buffers()]}
    ablated = copy.deepcopy(model, shared)
    for module in ablated.modules():
        positions = getattr(module, "positions", None)
        if isinstance(positions, SinusoidalPositions | LearnedPositions):
            module.positions = NoPositions(_width(positions))
        if isinstance(positions, SinusoidalPositions2d | LearnedPositions2d):
            module.positions = NoPositions2d(_width(positions)).to(next(model.parameters()).device)
        if isinstance(module, SelfAttention):
            module.relative_positions = None
    return ablated.eval()


def _width(positions: nn.Module) -> int:
    if isinstance(positions, SinusoidalPositions2d):
        return 2 * _width(positions.axis_positions)
    if isinstance(positions, SinusoidalPositions):
        return 2 * len(positions.frequencies)
    assert isinstance(positions, LearnedPositions | LearnedPositions2d)
    return positions.embedding.embedding_dim


@torch.inference_mode()
def residual_streams(model: nn.Module, ids: Sequence[int]) -> dict[str, Tensor]:
    """The vectors (token, width) of one sequence of tokens: the embeddings, and the output of each block."""
    module: Any = model
    device = next(module.parameters()).device
    tokens = Sequences.of([list(ids)]).to(device)
    with trace(module, ("embedding", "stream")) as activations:
        if hasattr(module, "encode"):
            module.encode(tokens)
        else:
            module.hidden(Batch(None, tokens, torch.zeros_like(tokens.values), torch.zeros(1, dtype=torch.long)))
    signals = [each for kind in ("embedding", "stream") for each in activations.of(kind)]
    return {each.name: each.values[0].float().cpu() for each in signals}


def stream_distances(
    model: nn.Module, ids: Sequence[int], order: Sequence[int]
) -> tuple[list[str], NDArray[np.float32]]:
    """Layer names, and (layer, token): how far each token's vector changes if token `order[i]` is at position i.

    The distance is relative: the norm of the difference divided by the mean norm of both vectors; 0 is no change.
    """
    before, after = residual_streams(model, ids), residual_streams(model, [ids[index] for index in order])
    inverse = torch.tensor(order).argsort()
    return list(before), np.stack([_relative_distance(before[name], after[name][inverse]) for name in before])


def _relative_distance(first: Tensor, second: Tensor) -> NDArray[np.float32]:
    norms = (first.norm(dim=-1) + second.norm(dim=-1)) / 2
    return ((first - second).norm(dim=-1) / norms.clamp(min=torch.finfo(norms.dtype).tiny)).numpy()
