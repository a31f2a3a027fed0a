"""The layers of a training step with asynchronous weight gradients (async_weight_grad.py).

Linear layers and embeddings pass the computation of their weight gradients to a gradient sink. The gradients of
queries, keys and values, which are slices of one projection, are concatenated at most once in the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2see.acceleration.async_weight_grad import current_async_grads, grad_sink_of
from seq2see.core.devices import kernels_enabled


def async_forward(layer: nn.Linear | nn.Embedding) -> Callable[[Tensor], Tensor]:
    """The function that replaces the `forward` of a layer."""
    return partial(_linear, layer) if isinstance(layer, nn.Linear) else partial(_embedding, layer)


def cast_weight(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """A weight in this dtype: its low-precision copy, if the current `AsyncWeightGrads` has one."""
    async_grads = current_async_grads()
    copy = None if async_grads is None else async_grads.low_precision.get(id(weight))
    return copy if copy is not None and copy.dtype == dtype else weight.to(dtype)


class LinearFunction(torch.autograd.Function):
    """x Wᵀ + b, whose gradients of W and b are computed by a gradient sink."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.grad_sink = grad_sink_of(weight, bias)
        ctx.grad_sink.async_grads.use_counts[ctx.grad_sink.weight] += 1
        return functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        grad_output = grad_output.flatten(0, -2).contiguous()
        grad_input = (grad_output @ weight).view_as(x) if ctx.needs_input_grad[0] else None
        ctx.grad_sink.linear_grad(grad_output, x.flatten(0, -2))
        return grad_input, None, None


class EmbeddingFunction(torch.autograd.Function):
    """Embedding lookup, whose gradient of the embedding matrix is computed by a gradient sink."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(tokens)
        ctx.grad_sink, ctx.size = grad_sink_of(weight), len(weight)
        ctx.order = ctx.grad_sink.async_grads.sort_tokens(tokens, ctx.size)
        return functional.embedding(tokens, weight)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        (tokens,) = ctx.saved_tensors
        ctx.grad_sink.embedding_grad(grad_output.contiguous(), tokens, ctx.size, ctx.order)
        return None, None


def _linear(layer: nn.Linear, x: Tensor) -> Tensor:
    output: Tensor = LinearFunction.apply(x.to(layer.weight.dtype), layer.weight, layer.bias)
    return output


def _embedding(layer: nn.Embedding, tokens: Tensor) -> Tensor:
    output: Tensor = EmbeddingFunction.apply(tokens, layer.weight)
    return output


class SplitHeadsFunction(torch.autograd.Function):
    """`split_heads_eagerly` with a fast backward pass.

    If the gradients of all parts are adjacent in memory, they are the gradient of the projection, without a copy.
    Otherwise one kernel concatenates them, and sums them for the bias of the projection.
    """

    @staticmethod
    def forward(ctx: Any, projected: Tensor, heads: tuple[int, ...]) -> tuple[Tensor, ...]:
        return split_heads_eagerly(projected, heads)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        async_grads, joined = current_async_grads(), _join_without_copy(grads)
        if joined is not None:
            return joined, None
        if async_grads is None or not kernels_enabled(grads[0].device):
            return torch.cat([grad_output.transpose(1, 2) for grad_output in grads], dim=2).flatten(2), None
        from seq2see.acceleration.qkv_grad import join_head_grads
        from seq2see.acceleration.row_sums import sum_parts

        joined, parts = join_head_grads(grads)
        async_grads.store_sum(joined, parts, sum_parts)
        return joined, None


def _join_without_copy(grads: Sequence[Tensor]) -> Tensor | None:
    """The gradient of the projection as a view, if the gradients of its parts have the memory layout of its slices."""
    first, heads = grads[0], tuple(grad_output.size(1) for grad_output in grads)
    rows, _, length, size = first.shape
    joined = torch.empty(rows, length, sum(heads) * size, device="meta")
    for grad_output, part in zip(grads, split_heads_eagerly(joined, heads), strict=True):
        offset = grad_output.storage_offset() - first.storage_offset()
        if grad_output.untyped_storage().data_ptr() != first.untyped_storage().data_ptr():
            return None
        if (grad_output.stride(), offset) != (part.stride(), part.storage_offset()):
            return None
    return first.as_strided(joined.shape, joined.stride())


def split_heads_eagerly(projected: Tensor, heads: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Split a projection (row, time, width) into parts (row, head, time, size) with these numbers of heads."""
    parts = projected.unflatten(-1, (sum(heads), -1)).split(heads, dim=2)
    return tuple(part.transpose(1, 2) for part in parts)


def split_projection(projected: Tensor, *heads: int) -> tuple[Tensor, ...]:
    """`split_heads_eagerly`, with the fast backward pass if weight gradients are asynchronous."""
    parts: tuple[Tensor, ...] = (
        split_heads_eagerly(projected, heads)
        if current_async_grads() is None
        else SplitHeadsFunction.apply(projected, heads)
    )
    return parts
