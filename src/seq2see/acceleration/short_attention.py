"""Attention for short sequences in training on a GPU: torch operators for the kernels of short_attention_kernels.py.

The definition is `eager_attention` in layers/attention.py; a test compares outputs and gradients.
"""

from typing import Any

import torch
from torch import Tensor

from seq2see.acceleration.async_weight_grad import AsyncWeightGrads
from seq2see.acceleration.row_sums import sum_parts
from seq2see.acceleration.short_attention_kernels import (
    QKV,
    BiasSums,
    attention_backward,
    attention_forward,
    empty_like_heads,
)

MAX_LENGTH = 128
HEAD_SIZES = (16, 32, 64)
"""The supported head sizes."""
MAX_ROWS = 2048
"""The maximum number of rows whose partial bias sums are stored."""


def is_supported(queries: Tensor, keys: Tensor) -> bool:
    """Whether the kernels support these: bf16, short sequences, a supported head size, and gradients required."""
    is_small = max(queries.size(2), keys.size(2)) <= MAX_LENGTH and queries.size(3) in HEAD_SIZES
    return is_small and queries.dtype == keys.dtype == torch.bfloat16 and queries.requires_grad


# Custom operators, which torch.compile does not trace into; it uses the registered shapes of their outputs. The shorter
# `torch.library.custom_op` imports the compiler at the first call, even if nothing is compiled, which takes seconds.
ATTEND, ATTEND_BACKWARD = "seq2see::short_attention", "seq2see::short_attention_backward"
SELF_ATTEND, SELF_ATTEND_BACKWARD = "seq2see::short_self_attention", "seq2see::short_self_attention_backward"
torch.library.define(
    ATTEND,
    "(Tensor queries, Tensor keys, Tensor values, Tensor? mask, bool causal) -> Tensor",
    tags=torch.Tag.pt2_compliant_tag,
)
torch.library.define(
    ATTEND_BACKWARD,
    "(Tensor grad_output, Tensor queries, Tensor keys, Tensor values, Tensor? mask, bool causal)"
    " -> (Tensor, Tensor, Tensor)",
    tags=torch.Tag.pt2_compliant_tag,
)
torch.library.define(
    SELF_ATTEND,
    "(Tensor qkv, int heads, Tensor? mask, bool causal) -> Tensor",
    tags=torch.Tag.pt2_compliant_tag,
)
torch.library.define(
    SELF_ATTEND_BACKWARD,
    "(Tensor grad_output, Tensor qkv, int heads, Tensor? mask, bool causal) -> Tensor",
    tags=torch.Tag.pt2_compliant_tag,
)


torch.library.impl(ATTEND, "default", attention_forward)


