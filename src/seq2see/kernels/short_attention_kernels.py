"""Attention over short texts on a GPU: all scores of a head fit on the chip, so it is the formula as it stands.

Kernels made for long texts walk over the keys in tiles, keep running sums, and go back over everything for the
gradient. With at most 128 keys none of this is needed: one program takes a head of a row, and queries, keys, values
and scores all lie beside it. What is saved for the way back is nothing: the weights are computed again.

The plain twin is `eager_attention` in layers/attention.py; a test on a GPU compares output and gradients. Only a GPU
can run this file: `triton` comes with torch's builds for one.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

QKV = tuple[Tensor, Tensor, Tensor]
"""Queries, keys and values, or what is laid like them."""
BiasSums = tuple[Tensor, Tensor]
"""Of queries (row, width), and of keys and values (2, row, width)."""


@triton.jit
def _tile(numbers, row_step, head_step, time_step, length, heads, TIMES: tl.constexpr, SIZE: tl.constexpr):
    """Where the vectors of one head in one row lie, and which of them there are."""
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    time, number = tl.arange(0, TIMES), tl.arange(0, SIZE)
    places = numbers + row * row_step + head * head_step + time[:, None] * time_step + number[None, :]
    return places, (time < length)[:, None]


@triton.jit
def _weights(
    queries, keys, mask, row_step, query_step, heads, query_count, key_count,
    SIZE: tl.constexpr, CAUSAL: tl.constexpr, HAS_MASK: tl.constexpr,
):  # fmt: skip
    """softmax(Q Kᵀ / √size) where one may look, and zeros elsewhere; zeros also for who may look at nothing."""
    scores = tl.dot(queries, tl.trans(keys)) * (SIZE**-0.5)
    query, key = tl.arange(0, queries.shape[0])[:, None], tl.arange(0, keys.shape[0])[None, :]
    may_look = (query < query_count) & (key < key_count)
    if CAUSAL:
        may_look = may_look & (key <= query)
    if HAS_MASK:
        row = (tl.program_id(0) // heads).to(tl.int64)
        may_look = may_look & (tl.load(mask + row * row_step + query * query_step + key, may_look, 0) != 0)
    scores = tl.where(may_look, scores, -1e30)
    raised = tl.where(may_look, tl.exp(scores - tl.max(scores, 1)[:, None]), 0.0)
    return raised / tl.maximum(tl.sum(raised, 1), 1e-30)[:, None]


@triton.jit
def _forward(
    out, queries, q_row, q_head, q_time, keys, k_row, k_head, k_time, values, v_row, v_head, v_time,
    mask, mask_row, mask_query, heads, query_count, key_count,
    QUERY_BLOCK: tl.constexpr, KEY_BLOCK: tl.constexpr, SIZE: tl.constexpr, CAUSAL: tl.constexpr, HAS_MASK: tl.constexpr,
):  # fmt: skip
    """weights · V."""
    at_q, is_q = _tile(queries, q_row, q_head, q_time, query_count, heads, QUERY_BLOCK, SIZE)
    at_k, is_k = _tile(keys, k_row, k_head, k_time, key_count, heads, KEY_BLOCK, SIZE)
    at_v, is_v = _tile(values, v_row, v_head, v_time, key_count, heads, KEY_BLOCK, SIZE)
    q, k, v = tl.load(at_q, is_q, 0.0), tl.load(at_k, is_k, 0.0), tl.load(at_v, is_v, 0.0)
    weights = _weights(q, k, mask, mask_row, mask_query, heads, query_count, key_count, SIZE, CAUSAL, HAS_MASK)
    at_out, is_found = _tile(out, query_count * heads * SIZE, SIZE, heads * SIZE, query_count, heads, QUERY_BLOCK, SIZE)
    tl.store(at_out, tl.dot(weights.to(v.dtype), v).to(v.dtype), is_found)


@triton.jit
def _sum(sums, row_step, by, heads, SIZE: tl.constexpr):
    """What one head of one row adds to the slope of a bias; times that do not exist have added zeros."""
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    tl.store(sums + row * row_step + head * SIZE + tl.arange(0, SIZE), tl.sum(by, 0))


@triton.jit
def _backward(
    grad_queries, a_row, a_head, a_time, grad_keys, b_row, b_head, b_time, grad_values, c_row, c_head, c_time,
    grad_output, s_row, s_head, s_time,
    queries, q_row, q_head, q_time, keys, k_row, k_head, k_time, values, v_row, v_head, v_time,
    mask, mask_row, mask_query, heads, query_count, key_count, q_sums, q_step, k_sums, v_sums, kv_step,
    QUERY_BLOCK: tl.constexpr, KEY_BLOCK: tl.constexpr, SIZE: tl.constexpr, CAUSAL: tl.constexpr, HAS_MASK: tl.constexpr,
    SUMS: tl.constexpr,
):  # fmt: skip
    """With P = softmax(S), O = P V and G the slope by O: dV = Pᵀ G, dP = G Vᵀ, dS = P ⊙ (dP - rowsum(P ⊙ dP)).

    Each is summed over its times as well, if asked for: the sum over all rows is the slope of a bias.
    """
    at_q, is_q = _tile(queries, q_row, q_head, q_time, query_count, heads, QUERY_BLOCK, SIZE)
    at_k, is_k = _tile(keys, k_row, k_head, k_time, key_count, heads, KEY_BLOCK, SIZE)
    at_v, is_v = _tile(values, v_row, v_head, v_time, key_count, heads, KEY_BLOCK, SIZE)
    at_slope, is_slope = _tile(grad_output, s_row, s_head, s_time, query_count, heads, QUERY_BLOCK, SIZE)
    q, k, v = tl.load(at_q, is_q, 0.0), tl.load(at_k, is_k, 0.0), tl.load(at_v, is_v, 0.0)
    g = tl.load(at_slope, is_slope, 0.0)
    weights = _weights(q, k, mask, mask_row, mask_query, heads, query_count, key_count, SIZE, CAUSAL, HAS_MASK)
    at_by, is_by = _tile(grad_values, c_row, c_head, c_time, key_count, heads, KEY_BLOCK, SIZE)
    by = tl.dot(tl.trans(weights.to(g.dtype)), g)
    tl.store(at_by, by.to(g.dtype), is_by)
    if SUMS:
        _sum(v_sums, kv_step, by, heads, SIZE)
    grad_weights = tl.dot(g, tl.trans(v))
    grad_scores = weights * (grad_weights - tl.sum(weights * grad_weights, 1)[:, None]) * (SIZE**-0.5)
    grad_scores = grad_scores.to(q.dtype)
    at_by, is_by = _tile(grad_keys, b_row, b_head, b_time, key_count, heads, KEY_BLOCK, SIZE)
    by = tl.dot(tl.trans(grad_scores), q)
    tl.store(at_by, by.to(q.dtype), is_by)
    if SUMS:
        _sum(k_sums, kv_step, by, heads, SIZE)
    at_by, is_by = _tile(grad_queries, a_row, a_head, a_time, query_count, heads, QUERY_BLOCK, SIZE)
    by = tl.dot(grad_scores, k)
    tl.store(at_by, by.to(q.dtype), is_by)
    if SUMS:
        _sum(q_sums, q_step, by, heads, SIZE)


def with_strides(numbers: Tensor) -> list[Tensor | int]:
    """A tensor and its steps from row to row, head to head, and time to time; the numbers of a head lie in a line."""
    numbers = numbers if numbers.stride(3) == 1 else numbers.contiguous()
    return [numbers, *numbers.stride()[:3]]


def empty_like_heads(numbers: Tensor) -> Tensor:
    """Room for as much, laid the same way, so that joining heads costs nothing."""
    rows, heads, length, size = numbers.shape
    return numbers.new_empty(rows, length, heads, size).transpose(1, 2)


def _given(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> list[Tensor | int]:
    """What both kernels are given; where a table is the same for all rows or queries, its step is 0."""
    steps, mask_bytes = (0, 0), queries
    if mask is not None:
        mask_bytes = mask.contiguous().view(torch.uint8)
        steps = (mask_bytes.stride(0) * (mask.size(0) > 1), mask_bytes.stride(2) * (mask.size(2) > 1))
    _, heads, query_count, _ = queries.shape
    return [
        *with_strides(queries),
        *with_strides(keys),
        *with_strides(values),
        mask_bytes,
        *steps,
        heads,
        query_count,
        keys.size(2),
    ]


def _shape(queries: Tensor, keys: Tensor, mask: Tensor | None, causal: bool) -> dict[str, int | bool]:
    """What the kernels are compiled for: the smallest tiles that hold the texts, and what is masked."""
    query_count, key_count = (max(16, triton.next_power_of_2(each.size(2))) for each in (queries, keys))
    return {
        "ASKING": query_count, "ASKED": key_count, "SIZE": queries.size(3), "CAUSAL": causal, "TABLE": mask is not None,
        "num_warps": {16: 2, 32: 2, 64: 4, 128: 8}[max(query_count, key_count)],
    }  # fmt: skip


def attention_forward(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """What each query finds; `mask` says who may look where, True: may."""
    out, rows_heads = empty_like_heads(queries), queries.size(0) * queries.size(1)
    _forward[(rows_heads,)](out, *_given(queries, keys, values, mask), **_shape(queries, keys, mask, causal))
    return out


def attention_backward(
    places: QKV, grad_output: Tensor, parts: QKV, mask: Tensor | None, causal: bool, sums: BiasSums | None = None
) -> None:
    """The slopes by queries, keys and values, wherever they shall lie, and their sums over the times of each row."""
    queries, keys, _ = parts
    numbers = [number for place in places for number in with_strides(place)]
    of_queries, of_keys_values = sums or (grad_output, grad_output[None].expand(2, *grad_output.shape))
    _backward[(queries.size(0) * queries.size(1),)](
        *numbers, *with_strides(grad_output), *_given(*parts, mask), of_queries, of_queries.stride(0), *of_keys_values,
        of_keys_values.stride(1), **_shape(queries, keys, mask, causal), SUMS=sums is not None,
    )  # fmt: skip
