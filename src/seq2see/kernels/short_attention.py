"""Attention over short texts on a GPU, for training: the kernels of short_tiles.py as torch sees them.

The plain twin is `eager_attention` in layers/attention.py; a test on a GPU compares output and gradients.
"""

from typing import Any

import torch
from torch import Tensor

from seq2see.kernels.async_weight_grad import current_async_grads
from seq2see.kernels.row_sums import sum_parts
from seq2see.kernels.short_attention_kernels import (
    QKV,
    BiasSums,
    attention_backward,
    attention_forward,
    empty_like_heads,
)

MAX_LENGTH = 128
HEAD_SIZES = (16, 32, 64)
"""Numbers a head works on."""
MAX_ROWS = 2048
"""Rows whose sums are added up at once."""


def is_supported(queries: Tensor, keys: Tensor) -> bool:
    """Whether these can be looked at here: 16-bit numbers, few of them, and a gradient that is wanted."""
    few = max(queries.size(2), keys.size(2)) <= MAX_LENGTH and queries.size(3) in HEAD_SIZES
    return few and queries.dtype == keys.dtype == torch.bfloat16 and queries.requires_grad


# Operators, which torch.compile leaves as they are; it is told the shapes of what they give. The shorter way to say so,
# `torch.library.custom_op`, imports the compiler at the first call, even where nothing is compiled: seconds.
ATTEND, ATTEND_BACKWARD = "seq2see::short_attention", "seq2see::short_attention_slopes"
SELF_ATTEND, SELF_ATTEND_BACKWARD = "seq2see::short_self_attention", "seq2see::short_self_attention_slopes"
torch.library.define(
    ATTEND,
    "(Tensor queries, Tensor keys, Tensor values, Tensor? table, bool causal) -> Tensor",
    tags=torch.Tag.pt2_compliant_tag,
)
torch.library.define(
    ATTEND_BACKWARD,
    "(Tensor slope, Tensor queries, Tensor keys, Tensor values, Tensor? table, bool causal)"
    " -> (Tensor, Tensor, Tensor)",
    tags=torch.Tag.pt2_compliant_tag,
)
torch.library.define(
    SELF_ATTEND,
    "(Tensor together, int heads, Tensor? table, bool causal) -> Tensor",
    tags=torch.Tag.pt2_compliant_tag,
)
torch.library.define(
    SELF_ATTEND_BACKWARD,
    "(Tensor slope, Tensor together, int heads, Tensor? table, bool causal) -> Tensor",
    tags=torch.Tag.pt2_compliant_tag,
)


torch.library.impl(ATTEND, "default", attention_forward)


@torch.library.impl(ATTEND_BACKWARD, "default")
def _attend_backward(
    grad_output: Tensor, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    found = (empty_like_heads(queries), empty_like_heads(keys), empty_like_heads(values))
    attention_backward(found, grad_output, (queries, keys, values), mask, causal)
    return found


def _split_qkv(qkv: Tensor, heads: int) -> QKV:
    """Queries, keys and values out of one product."""
    queries, keys, values = qkv.unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
    return queries, keys, values


@torch.library.impl(SELF_ATTEND, "default")
def _self_attend(qkv: Tensor, heads: int, mask: Tensor | None, causal: bool) -> Tensor:
    return attention_forward(*_split_qkv(qkv, heads), mask, causal).transpose(1, 2).flatten(2)


@torch.library.impl(SELF_ATTEND_BACKWARD, "default")
def _self_attend_backward(grad_output: Tensor, qkv: Tensor, heads: int, mask: Tensor | None, causal: bool) -> Tensor:
    found = qkv.new_empty(qkv.shape)
    _fill_qkv_grad(found, grad_output, (qkv, heads, mask, causal))
    return found


def _fill_qkv_grad(found: Tensor, grad_output: Tensor, given: tuple[Any, ...], sums: BiasSums | None = None) -> None:
    """The slopes by queries, keys and values that lie side by side."""
    qkv, heads, mask, causal = given
    grad_output = grad_output.unflatten(-1, (heads, -1)).transpose(1, 2)
    attention_backward(_split_qkv(found, heads), grad_output, _split_qkv(qkv, heads), mask, causal, sums)


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
    async_grads, rows = current_async_grads(), len(grad_output)
    if async_grads is None or rows > MAX_ROWS:
        return *torch.ops.seq2see.short_attention_backward(grad_output, *ctx.saved_tensors, ctx.causal), None, None
    *parts, mask = ctx.saved_tensors
    _, heads, length, size = parts[1].shape
    # Slopes by keys and values lie side by side, as those do if they come out of one product (`Pieces`).
    both = parts[1].new_empty(rows, length, 2, heads, size)
    found = (empty_like_heads(parts[0]), *both.permute(2, 0, 3, 1, 4).unbind())
    grad_queries, grad_keys_values = (
        grad_output.new_empty(rows, each, heads * size, dtype=torch.float32) for each in (1, 2)
    )
    attention_backward(
        found, grad_output, parts, mask, ctx.causal, (grad_queries[:, 0], grad_keys_values.transpose(0, 1))
    )
    async_grads.store_sum(found[0], grad_queries.flatten(1), sum_parts)
    async_grads.store_sum(both, grad_keys_values.flatten(1), sum_parts)
    return *found, None, None


def _save_qkv(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    qkv, ctx.heads, mask, ctx.causal = inputs
    ctx.save_for_backward(qkv, mask)


def _backward_qkv(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
    qkv, mask = ctx.saved_tensors
    async_grads = current_async_grads()
    if async_grads is None or len(grad_output) > MAX_ROWS:
        found = torch.ops.seq2see.short_self_attention_backward(grad_output, qkv, ctx.heads, mask, ctx.causal)
        return found, None, None, None
    found = qkv.new_empty(qkv.shape)
    grad_qkv_sums = grad_output.new_empty(len(grad_output), 3, grad_output.size(-1), dtype=torch.float32)
    sums = grad_qkv_sums[:, 0], grad_qkv_sums[:, 1:].transpose(0, 1)
    _fill_qkv_grad(found, grad_output, (qkv, ctx.heads, mask, ctx.causal), sums)
    async_grads.store_sum(found, grad_qkv_sums.flatten(1), sum_parts)
    return found, None, None, None


torch.library.register_autograd(ATTEND, _backward, setup_context=_save)
torch.library.register_autograd(SELF_ATTEND, _backward_qkv, setup_context=_save_qkv)


def short_attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """The weighted sum of the values; `mask` says who may look where, True: may."""
    return torch.ops.seq2see.short_attention(queries, keys, values, mask, causal)


def short_self_attention(qkv: Tensor, heads: int, mask: Tensor | None, causal: bool) -> Tensor:
    """The same for queries, keys and values that lie side by side: so do their slopes, and nobody has to join them."""
    return torch.ops.seq2see.short_self_attention(qkv, heads, mask, causal)
