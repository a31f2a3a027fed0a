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

from seq2see.kernels.short_tiles import laid
from seq2see.kernels.sums import slices_of

MOST = 3
"""Pieces that can be joined; of those that are not there the width is 0."""
ROWS, COLUMNS, WARPS = 8, 256, 4
SLICE = 64
"""Vectors that one program walks over, unless that would make too many programs."""


@triton.jit
def _lay(
    joined, sums, piece, row_step, head_step, time_step, block, behind, width, count, times, whole,
    SLICES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Some columns of one piece (row, head, time, size) to their place in vectors (row, time, whole)."""
    column, slice_ = block * COLUMNS + tl.arange(0, COLUMNS), tl.program_id(1)
    within, total = column // SIZE * head_step + column % SIZE, tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(slice_ * ROWS, count, SLICES * ROWS):
        vectors = start + tl.arange(0, ROWS)
        inside = (vectors < count)[:, None] & (column < width)[None, :]
        there = (vectors // times).to(tl.int64) * row_step + (vectors % times).to(tl.int64) * time_step
        found = tl.load(piece + there[:, None] + within[None, :], inside, 0.0)
        tl.store(joined + vectors.to(tl.int64)[:, None] * whole + (behind + column)[None, :], found, inside)
        total += found.to(tl.float32)
    tl.store(sums + slice_ * whole + behind + column, tl.sum(total, 0), column < width)


@triton.jit
def _join(
    joined, sums, first, a_row, a_head, a_time, a_width, second, b_row, b_head, b_time, b_width,
    third, c_row, c_head, c_time, c_width, count, times, whole,
    SLICES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Each program walks over columns of one piece."""
    block, a_end = tl.program_id(0), tl.cdiv(a_width, COLUMNS)
    b_end = a_end + tl.cdiv(b_width, COLUMNS)
    if block < a_end:
        _lay(
            joined, sums, first, a_row, a_head, a_time, block, 0, a_width, count, times, whole,
            SLICES, ROWS, COLUMNS, SIZE,
        )  # fmt: skip
    elif block < b_end:
        _lay(
            joined, sums, second, b_row, b_head, b_time, block - a_end, a_width, b_width, count, times, whole,
            SLICES, ROWS, COLUMNS, SIZE,
        )  # fmt: skip
    else:
        _lay(
            joined, sums, third, c_row, c_head, c_time, block - b_end, a_width + b_width, c_width, count, times, whole,
            SLICES, ROWS, COLUMNS, SIZE,
        )  # fmt: skip


def join(pieces: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Pieces (row, head, time, size) as vectors (row, time, whole), and their sum over rows and times, in parts."""
    rows, _, times, size = pieces[0].shape
    pieces = (*pieces, *[pieces[0][:, :0]] * (MOST - len(pieces)))
    widths, (slices, _) = [piece.size(1) * size for piece in pieces], slices_of(rows * times, SLICE)
    joined = pieces[0].new_empty(rows, times, sum(widths))
    parts = joined.new_empty(slices, sum(widths), dtype=torch.float32)
    given = [number for piece, width in zip(pieces, widths, strict=True) for number in (*laid(piece), width)]
    _join[(sum(triton.cdiv(width, COLUMNS) for width in widths), slices)](
        joined, parts, *given, rows * times, times, sum(widths),
        SLICES=slices, ROWS=ROWS, COLUMNS=COLUMNS, SIZE=size, num_warps=WARPS,
    )  # fmt: skip
    return joined, parts