@torch.library.impl(ATTEND_BACKWARD, "default")
def _attend_backward(
    grad_output: Tensor, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    grads = (empty_like_heads(queries), empty_like_heads(keys), empty_like_heads(values))
    attention_backward(grads, grad_output, (queries, keys, values), mask, causal)
    return grads


def _split_qkv(qkv: Tensor, heads: int) -> QKV:
    """Queries, keys and values as views of one projection."""
    queries, keys, values = qkv.unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
    return queries, keys, values


@torch.library.impl(SELF_ATTEND, "default")
def _self_attend(qkv: Tensor, heads: int, mask: Tensor | None, causal: bool) -> Tensor:
    return attention_forward(*_split_qkv(qkv, heads), mask, causal).transpose(1, 2).flatten(2)


@torch.library.impl(SELF_ATTEND_BACKWARD, "default")
def _self_attend_backward(grad_output: Tensor, qkv: Tensor, heads: int, mask: Tensor | None, causal: bool) -> Tensor:
    grad_qkv = qkv.new_empty(qkv.shape)
    _fill_qkv_grad(grad_qkv, grad_output, (qkv, heads, mask, causal))
    return grad_qkv


def _fill_qkv_grad(
    grad_qkv: Tensor, grad_output: Tensor, inputs: tuple[Any, ...], sums: BiasSums | None = None
) -> None:
    """Compute the gradients of queries, keys and values in the memory layout of one projection."""
    qkv, heads, mask, causal = inputs
    grad_output = grad_output.unflatten(-1, (heads, -1)).transpose(1, 2)
    attention_backward(_split_qkv(grad_qkv, heads), grad_output, _split_qkv(qkv, heads), mask, causal, sums)


@torch.library.register_fake(ATTEND)
def _(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    return empty_like_heads(queries)


@torch.library.register_fake(ATTEND_BACKWARD)
def _(
    grad_output: Tensor, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    return empty_like_heads(queries), empty_like_heads(keys), empty_like_heads(values)


@torch.library.register_fake(SELF_ATTEND)
def _(qkv: Tensor, heads: int, mask: Tensor | None, causal: bool) -> Tensor:
    rows, length, width = qkv.shape
    return qkv.new_empty(rows, length, width // 3)


@torch.library.register_fake(SELF_ATTEND_BACKWARD)
def _(grad_output: Tensor, qkv: Tensor, heads: int, mask: Tensor | None, causal: bool) -> Tensor:
    return qkv.new_empty(qkv.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.causal = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
    return *torch.ops.seq2see.short_attention_backward(grad_output, *ctx.saved_tensors, ctx.causal), None, None


def _save_qkv(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    qkv, ctx.heads, mask, ctx.causal = inputs
    ctx.save_for_backward(qkv, mask)


def _backward_qkv(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
    qkv, mask = ctx.saved_tensors
    grad_qkv = torch.ops.seq2see.short_self_attention_backward(grad_output, qkv, ctx.heads, mask, ctx.causal)
    return grad_qkv, None, None, None


torch.library.register_autograd(ATTEND, _backward, setup_context=_save)
torch.library.register_autograd(SELF_ATTEND, _backward_qkv, setup_context=_save_qkv)


class AsyncShortAttention(torch.autograd.Function):
    """Attention whose backward pass also sums the gradients of queries, keys and values for the biases below."""

    @staticmethod
    def forward(ctx: Any, async_grads: AsyncWeightGrads, *inputs: Any) -> Tensor:
        _save(ctx, inputs, inputs[0])
        ctx.async_grads = async_grads
        return torch.ops.seq2see.short_attention(*inputs)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        rows = len(grad_output)
        if rows > MAX_ROWS:
            return None, *_backward(ctx, grad_output)
        *qkv, mask = ctx.saved_tensors
        _, heads, length, size = qkv[1].shape
        # The gradients of keys and values are adjacent, as they are in their projection (`SplitHeadsFunction`).
        grad_kv = qkv[1].new_empty(rows, length, 2, heads, size)
        grads = (empty_like_heads(qkv[0]), *grad_kv.permute(2, 0, 3, 1, 4).unbind())
        q_sums, kv_sums = (grad_output.new_empty(rows, count, heads * size, dtype=torch.float32) for count in (1, 2))
        attention_backward(grads, grad_output, qkv, mask, ctx.causal, (q_sums[:, 0], kv_sums.transpose(0, 1)))
        ctx.async_grads.store_sum(grads[0], q_sums.flatten(1), sum_parts)
        ctx.async_grads.store_sum(grad_kv, kv_sums.flatten(1), sum_parts)
        return None, *grads, None, None


class AsyncShortSelfAttention(torch.autograd.Function):
    """Self-attention of one projection, whose backward pass also sums its gradient for the bias of the projection."""

    @staticmethod
    def forward(ctx: Any, async_grads: AsyncWeightGrads, *inputs: Any) -> Tensor:
        _save_qkv(ctx, inputs, inputs[0])
        ctx.async_grads = async_grads
        return torch.ops.seq2see.short_self_attention(*inputs)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        if len(grad_output) > MAX_ROWS:
            return None, *_backward_qkv(ctx, grad_output)
        qkv, mask = ctx.saved_tensors
        grad_qkv = qkv.new_empty(qkv.shape)
        qkv_sums = grad_output.new_empty(len(grad_output), 3, grad_output.size(-1), dtype=torch.float32)
        sums = qkv_sums[:, 0], qkv_sums[:, 1:].transpose(0, 1)
        _fill_qkv_grad(grad_qkv, grad_output, (qkv, ctx.heads, mask, ctx.causal), sums)
        ctx.async_grads.store_sum(grad_qkv, qkv_sums.flatten(1), sum_parts)
        return None, grad_qkv, None, None, None


def short_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    causal: bool,
    async_grads: AsyncWeightGrads | None = None,
) -> Tensor:
    """The weighted sum of the values; `mask` is True where a query may attend to a key."""
    inputs = (queries, keys, values, mask, causal)
    output: Tensor = (
        torch.ops.seq2see.short_attention(*inputs)
        if async_grads is None
        else AsyncShortAttention.apply(async_grads, *inputs)
    )
    return output


def short_self_attention(
    qkv: Tensor, heads: int, mask: Tensor | None, causal: bool, async_grads: AsyncWeightGrads | None = None
) -> Tensor:
    """Self-attention of one projection; its gradient has the same memory layout, so it needs no concatenation."""
    inputs = (qkv, heads, mask, causal)
    output: Tensor = (
        torch.ops.seq2see.short_self_attention(*inputs)
        if async_grads is None
        else AsyncShortSelfAttention.apply(async_grads, *inputs)
    )
    return output
