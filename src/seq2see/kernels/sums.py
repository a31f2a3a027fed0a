"""Sums over many rows, as slopes of biases and norms are: each program walks over a slice, and their sums are added up.

Always in the same order, so that the same step gives the same numbers. The plain twin is `rows.sum(0)`; a test compares
them. Only a GPU can run this file: `triton` comes with torch's builds for one.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, COLUMNS, WARPS = 4, 512, 4
SLICE, SLICES = 16, 512
"""Rows that one program walks over, unless that would make more programs than these for a column."""


def slices_of(count: int, slice_: int) -> tuple[int, dict[str, int]]:
    """In how many slices so many rows are walked over, and what the kernels are compiled for."""
    slices = min(SLICES, triton.next_power_of_2(triton.cdiv(count, slice_)))
    return slices, {"SLICES": slices, "ROWS": ROWS, "COLUMNS": COLUMNS, "num_warps": WARPS}


@triton.jit
def _sums(sums, rows_, count, width, SLICES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """The sum over one slice of the rows."""
    column, slice_ = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.program_id(1)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(slice_ * ROWS, count, SLICES * ROWS):
        rows = (start + tl.arange(0, ROWS)).to(tl.int64)
        inside = (rows < count)[:, None] & (column < width)[None, :]
        total += tl.load(rows_ + rows[:, None] * width + column[None, :], inside, 0.0).to(tl.float32)
    tl.store(sums + slice_ * width + column, tl.sum(total, 0), column < width)


@triton.jit
def _add_up(sums, parts, count, width, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    """What all programs found, always added in the same order."""
    part, column = tl.arange(0, PARTS), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (part < count)[:, None] & (column < width)[None, :]
    total = tl.sum(tl.load(parts + part[:, None] * width + column[None, :], inside, 0.0), 0)
    tl.store(sums + column, total.to(sums.dtype.element_ty), column < width)


def _go(parts: Tensor) -> Tensor:
    sums, count = torch.empty_like(parts[0]), len(parts)
    held = triton.next_power_of_2(count)
    block = max(8, 16_384 // held)  # as many numbers as a program can hold
    _add_up[(triton.cdiv(sums.numel(), block),)](sums, parts, count, sums.numel(), PARTS=held, BLOCK=block)
    return sums


# An operator, which torch.compile leaves as it is (see short_attention.py).
ADD_UP = "seq2see::add_up"
torch.library.define(ADD_UP, "(Tensor parts) -> Tensor", tags=torch.Tag.pt2_compliant_tag)
torch.library.impl(ADD_UP, "default", _go)
torch.library.register_fake(ADD_UP, lambda parts: parts.new_empty(parts.shape[1:]))


def add_up(parts: Tensor) -> Tensor:
    """The sum over the first axis."""
    found: Tensor = torch.ops.seq2see.add_up(parts)
    return found


def summed(rows: Tensor) -> Tensor:
    """The sum over the first of two axes, always in the same order."""
    count, width = rows.shape
    slices, shape = slices_of(count, SLICE)
    parts = rows.new_empty(slices, width, dtype=torch.float32)
    _sums[(triton.cdiv(width, COLUMNS), slices)](parts, rows, count, width, **shape)
    return add_up(parts)
