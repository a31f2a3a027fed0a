"""Split a projection into the queries, keys and values of all heads, with a backward pass of at most one copy.

The definition is `split_heads` of layers/attention.py, followed by `split`; its gradient concatenates the gradients of
all parts. Tests compare them (tests/acceleration/test_qkv_grad.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from seq2see.acceleration.async_weight_grad import AsyncWeightGrads


class SplitHeadsFunction(torch.autograd.Function):
    """`split_heads_eagerly` with a fast backward pass.

    If the gradients of all parts are adjacent in memory, they are the gradient of the projection, without a copy.
    Otherwise one kernel concatenates them, and sums them for the bias of the projection.
    """

    @staticmethod
    def forward(
        ctx: Any, projected: Tensor, heads: tuple[int, ...], async_grads: AsyncWeightGrads
    ) -> tuple[Tensor, ...]:
        ctx.async_grads = async_grads
        return split_heads_eagerly(projected, heads)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        joined = _join_without_copy(grads)
        if joined is not None:
            return joined, None, None
        if not ctx.async_grads.kernels:
            return torch.cat([grad_output.transpose(1, 2) for grad_output in grads], dim=2).flatten(2), None, None
        from seq2see.acceleration.qkv_grad import join_head_grads
        from seq2see.acceleration.row_sums import sum_parts

        joined, parts = join_head_grads(grads)
        ctx.async_grads.store_sum(joined, parts, sum_parts)
        return joined, None, None


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


def split_projection(
    projected: Tensor, heads: tuple[int, ...], async_grads: AsyncWeightGrads | None
) -> tuple[Tensor, ...]:
    """`split_heads_eagerly`, with the fast backward pass if weight gradients are asynchronous."""
    if async_grads is None:
        return split_heads_eagerly(projected, heads)
    parts: tuple[Tensor, ...] = SplitHeadsFunction.apply(projected, heads, async_grads)
    return parts
