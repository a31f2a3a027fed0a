"""Layers as they are while somebody works beside the step (beside.py).

Products and tables leave the slopes of their weights to it; the halves of a product are not copied on the way back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2see.kernels.beside import at_hand, taker_of


def way_of(layer: nn.Linear | nn.Embedding) -> Callable[[Tensor], Tensor]:
    """What is called in place of a layer's own `forward`."""
    return partial(_product, layer) if isinstance(layer, nn.Linear) else partial(_look_up, layer)


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


class Halves(torch.autograd.Function):
    """The two halves of every vector; slopes by them that lie side by side are the slope by the whole, uncopied."""

    @staticmethod
    def forward(ctx: Any, both: Tensor) -> tuple[Tensor, Tensor]:
        first, second = both.chunk(2, dim=-1)
        return first, second

    @staticmethod
    def backward(ctx: Any, first: Tensor, second: Tensor) -> Tensor:
        shape, behind = (*first.shape[:-1], 2 * first.size(-1)), first.size(-1) * first.element_size()
        steps = torch.empty(shape, device="meta").stride()
        if first.stride() == second.stride() == steps and second.data_ptr() == first.data_ptr() + behind:
            return first.as_strided(shape, steps)
        return torch.cat([first, second], dim=-1)


def halves(both: Tensor) -> tuple[Tensor, Tensor]:
    """The two halves of every vector."""
    first, second = both.chunk(2, dim=-1) if at_hand() is None else Halves.apply(both)
    return first, second
