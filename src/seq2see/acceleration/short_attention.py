"""Attention for short sequences on a GPU: all scores of a head fit into on-chip memory, so the kernel is the formula.

Kernels for long sequences process the keys in tiles, compute running sums, and process all tiles again for the
gradient. With at most 128 keys none of this is needed: one program computes one head of one row, with all queries,
keys, values and scores in on-chip memory. Nothing is saved for the backward pass: the weights are computed again. The
kernels come first, then the torch operators for training.

The definition is `eager_attention` in layers/attention.py; a test compares outputs and gradients. This module needs a
GPU; the CUDA builds of torch include `triton`.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from seq2see.acceleration.async_weight_grad import AsyncWeightGrads
from seq2see.acceleration.row_sums import sum_parts

QKV = tuple[Tensor, Tensor, Tensor]
"""Queries, keys and values, or their gradients."""
BiasSums = tuple[Tensor, Tensor]
"""The sums over the positions of each row of the gradients of queries (row, width), and of keys and values (2, row,
width)."""


@triton.jit
def _tile(vectors, row_stride, head_stride, time_stride, length, heads, TIMES: tl.constexpr, SIZE: tl.constexpr):
    """The addresses of the vectors of one head in one row, and which of them exist."""
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    time, column = tl.arange(0, TIMES), tl.arange(0, SIZE)
    addresses = vectors + row * row_stride + head * head_stride + time[:, None] * time_stride + column[None, :]
    return addresses, (time < length)[:, None]


@triton.jit
def _weights(
    queries, keys, mask, row_stride, query_stride, heads, query_count, key_count,
    SIZE: tl.constexpr, CAUSAL: tl.constexpr, HAS_MASK: tl.constexpr,
):  # fmt: skip
    """softmax(Q Kᵀ / √size) where the mask is True, and zeros elsewhere, also if it is False for all keys."""
    scores = tl.dot(queries, tl.trans(keys)) * (SIZE**-0.5)
    query, key = tl.arange(0, queries.shape[0])[:, None], tl.arange(0, keys.shape[0])[None, :]
    visible = (query < query_count) & (key < key_count)
    if CAUSAL:
        visible = visible & (key <= query)
    if HAS_MASK:
        row = (tl.program_id(0) // heads).to(tl.int64)
        visible = visible & (tl.load(mask + row * row_stride + query * query_stride + key, visible, 0) != 0)
    scores = tl.where(visible, scores, -1e30)
    exponentials = tl.where(visible, tl.exp(scores - tl.max(scores, 1)[:, None]), 0.0)
    return exponentials / tl.maximum(tl.sum(exponentials, 1), 1e-30)[:, None]


@triton.jit
def _forward(
    out, queries, q_row, q_head, q_time, keys, k_row, k_head, k_time, values, v_row, v_head, v_time,
    mask, mask_row, mask_query, heads, query_count, key_count, QUERY_BLOCK: tl.constexpr, KEY_BLOCK: tl.constexpr,
    SIZE: tl.constexpr, CAUSAL: tl.constexpr, HAS_MASK: tl.constexpr,
):  # fmt: skip
    """weights · V."""
    q_address, is_q = _tile(queries, q_row, q_head, q_time, query_count, heads, QUERY_BLOCK, SIZE)
    k_address, is_k = _tile(keys, k_row, k_head, k_time, key_count, heads, KEY_BLOCK, SIZE)
    v_address, is_v = _tile(values, v_row, v_head, v_time, key_count, heads, KEY_BLOCK, SIZE)
    q, k, v = tl.load(q_address, is_q, 0.0), tl.load(k_address, is_k, 0.0), tl.load(v_address, is_v, 0.0)
    weights = _weights(q, k, mask, mask_row, mask_query, heads, query_count, key_count, SIZE, CAUSAL, HAS_MASK)
    out_row, out_time = query_count * heads * SIZE, heads * SIZE
    out_address, is_out = _tile(out, out_row, SIZE, out_time, query_count, heads, QUERY_BLOCK, SIZE)
    tl.store(out_address, tl.dot(weights.to(v.dtype), v).to(v.dtype), is_out)


@triton.jit
def _store_sum(sums, row_stride, grad, heads, SIZE: tl.constexpr):
    """The sum over positions for one head of one row, a part of a bias gradient; missing positions are zeros."""
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    tl.store(sums + row * row_stride + head * SIZE + tl.arange(0, SIZE), tl.sum(grad, 0))


@triton.jit
def _backward_kernel(
    grad_queries, a_row, a_head, a_time, grad_keys, b_row, b_head, b_time, grad_values, c_row, c_head, c_time,
    grad_output, g_row, g_head, g_time,
    queries, q_row, q_head, q_time, keys, k_row, k_head, k_time, values, v_row, v_head, v_time,
    mask, mask_row, mask_query, heads, query_count, key_count, q_sums, q_stride, k_sums, v_sums, kv_stride,
    QUERY_BLOCK: tl.constexpr, KEY_BLOCK: tl.constexpr, SIZE: tl.constexpr, CAUSAL: tl.constexpr,
    HAS_MASK: tl.constexpr, SUMS: tl.constexpr,
):  # fmt: skip
    """With P = softmax(S), O = P V and G the gradient of O: dV = Pᵀ G, dP = G Vᵀ, dS = P ⊙ (dP - rowsum(P ⊙ dP)).

    With `SUMS`, each is summed over its positions as well: the sum over all rows is a bias gradient.
    """
    q_address, is_q = _tile(queries, q_row, q_head, q_time, query_count, heads, QUERY_BLOCK, SIZE)
    k_address, is_k = _tile(keys, k_row, k_head, k_time, key_count, heads, KEY_BLOCK, SIZE)
    v_address, is_v = _tile(values, v_row, v_head, v_time, key_count, heads, KEY_BLOCK, SIZE)
    g_address, is_g = _tile(grad_output, g_row, g_head, g_time, query_count, heads, QUERY_BLOCK, SIZE)
    q, k, v = tl.load(q_address, is_q, 0.0), tl.load(k_address, is_k, 0.0), tl.load(v_address, is_v, 0.0)
    g = tl.load(g_address, is_g, 0.0)
    weights = _weights(q, k, mask, mask_row, mask_query, heads, query_count, key_count, SIZE, CAUSAL, HAS_MASK)
    address, exists = _tile(grad_values, c_row, c_head, c_time, key_count, heads, KEY_BLOCK, SIZE)
    grad = tl.dot(tl.trans(weights.to(g.dtype)), g)
    tl.store(address, grad.to(g.dtype), exists)
    if SUMS:
        _store_sum(v_sums, kv_stride, grad, heads, SIZE)
    grad_weights = tl.dot(g, tl.trans(v))
    grad_scores = weights * (grad_weights - tl.sum(weights * grad_weights, 1)[:, None]) * (SIZE**-0.5)
    grad_scores = grad_scores.to(q.dtype)
    address, exists = _tile(grad_keys, b_row, b_head, b_time, key_count, heads, KEY_BLOCK, SIZE)
    grad = tl.dot(tl.trans(grad_scores), q)
    tl.store(address, grad.to(q.dtype), exists)
    if SUMS:
        _store_sum(k_sums, kv_stride, grad, heads, SIZE)
    address, exists = _tile(grad_queries, a_row, a_head, a_time, query_count, heads, QUERY_BLOCK, SIZE)
    grad = tl.dot(grad_scores, k)
    tl.store(address, grad.to(q.dtype), exists)
    if SUMS:
        _store_sum(q_sums, q_stride, grad, heads, SIZE)


def with_strides(heads: Tensor) -> list[Tensor | int]:
    """A tensor (row, head, time, size) and its strides of rows, heads and positions; the last axis is contiguous."""
    heads = heads if heads.stride(3) == 1 else heads.contiguous()
    return [heads, *heads.stride()[:3]]


def empty_like_heads(heads: Tensor) -> Tensor:
    """An empty tensor (row, head, time, size) in a memory layout in which merging the heads needs no copy."""
    rows, head_count, length, size = heads.shape
    return heads.new_empty(rows, length, head_count, size).transpose(1, 2)


def _kernel_inputs(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> list[Tensor | int]:
    """The inputs of both kernels; if a mask is equal for all rows or queries, its stride is 0."""
    strides, mask_bytes = (0, 0), queries
    if mask is not None:
        mask_bytes = mask.contiguous().view(torch.uint8)
        strides = (mask_bytes.stride(0) * (mask.size(0) > 1), mask_bytes.stride(2) * (mask.size(2) > 1))
    _, heads, query_count, _ = queries.shape
    return [
        *with_strides(queries),
        *with_strides(keys),
        *with_strides(values),
        mask_bytes,
        *strides,
        heads,
        query_count,
        keys.size(2),
    ]


def _shape(queries: Tensor, keys: Tensor, mask: Tensor | None, causal: bool) -> dict[str, int | bool]:
    """The compile-time constants of the kernels: the smallest tiles for these lengths, and the kinds of masks."""
    query_block, key_block = (max(16, triton.next_power_of_2(each.size(2))) for each in (queries, keys))
    return {
        "QUERY_BLOCK": query_block, "KEY_BLOCK": key_block, "SIZE": queries.size(3),
        "CAUSAL": causal, "HAS_MASK": mask is not None,
        "num_warps": {16: 2, 32: 2, 64: 4, 128: 8}[max(query_block, key_block)],
    }  # fmt: skip


def attention_forward(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """The weighted sum of the values for each query; `mask` is True where a query may attend to a key."""
    out, programs = empty_like_heads(queries), queries.size(0) * queries.size(1)
    _forward[(programs,)](out, *_kernel_inputs(queries, keys, values, mask), **_shape(queries, keys, mask, causal))
    return out


def attention_backward(
    grads: QKV, grad_output: Tensor, qkv: QKV, mask: Tensor | None, causal: bool, sums: BiasSums | None = None
) -> None:
    """Write the gradients of queries, keys and values to `grads`, and their sums over positions to `sums`."""
    queries, keys, _ = qkv
    outputs = [number for grad in grads for number in with_strides(grad)]
    query_sums, kv_sums = sums or (grad_output, grad_output[None].expand(2, *grad_output.shape))
    _backward_kernel[(queries.size(0) * queries.size(1),)](
        *outputs, *with_strides(grad_output), *_kernel_inputs(*qkv, mask), query_sums, query_sums.stride(0), *kv_sums,
        kv_sums.stride(1), **_shape(queries, keys, mask, causal), SUMS=sums is not None,
    )  # fmt: skip


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
