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
ALL = {"ROWS": 128, "COLUMNS": 32, "STAGES": 4, "num_warps": 8}
"""For a program that walks over all rows: a strip is as narrow as a line of the cache, so that there are many of them.

A compiler that wants few registers asks for a few numbers at a time; so the next tiles are fetched beside (`STAGES`).
"""


def slice_layout(count: int, slice_: int) -> tuple[int, dict[str, int]]:
    """In how many slices so many rows are walked over, and what the kernels are compiled for."""
    slices = min(SLICES, triton.next_power_of_2(triton.cdiv(count, slice_)))
    return slices, {"SLICES": slices, "ROWS": ROWS, "COLUMNS": COLUMNS, "num_warps": WARPS}


@triton.jit
def _sums(
    sums, rows_, count, width, step,
    SLICES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """The sum over one slice of the rows, which lie `step` numbers apart."""
    column, slice_ = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.program_id(1)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in tl.range(slice_ * ROWS, count, SLICES * ROWS, num_stages=STAGES):
        rows = (start + tl.arange(0, ROWS)).to(tl.int64)
        inside = (rows < count)[:, None] & (column < width)[None, :]
        total += tl.load(rows_ + rows[:, None] * step + column[None, :], inside, 0.0).to(tl.float32)
    tl.store(sums + slice_ * width + column, tl.sum(total, 0).to(sums.dtype.element_ty), column < width)


def _reduce(parts: Tensor, out: Tensor | None = None) -> Tensor:
    """What all programs found: only the first axis may lie anyhow."""
    sums = torch.empty_like(parts[0]) if out is None else out
    given = (sums, parts, len(parts), sums.numel(), parts.stride(0))
    _sums[(triton.cdiv(sums.numel(), ALL["COLUMNS"]), 1)](*given, SLICES=1, **ALL)
    return sums


# An operator, which torch.compile leaves as it is (see short_attention.py).
ADD_UP = "seq2see::add_up"
torch.library.define(ADD_UP, "(Tensor parts) -> Tensor", tags=torch.Tag.pt2_compliant_tag)
torch.library.impl(ADD_UP, "default", _reduce)
torch.library.register_fake(ADD_UP, lambda parts: parts.new_empty(parts.shape[1:]))


def sum_parts(parts: Tensor, out: Tensor | None = None) -> Tensor:
    """The sum over the first axis, rounded to wherever it shall be written."""
    if out is not None:
        return _reduce(parts, out)
    found: Tensor = torch.ops.seq2see.sum_parts(parts)
    return found


def sum_over_rows(rows: Tensor, out: Tensor | None = None) -> Tensor:
    """The sum over the first of two axes, always in the same order."""
    count, width = rows.shape
    slices, shape = slice_layout(count, SLICE)
    parts = rows.new_empty(slices, width, dtype=torch.float32)
    _sums[(triton.cdiv(width, COLUMNS), slices)](parts, rows, count, width, width, STAGES=1, **shape)
    return sum_parts(parts, out)
