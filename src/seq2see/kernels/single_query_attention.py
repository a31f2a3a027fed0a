"""Attention of one query a row, on a GPU: what is asked when a text is written token by token.

One program takes a head of a row. Looking back, it first puts the new key and value into the cache and takes its own
as the first it has seen; then it walks over the past, as much as there is of it, and keeps the running maximum and sums
of a softmax (Milakov & Gimelshein 2018). Looking across is the same walk over the source, where a table may hide keys.

The plain twins are `KeyValueCache.write` with `eager_attention`, and `eager_attention` alone (layers/attention.py);
a test compares them.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

KEYS, WARPS = 128, 4
"""Keys that a program looks at side by side, at most, and threads that do so, in groups of 32."""
LONG, LONG_KEYS, LONG_WARPS = 256, 512, 16
"""The same where there are more keys than so many: a long walk in few steps."""


@triton.jit
def _online_softmax(query, keys, values, there, best, total, out):
    """The running maximum of the scores, sum of exponentials and sum of values, after some more keys."""
    scores = tl.where(there, tl.sum(keys.to(tl.float32) * query[None, :], 1), -1e30)
    higher = tl.maximum(best, tl.max(scores, 0))
    shrink, raised = tl.exp(best - higher), tl.where(there, tl.exp(scores - higher), 0.0)
    more = tl.sum(raised[:, None] * values.to(tl.float32), 0)
    return higher, total * shrink + tl.sum(raised, 0), out * shrink + more


@triton.jit
def _self_attention_kernel(
    out, qkv, cache, cache_length, scale, heads, max_length, size,
    KEYS: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """`qkv` holds a row's queries, keys and values side by side; the cache (row, 2, head, room, size) its past."""
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    number, time = tl.arange(0, SIZE), tl.load(cache_length + row)
    is_number, width = number < size, heads * size
    mine = qkv + row * 3 * width + head * size + number
    query = tl.load(mine, is_number, 0.0).to(tl.float32) * scale
    key, value = tl.load(mine + width, is_number, 0.0), tl.load(mine + 2 * width, is_number, 0.0)
    keys = cache + (row * 2 * heads + head) * max_length * size
    values = keys + heads * max_length * size
    tl.store(keys + time * size + number, key, is_number)
    tl.store(values + time * size + number, value, is_number)
    best, total, seen = tl.sum(key.to(tl.float32) * query, 0), 1.0, value.to(tl.float32)
    for start in range(0, time, KEYS):
        place = start + tl.arange(0, KEYS)
        at, there = place[:, None] * size + number[None, :], place < time
        is_there = there[:, None] & is_number[None, :]
        k, v = tl.load(keys + at, is_there, 0.0), tl.load(values + at, is_there, 0.0)
        best, total, seen = _online_softmax(query, k, v, there, best, total, seen)
    tl.store(out + row * width + head * size + number, (seen / total).to(out.dtype.element_ty), is_number)


@triton.jit
def _cross_attention_kernel(
    out, queries, keys, values, mask, scale, heads, length, size,
    KEYS: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Keys and values are (row, head, time, size); the table says which times of a row there are."""
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    number = tl.arange(0, SIZE)
    is_number, first = number < size, (row * heads + head) * length * size
    mine = (row * heads + head) * size + number
    query = tl.load(queries + mine, is_number, 0.0).to(tl.float32) * scale
    best, total, seen = -1e30, 0.0, tl.zeros((SIZE,), tl.float32)
    for start in range(0, length, KEYS):
        place = start + tl.arange(0, KEYS)
        at, is_time = first + place[:, None] * size + number[None, :], place < length
        is_there = is_time[:, None] & is_number[None, :]
        k, v = tl.load(keys + at, is_there, 0.0), tl.load(values + at, is_there, 0.0)
        there = tl.load(mask + row * length + place, is_time, 0) != 0
        best, total, seen = _online_softmax(query, k, v, there, best, total, seen)
    # Who may look at nothing finds nothing.
    tl.store(out + mine, (seen / tl.maximum(total, 1e-30)).to(out.dtype.element_ty), is_number)


def _shape(keys: int, size: int) -> dict[str, int]:
    """What the kernels are compiled for."""
    most, warps = (LONG_KEYS, LONG_WARPS) if keys > LONG else (KEYS, WARPS)
    return {"KEYS": min(most, triton.next_power_of_2(keys)), "SIZE": triton.next_power_of_2(size), "num_warps": warps}


def cached_self_attention(qkv: Tensor, cache: Tensor, cache_length: Tensor) -> Tensor:
    """What the heads of each row (row, width) find in its past and in itself; the cache takes in its key and value.

    `qkv` (row, 3 width) holds queries, keys and values, `cache` (row, 2, head, room, size) lies in one piece, and
    `cache_length` is how many places of each row are taken.
    """
    rows, _, heads, max_length, size = cache.shape
    out = qkv.new_empty(rows, heads * size)
    _self_attention_kernel[(rows * heads,)](
        out, qkv, cache, cache_length, size**-0.5, heads, max_length, size, **_shape(max_length, size)
    )
    return out


def single_query_cross_attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """What the heads of each row (row, width) find in keys and values (row, head, time, size).

    `mask` (row, 1, 1, time) says where a row may look. Best if all of these lie in one piece.
    """
    rows, heads, length, size = keys.shape
    out, mask = torch.empty_like(queries), mask.contiguous().view(torch.uint8)
    given = (queries, keys.contiguous(), values.contiguous(), mask, size**-0.5, heads, length, size)
    _cross_attention_kernel[(rows * heads,)](out, *given, **_shape(length, size))
    return out
