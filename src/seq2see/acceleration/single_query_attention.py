"""Attention with one query for each row, on a GPU, for decoding token by token.

Each program computes one head of one row. In self-attention, it first writes the new key and value to the cache and
starts with them; then it loops over the cached keys and updates the running maximum and sums of a softmax (Milakov &
Gimelshein 2018). Cross-attention is the same loop over the source, where a mask may hide keys.

The definitions are `KeyValueCache.write` with `eager_attention`, and `eager_attention` alone (layers/attention.py);
tests/acceleration/test_single_query_attention.py compares them.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

KEYS, WARPS = 128, 4
"""The maximum number of keys that a program loads at once, and the number of its warps."""
LONG, LONG_KEYS, LONG_WARPS = 256, 512, 16
"""The number of keys from which on a sequence is long, and the same constants for long sequences."""


@triton.jit
def _online_softmax(query, keys, values, visible, maximum, total, weighted_sum):
    """Update the maximum of the scores, the sum of exponentials and the weighted sum of values by a block of keys."""
    scores = tl.where(visible, tl.sum(keys.to(tl.float32) * query[None, :], 1), -1e30)
    new_maximum = tl.maximum(maximum, tl.max(scores, 0))
    rescale = tl.exp(maximum - new_maximum)
    exponentials = tl.where(visible, tl.exp(scores - new_maximum), 0.0)
    block_sum = tl.sum(exponentials[:, None] * values.to(tl.float32), 0)
    return new_maximum, total * rescale + tl.sum(exponentials, 0), weighted_sum * rescale + block_sum


@triton.jit
def _self_attention_kernel(
    out, qkv, cache, cache_length, scale, heads, max_length, size,
    KEYS: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """`qkv` holds the concatenated query, key and value of each row; the cache is (row, 2, head, max_length, size)."""
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    column, time = tl.arange(0, SIZE), tl.load(cache_length + row)
    in_head, width = column < size, heads * size
    address = qkv + row * 3 * width + head * size + column
    query = tl.load(address, in_head, 0.0).to(tl.float32) * scale
    key, value = tl.load(address + width, in_head, 0.0), tl.load(address + 2 * width, in_head, 0.0)
    keys = cache + (row * 2 * heads + head) * max_length * size
    values = keys + heads * max_length * size
    tl.store(keys + time * size + column, key, in_head)
    tl.store(values + time * size + column, value, in_head)
    maximum, total, weighted_sum = tl.sum(key.to(tl.float32) * query, 0), 1.0, value.to(tl.float32)
    for start in range(0, time, KEYS):
        position = start + tl.arange(0, KEYS)
        offset, visible = position[:, None] * size + column[None, :], position < time
        inside = visible[:, None] & in_head[None, :]
        k, v = tl.load(keys + offset, inside, 0.0), tl.load(values + offset, inside, 0.0)
        maximum, total, weighted_sum = _online_softmax(query, k, v, visible, maximum, total, weighted_sum)
    tl.store(out + row * width + head * size + column, (weighted_sum / total).to(out.dtype.element_ty), in_head)


@triton.jit
def _cross_attention_kernel(
    out, queries, keys, values, mask, scale, heads, length, size,
    KEYS: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Keys and values are (row, head, time, size); the mask (row, time) is True for visible keys."""
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    column = tl.arange(0, SIZE)
    in_head, first = column < size, (row * heads + head) * length * size
    head_offset = (row * heads + head) * size + column
    query = tl.load(queries + head_offset, in_head, 0.0).to(tl.float32) * scale
    maximum, total, weighted_sum = -1e30, 0.0, tl.zeros((SIZE,), tl.float32)
    for start in range(0, length, KEYS):
        position = start + tl.arange(0, KEYS)
        offset, in_length = first + position[:, None] * size + column[None, :], position < length
        inside = in_length[:, None] & in_head[None, :]
        k, v = tl.load(keys + offset, inside, 0.0), tl.load(values + offset, inside, 0.0)
        visible = tl.load(mask + row * length + position, in_length, 0) != 0
        maximum, total, weighted_sum = _online_softmax(query, k, v, visible, maximum, total, weighted_sum)
    # A query without a visible key has zeros as output.
    tl.store(out + head_offset, (weighted_sum / tl.maximum(total, 1e-30)).to(out.dtype.element_ty), in_head)


def _shape(keys: int, size: int) -> dict[str, int]:
    """The compile-time constants of the kernels."""
    max_keys, warps = (LONG_KEYS, LONG_WARPS) if keys > LONG else (KEYS, WARPS)
    block = min(max_keys, triton.next_power_of_2(keys))
    return {"KEYS": block, "SIZE": triton.next_power_of_2(size), "num_warps": warps}


def cached_self_attention(qkv: Tensor, cache: Tensor, cache_length: Tensor) -> Tensor:
    """Self-attention of one new token for each row (row, width); its key and value are written to the cache.

    `qkv` (row, 3 width) holds queries, keys and values, `cache` (row, 2, head, max_length, size) must be contiguous,
    and `cache_length` is the number of cached tokens of each row.
    """
    rows, _, heads, max_length, size = cache.shape
    out = qkv.new_empty(rows, heads * size)
    _self_attention_kernel[(rows * heads,)](
        out, qkv, cache, cache_length, size**-0.5, heads, max_length, size, **_shape(max_length, size)
    )
    return out


def single_query_cross_attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Cross-attention of one query for each row (row, width) over keys and values (row, head, time, size).

    `mask` (row, 1, 1, time) is True for visible keys. Contiguous inputs are not copied.
    """
    rows, heads, length, size = keys.shape
    out, mask = torch.empty_like(queries), mask.contiguous().view(torch.uint8)
    inputs = (queries, keys.contiguous(), values.contiguous(), mask, size**-0.5, heads, length, size)
    _cross_attention_kernel[(rows * heads,)](out, *inputs, **_shape(length, size))
    return out
