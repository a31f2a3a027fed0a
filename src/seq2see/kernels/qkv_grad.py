"""Pieces that were cut out of vectors are put side by side again on the way back, and summed on the same walk.

One product gives the queries, keys and values of all heads. Each of the three gets a slope of its own, laid as whoever
looked at it liked; the product wants them as one, and its bias wants the sum of that over all rows and times. Both take
as long as the memory does, so they are one walk: each program sums a slice, always in the same order (sums.py).

The plain twin is `torch.cat` and `sum(0)`; a test compares them. Only a GPU can run this file: `triton` comes with
torch's builds for one.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from seq2see.kernels.row_sums import slice_layout
from seq2see.kernels.short_attention_kernels import with_strides

MAX_PARTS = 3
"""Pieces that can be joined; of those that are not there the width is 0."""
ROWS, COLUMNS, WARPS = 8, 256, 4
SLICE = 64
"""Vectors that one program walks over, unless that would make too many programs."""


@triton.jit
def _copy_and_sum(
    joined, sums, part, row_step, head_step, time_step, block, offset, width, count, length, whole,
    SLICES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Some columns of one piece (row, head, time, size) to their place in vectors (row, time, whole)."""
    column, slice_ = block * COLUMNS + tl.arange(0, COLUMNS), tl.program_id(1)
    within, total = column // SIZE * head_step + column % SIZE, tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(slice_ * ROWS, count, SLICES * ROWS):
        vectors = start + tl.arange(0, ROWS)
        inside = (vectors < count)[:, None] & (column < width)[None, :]
        there = (vectors // length).to(tl.int64) * row_step + (vectors % length).to(tl.int64) * time_step
        found = tl.load(part + there[:, None] + within[None, :], inside, 0.0)
        tl.store(joined + vectors.to(tl.int64)[:, None] * whole + (offset + column)[None, :], found, inside)
        total += found.to(tl.float32)
    tl.store(sums + slice_ * whole + offset + column, tl.sum(total, 0), column < width)


@triton.jit
def _join(
    joined, sums, first, a_row, a_head, a_time, a_width, second, b_row, b_head, b_time, b_width,
    third, c_row, c_head, c_time, c_width, count, length, whole,
    SLICES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Each program walks over columns of one piece."""
    block, a_end = tl.program_id(0), tl.cdiv(a_width, COLUMNS)
    b_end = a_end + tl.cdiv(b_width, COLUMNS)
    if block < a_end:
        _copy_and_sum(
            joined, sums, first, a_row, a_head, a_time, block, 0, a_width, count, length, whole,
            SLICES, ROWS, COLUMNS, SIZE,
        )  # fmt: skip
    elif block < b_end:
        _copy_and_sum(
            joined, sums, second, b_row, b_head, b_time, block - a_end, a_width, b_width, count, length, whole,
            SLICES, ROWS, COLUMNS, SIZE,
        )  # fmt: skip
    else:
        _copy_and_sum(
            joined, sums, third, c_row, c_head, c_time, block - b_end, a_width + b_width, c_width, count, length, whole,
            SLICES, ROWS, COLUMNS, SIZE,
        )  # fmt: skip


def join_head_grads(pieces: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Pieces (row, head, time, size) as vectors (row, time, whole), and their sum over rows and times, in parts."""
    rows, _, length, size = pieces[0].shape
    pieces = (*pieces, *[pieces[0][:, :0]] * (MAX_PARTS - len(pieces)))
    widths, (slices, _) = [part.size(1) * size for part in pieces], slice_layout(rows * length, SLICE)
    joined = pieces[0].new_empty(rows, length, sum(widths))
    parts = joined.new_empty(slices, sum(widths), dtype=torch.float32)
    given = [number for part, width in zip(pieces, widths, strict=True) for number in (*with_strides(part), width)]
    _join[(sum(triton.cdiv(width, COLUMNS) for width in widths), slices)](
        joined, parts, *given, rows * length, length, sum(widths),
        SLICES=slices, ROWS=ROWS, COLUMNS=COLUMNS, SIZE=size, num_warps=WARPS,
    )  # fmt: skip
    return joined, parts
