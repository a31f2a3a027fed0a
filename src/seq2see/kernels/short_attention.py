"""Attention over short texts on a GPU: all scores of a head fit on the chip, so it is the formula as it stands.

Kernels made for long texts walk over the keys in tiles, keep running sums, and go back over everything for the
gradient. With at most 128 keys none of this is needed: one program takes a head of a row, and queries, keys, values
and scores all lie beside it. What is saved for the way back is nothing: the weights are computed again.

The plain twin is `plain_attention` in layers/attention.py; a test on a GPU compares output and gradients. Only a GPU
can run this file: `triton` comes with torch's builds for one.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from seq2see.kernels.beside import at_hand

LONGEST = 128
SIZES = (16, 32, 64)
"""Numbers a head works on."""


@triton.jit
def _tile(numbers, row_step, head_step, time_step, times, heads, TIMES: tl.constexpr, SIZE: tl.constexpr):
    """Where the vectors of one head in one row lie, and which of them there are."""
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    time, number = tl.arange(0, TIMES), tl.arange(0, SIZE)
    places = numbers + row * row_step + head * head_step + time[:, None] * time_step + number[None, :]
    return places, (time < times)[:, None]


@triton.jit
def _weights(
    queries, keys, table, row_step, query_step, heads, asking, asked,
    SIZE: tl.constexpr, CAUSAL: tl.constexpr, TABLE: tl.constexpr,
):  # fmt: skip
    """softmax(Q Kᵀ / √size) where one may look, and zeros elsewhere; zeros also for who may look at nothing."""
    scores = tl.dot(queries, tl.trans(keys)) * (SIZE**-0.5)
    query, key = tl.arange(0, queries.shape[0])[:, None], tl.arange(0, keys.shape[0])[None, :]
    may_look = (query < asking) & (key < asked)
    if CAUSAL:
        may_look = may_look & (key <= query)
    if TABLE:
        row = (tl.program_id(0) // heads).to(tl.int64)
        may_look = may_look & (tl.load(table + row * row_step + query * query_step + key, may_look, 0) != 0)
    scores = tl.where(may_look, scores, -1e30)
    raised = tl.where(may_look, tl.exp(scores - tl.max(scores, 1)[:, None]), 0.0)
    return raised / tl.maximum(tl.sum(raised, 1), 1e-30)[:, None]


@triton.jit
def _forward(
    found, queries, q_row, q_head, q_time, keys, k_row, k_head, k_time, values, v_row, v_head, v_time,
    table, table_row, table_query, heads, asking, asked,
    ASKING: tl.constexpr, ASKED: tl.constexpr, SIZE: tl.constexpr, CAUSAL: tl.constexpr, TABLE: tl.constexpr,
):  # fmt: skip
    """weights · V."""
    at_q, is_q = _tile(queries, q_row, q_head, q_time, asking, heads, ASKING, SIZE)
    at_k, is_k = _tile(keys, k_row, k_head, k_time, asked, heads, ASKED, SIZE)
    at_v, is_v = _tile(values, v_row, v_head, v_time, asked, heads, ASKED, SIZE)
    q, k, v = tl.load(at_q, is_q, 0.0), tl.load(at_k, is_k, 0.0), tl.load(at_v, is_v, 0.0)
    weights = _weights(q, k, table, table_row, table_query, heads, asking, asked, SIZE, CAUSAL, TABLE)
    at_found, is_found = _tile(found, asking * heads * SIZE, SIZE, heads * SIZE, asking, heads, ASKING, SIZE)
    tl.store(at_found, tl.dot(weights.to(v.dtype), v).to(v.dtype), is_found)


@triton.jit
def _backward(
    by_queries, a_row, a_head, a_time, by_keys, b_row, b_head, b_time, by_values, c_row, c_head, c_time,
    slope, s_row, s_head, s_time,
    queries, q_row, q_head, q_time, keys, k_row, k_head, k_time, values, v_row, v_head, v_time,
    table, table_row, table_query, heads, asking, asked,
    ASKING: tl.constexpr, ASKED: tl.constexpr, SIZE: tl.constexpr, CAUSAL: tl.constexpr, TABLE: tl.constexpr,
):  # fmt: skip
    """With P = softmax(S), O = P V and G the slope by O: dV = Pᵀ G, dP = G Vᵀ, dS = P ⊙ (dP - rowsum(P ⊙ dP))."""
    at_q, is_q = _tile(queries, q_row, q_head, q_time, asking, heads, ASKING, SIZE)
    at_k, is_k = _tile(keys, k_row, k_head, k_time, asked, heads, ASKED, SIZE)
    at_v, is_v = _tile(values, v_row, v_head, v_time, asked, heads, ASKED, SIZE)
    at_slope, is_slope = _tile(slope, s_row, s_head, s_time, asking, heads, ASKING, SIZE)
    q, k, v = tl.load(at_q, is_q, 0.0), tl.load(at_k, is_k, 0.0), tl.load(at_v, is_v, 0.0)
    g = tl.load(at_slope, is_slope, 0.0)
    weights = _weights(q, k, table, table_row, table_query, heads, asking, asked, SIZE, CAUSAL, TABLE)
    at_by, is_by = _tile(by_values, c_row, c_head, c_time, asked, heads, ASKED, SIZE)
    tl.store(at_by, tl.dot(tl.trans(weights.to(g.dtype)), g).to(g.dtype), is_by)
    by_weights = tl.dot(g, tl.trans(v))
    by_scores = weights * (by_weights - tl.sum(weights * by_weights, 1)[:, None]) * (SIZE**-0.5)
    by_scores = by_scores.to(q.dtype)
    at_by, is_by = _tile(by_keys, b_row, b_head, b_time, asked, heads, ASKED, SIZE)
    tl.store(at_by, tl.dot(tl.trans(by_scores), q).to(q.dtype), is_by)
    at_by, is_by = _tile(by_queries, a_row, a_head, a_time, asking, heads, ASKING, SIZE)
    tl.store(at_by, tl.dot(by_scores, k).to(q.dtype), is_by)


Parts = tuple[Tensor, Tensor, Tensor]


def fits(queries: Tensor, keys: Tensor) -> bool:
    """Whether these can be looked at here: 16-bit numbers, few of them, and a gradient that is wanted."""
    few = max(queries.size(2), keys.size(2)) <= LONGEST and queries.size(3) in SIZES
    return few and queries.dtype == keys.dtype == torch.bfloat16 and queries.requires_grad


def _laid(numbers: Tensor) -> list[Tensor | int]:
    """A tensor and its steps from row to row, head to head, and time to time; the numbers of a head lie in a line."""
    numbers = numbers if numbers.stride(3) == 1 else numbers.contiguous()
    return [numbers, *numbers.stride()[:3]]


def _like(numbers: Tensor) -> Tensor:
    """Room for as much, laid the same way, so that joining heads costs nothing."""
    rows, heads, times, size = numbers.shape
    return numbers.new_empty(rows, times, heads, size).transpose(1, 2)


def _given(queries: Tensor, keys: Tensor, values: Tensor, table: Tensor | None) -> list[Tensor | int]:
    """What both kernels are given; where a table is the same for all rows or queries, its step is 0."""
    steps, allowed = (0, 0), queries
    if table is not None:
        allowed = table.contiguous().view(torch.uint8)
        steps = (allowed.stride(0) * (table.size(0) > 1), allowed.stride(2) * (table.size(2) > 1))
    _, heads, asking, _ = queries.shape
    return [*_laid(queries), *_laid(keys), *_laid(values), allowed, *steps, heads, asking, keys.size(2)]


def _shape(queries: Tensor, keys: Tensor, table: Tensor | None, causal: bool) -> dict[str, int | bool]:
    """What the kernels are compiled for: the smallest tiles that hold the texts, and what is masked."""
    asking, asked = (max(16, triton.next_power_of_2(each.size(2))) for each in (queries, keys))
    return {
        "ASKING": asking, "ASKED": asked, "SIZE": queries.size(3), "CAUSAL": causal, "TABLE": table is not None,
        "num_warps": {16: 2, 32: 2, 64: 4, 128: 8}[max(asking, asked)],
    }  # fmt: skip


# Operators, which torch.compile leaves as they are; it is told the shapes of what they give. The shorter way to say so,
# `torch.library.custom_op`, imports the compiler at the first call, even where nothing is compiled: seconds.
ATTEND, SLOPES = "seq2see::short_attention", "seq2see::short_attention_slopes"
AT_ITSELF, ITS_SLOPES = "seq2see::short_self_attention", "seq2see::short_self_attention_slopes"
torch.library.define(
    ATTEND,
    "(Tensor queries, Tensor keys, Tensor values, Tensor? table, bool causal) -> Tensor",
    tags=torch.Tag.pt2_compliant_tag,
)
torch.library.define(
    SLOPES,
    "(Tensor slope, Tensor queries, Tensor keys, Tensor values, Tensor? table, bool causal)"
    " -> (Tensor, Tensor, Tensor)",
    tags=torch.Tag.pt2_compliant_tag,
)
torch.library.define(
    AT_ITSELF,
    "(Tensor together, int heads, Tensor? table, bool causal) -> Tensor",
    tags=torch.Tag.pt2_compliant_tag,
)
torch.library.define(
    ITS_SLOPES,
    "(Tensor slope, Tensor together, int heads, Tensor? table, bool causal) -> Tensor",
    tags=torch.Tag.pt2_compliant_tag,
)


def _look(queries: Tensor, keys: Tensor, values: Tensor, table: Tensor | None, causal: bool) -> Tensor:
    found, rows_heads = _like(queries), queries.size(0) * queries.size(1)
    _forward[(rows_heads,)](found, *_given(queries, keys, values, table), **_shape(queries, keys, table, causal))
    return found


torch.library.impl(ATTEND, "default", _look)


@torch.library.impl(SLOPES, "default")
def _slopes(
    slope: Tensor, queries: Tensor, keys: Tensor, values: Tensor, table: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    found = (_like(queries), _like(keys), _like(values))
    _fill(found, slope, (queries, keys, values), table, causal)
    return found


def _fill(places: Parts, slope: Tensor, parts: Parts, table: Tensor | None, causal: bool) -> None:
    """The slopes by queries, keys and values, wherever they shall lie."""
    queries, keys, _ = parts
    laid = [number for place in places for number in _laid(place)]
    _backward[(queries.size(0) * queries.size(1),)](
        *laid, *_laid(slope), *_given(*parts, table), **_shape(queries, keys, table, causal)
    )


def _cut(together: Tensor, heads: int) -> Parts:
    """Queries, keys and values out of one product."""
    queries, keys, values = together.unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
    return queries, keys, values


@torch.library.impl(AT_ITSELF, "default")
def _attend_itself(together: Tensor, heads: int, table: Tensor | None, causal: bool) -> Tensor:
    return _look(*_cut(together, heads), table, causal).transpose(1, 2).flatten(2)


@torch.library.impl(ITS_SLOPES, "default")
def _its_slopes(slope: Tensor, together: Tensor, heads: int, table: Tensor | None, causal: bool) -> Tensor:
    found = together.new_empty(together.shape)
    slope = slope.unflatten(-1, (heads, -1)).transpose(1, 2)
    _fill(_cut(found, heads), slope, _cut(together, heads), table, causal)
    return found


@torch.library.register_fake(ATTEND)
def _(queries: Tensor, keys: Tensor, values: Tensor, table: Tensor | None, causal: bool) -> Tensor:
    return _like(queries)


@torch.library.register_fake(SLOPES)
def _(
    slope: Tensor, queries: Tensor, keys: Tensor, values: Tensor, table: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    return _like(queries), _like(keys), _like(values)


@torch.library.register_fake(AT_ITSELF)
def _(together: Tensor, heads: int, table: Tensor | None, causal: bool) -> Tensor:
    rows, times, width = together.shape
    return together.new_empty(rows, times, width // 3)


@torch.library.register_fake(ITS_SLOPES)
def _(slope: Tensor, together: Tensor, heads: int, table: Tensor | None, causal: bool) -> Tensor:
    return together.new_empty(together.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.causal = inputs
    ctx.save_for_backward(*tensors)


def _back(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
    if at_hand() is None:
        return *torch.ops.seq2see.short_attention_slopes(slope, *ctx.saved_tensors, ctx.causal), None, None
    *parts, table = ctx.saved_tensors
    rows, heads, times, size = parts[1].shape
    # Slopes by keys and values lie side by side, as those do if they come out of one product (`Halves`).
    side_by_side = parts[1].new_empty(rows, times, 2, heads, size).permute(2, 0, 3, 1, 4).unbind()
    found = (_like(parts[0]), *side_by_side)
    _fill(found, slope, parts, table, ctx.causal)
    return *found, None, None


def _keep_together(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    together, ctx.heads, table, ctx.causal = inputs
    ctx.save_for_backward(together, table)


def _back_together(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
    together, table = ctx.saved_tensors
    found = torch.ops.seq2see.short_self_attention_slopes(slope, together, ctx.heads, table, ctx.causal)
    return found, None, None, None


torch.library.register_autograd(ATTEND, _back, setup_context=_keep)
torch.library.register_autograd(AT_ITSELF, _back_together, setup_context=_keep_together)


def short_attention(queries: Tensor, keys: Tensor, values: Tensor, table: Tensor | None, causal: bool) -> Tensor:
    """The weighted sum of the values; `table` says who may look where, True: may."""
    return torch.ops.seq2see.short_attention(queries, keys, values, table, causal)


def short_self_attention(together: Tensor, heads: int, table: Tensor | None, causal: bool) -> Tensor:
    """The same for queries, keys and values that lie side by side: so do their slopes, and nobody has to join them."""
    return torch.ops.seq2see.short_self_attention(together, heads, table, causal)
