"""Layers as they are while somebody works beside the step (beside.py).

Products and tables leave the slopes of their weights to it; what was cut out of a product is put together at most once
on the way back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2see.core.devices import kernels_on
from seq2see.kernels.beside import at_hand, taker_of


def way_of(layer: nn.Linear | nn.Embedding) -> Callable[[Tensor], Tensor]:
    """What is called in place of a layer's own `forward`."""
    return partial(_product, layer) if isinstance(layer, nn.Linear) else partial(_look_up, layer)


def in_format(weight: Tensor, low: torch.dtype) -> Tensor:
    """A weight in this number format: the copy of it, if somebody who works beside the step has one."""
    beside = at_hand()
    copy = None if beside is None else beside.low.get(id(weight))
    return copy if copy is not None and copy.dtype == low else weight.to(low)


class Product(torch.autograd.Function):
    """x Wᵀ + b, whose slopes by W and b are somebody else's business."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.taker = taker_of(weight, bias)
        ctx.taker.beside.uses[ctx.taker.weight] += 1
        return functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        slope = slope.flatten(0, -2).contiguous()
        by_x = (slope @ weight).view_as(x) if ctx.needs_input_grad[0] else None
        ctx.taker.by_product(slope, x.flatten(0, -2))
        return by_x, None, None


class LookUp(torch.autograd.Function):
    """The vectors of tokens, and the slope by their table is somebody else's business."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(tokens)
        ctx.taker, ctx.size = taker_of(weight), len(weight)
        ctx.order = ctx.taker.beside.sort(tokens, ctx.size)
        return functional.embedding(tokens, weight)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        (tokens,) = ctx.saved_tensors
        ctx.taker.by_table(slope.contiguous(), tokens, ctx.size, ctx.order)
        return None, None


def _product(layer: nn.Linear, x: Tensor) -> Tensor:
    found: Tensor = Product.apply(x.to(layer.weight.dtype), layer.weight, layer.bias)
    return found


def _look_up(layer: nn.Embedding, tokens: Tensor) -> Tensor:
    found: Tensor = LookUp.apply(tokens, layer.weight)
    return found


class Pieces(torch.autograd.Function):
    """What `plain_pieces` gives; on the way back slopes that lie side by side are the slope by the whole, uncopied.

    Others are put there by one walk, which sums them for the product's bias.
    """

    @staticmethod
    def forward(ctx: Any, together: Tensor, heads: tuple[int, ...]) -> tuple[Tensor, ...]:
        return plain_pieces(together, heads)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None]:
        beside, whole = at_hand(), _side_by_side(slopes)
        if whole is not None:
            return whole, None
        if beside is None or not kernels_on(slopes[0].device):
            return torch.cat([slope.transpose(1, 2) for slope in slopes], dim=2).flatten(2), None
        from seq2see.kernels.joins import join
        from seq2see.kernels.sums import add_up

        whole, parts = join(slopes)
        beside.know_sum(whole, parts, add_up)
        return whole, None


def _side_by_side(slopes: Sequence[Tensor]) -> Tensor | None:
    """The slope by the whole, if those by its pieces lie as pieces of it would."""
    first, heads = slopes[0], tuple(slope.size(1) for slope in slopes)
    rows, _, times, size = first.shape
    whole = torch.empty(rows, times, sum(heads) * size, device="meta")
    for slope, piece in zip(slopes, plain_pieces(whole, heads), strict=True):
        behind = slope.storage_offset() - first.storage_offset()
        if slope.untyped_storage().data_ptr() != first.untyped_storage().data_ptr():
            return None
        if (slope.stride(), behind) != (piece.stride(), piece.storage_offset()):
            return None
    return first.as_strided(whole.shape, whole.stride())


def plain_pieces(together: Tensor, heads: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Vectors (row, time, whole) cut into heads, so many for each piece (row, head, time, size)."""
    parts = together.unflatten(-1, (sum(heads), -1)).split(heads, dim=2)
    return tuple(part.transpose(1, 2) for part in parts)


def pieces(together: Tensor, *heads: int) -> tuple[Tensor, ...]:
    """The same, whether or not somebody works beside."""
    found: tuple[Tensor, ...] = plain_pieces(together, heads) if at_hand() is None else Pieces.apply(together, heads)
    return found
