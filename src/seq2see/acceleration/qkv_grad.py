"""Concatenate the gradients of queries, keys and values, and sum them for the bias of their projection, in one kernel.

One projection computes the queries, keys and values of all heads. Each of the three has its own gradient with its own
memory layout. The projection needs them as one tensor, and its bias needs the sum over rows and positions. Both are
limited by memory bandwidth, so one kernel does both: each program sums a slice, always in the same order (row_sums.py).

The definition is `torch.cat` and `sum(0)`; a test compares them. This module needs a GPU; the CUDA builds of torch
include `triton`.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from seq2see.acceleration.row_sums import slice_layout
from seq2see.acceleration.short_attention import with_strides

MAX_PARTS = 3
"""The maximum number of parts that can be concatenated; missing parts have width 0."""
ROWS, COLUMNS, WARPS = 8, 256, 4
SLICE = 64
"""The number of vectors that one program processes, unless that needs too many programs."""


@triton.jit
def _copy_and_sum(
    joined, sums, part, row_stride, head_stride, time_stride, block, offset, width, count, length, total_width,
    SLICES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Copy some columns of one part (row, head, time, size) to vectors (row, time, total_width), and sum them."""
    column, slice_ = block * COLUMNS + tl.arange(0, COLUMNS), tl.program_id(1)
    column_offset, total = column // SIZE * head_stride + column % SIZE, tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(slice_ * ROWS, count, SLICES * ROWS):
        index = start + tl.arange(0, ROWS)
        inside = (index < count)[:, None] & (column < width)[None, :]
        row_offset = (index // length).to(tl.int64) * row_stride + (index % length).to(tl.int64) * time_stride
        numbers = tl.load(part + row_offset[:, None] + column_offset[None, :], inside, 0.0)
        tl.store(joined + index.to(tl.int64)[:, None] * total_width + (offset + column)[None, :], numbers, inside)
        total += numbers.to(tl.float32)
    tl.store(sums + slice_ * total_width + offset + column, tl.sum(total, 0), column < width)


@triton.jit
def _join(
    joined, sums, first, a_row, a_head, a_time, a_width, second, b_row, b_head, b_time, b_width,
    third, c_row, c_head, c_time, c_width, count, length, total_width,
    SLICES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Each program processes columns of one part."""
    block, a_end = tl.program_id(0), tl.cdiv(a_width, COLUMNS)
    b_end = a_end + tl.cdiv(b_width, COLUMNS)
    if block < a_end:
        _copy_and_sum(
            joined, sums, first, a_row, a_head, a_time, block, 0, a_width, count, length, total_width,
            SLICES, ROWS, COLUMNS, SIZE,
        )  # fmt: skip
    elif block < b_end:
        _copy_and_sum(
            joined, sums, second, b_row, b_head, b_time, block - a_end, a_width, b_width, count, length, total_width,
            SLICES, ROWS, COLUMNS, SIZE,
        )  # fmt: skip
    else:
        _copy_and_sum(
            joined, sums, third, c_row, c_head, c_time, block - b_end, a_width + b_width, c_width,
            count, length, total_width, SLICES, ROWS, COLUMNS, SIZE,
        )  # fmt: skip


def join_head_grads(grads: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Gradients (row, head, time, size) as vectors (row, time, width), and the partial sums of these over all rows."""
    rows, _, length, size = grads[0].shape
    grads = (*grads, *[grads[0][:, :0]] * (MAX_PARTS - len(grads)))
    widths, (slices, _) = [grad.size(1) * size for grad in grads], slice_layout(rows * length, SLICE)
    joined = grads[0].new_empty(rows, length, sum(widths))
    sums = joined.new_empty(slices, sum(widths), dtype=torch.float32)
    parts = [number for grad, width in zip(grads, widths, strict=True) for number in (*with_strides(grad), width)]
    _join[(sum(triton.cdiv(width, COLUMNS) for width in widths), slices)](
        joined, sums, *parts, rows * length, length, sum(widths),
        SLICES=slices, ROWS=ROWS, COLUMNS=COLUMNS, SIZE=size, num_warps=WARPS,
    )  # fmt: skip
    return joined, sums
