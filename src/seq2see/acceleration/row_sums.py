"""Sums over many rows: the gradients of biases and norms, and of an embedding matrix.

For a bias, each program sums a slice, then these sums are summed. The order is always the same, so that the result is
deterministic. The definition is `rows.sum(0)`.

The gradient of an embedding matrix is, for each token, the sum of the gradients of all its occurrences. The tokens are
sorted, so that equal tokens are adjacent. The program at the first occurrence of a token sums the gradients of all its
occurrences, always in the same order, and adds the sum to the row of the token. Rows of other tokens are neither read
nor written. Sorting needs only the tokens, and runs during the forward pass. The definition is torch's backward pass of
`nn.Embedding`, which creates a dense gradient of zeros each time and adds it to the total.

Tests compare both with their definitions. This module needs a GPU; the CUDA builds of torch include `triton`.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, COLUMNS, WARPS = 4, 512, 4
SLICE, SLICES = 16, 512
"""The number of rows that one program sums, and the maximum number of slices."""
ALL_ROWS = {"ROWS": 128, "COLUMNS": 32, "STAGES": 4, "num_warps": 8}
"""The constants for programs that sum all rows: their columns are one cache line, so that there are many programs.

To save registers, the compiler loads a few numbers at a time, so the next tiles are prefetched (`STAGES`).
"""


def slice_layout(count: int, rows_per_slice: int) -> tuple[int, dict[str, int]]:
    """The number of slices for `count` rows, and the compile-time constants of the kernels."""
    slices = min(SLICES, triton.next_power_of_2(triton.cdiv(count, rows_per_slice)))
    return slices, {"SLICES": slices, "ROWS": ROWS, "COLUMNS": COLUMNS, "num_warps": WARPS}


@triton.jit
def _sums(
    sums, rows, count, width, row_stride,
    SLICES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """The sum over one slice of the rows."""
    column, slice_ = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.program_id(1)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in tl.range(slice_ * ROWS, count, SLICES * ROWS, num_stages=STAGES):
        index = (start + tl.arange(0, ROWS)).to(tl.int64)
        inside = (index < count)[:, None] & (column < width)[None, :]
        total += tl.load(rows + index[:, None] * row_stride + column[None, :], inside, 0.0).to(tl.float32)
    tl.store(sums + slice_ * width + column, tl.sum(total, 0).to(sums.dtype.element_ty), column < width)


def _reduce(parts: Tensor, out: Tensor | None = None) -> Tensor:
    """The sum of the partial sums of all programs; the axes after the first must be contiguous."""
    sums = torch.empty_like(parts[0]) if out is None else out
    inputs = (sums, parts, len(parts), sums.numel(), parts.stride(0))
    _sums[(triton.cdiv(sums.numel(), ALL_ROWS["COLUMNS"]), 1)](*inputs, SLICES=1, **ALL_ROWS)
    return sums


# A custom operator, which torch.compile does not trace into (see short_attention.py).
SUM_PARTS = "seq2see::sum_parts"
torch.library.define(SUM_PARTS, "(Tensor parts) -> Tensor", tags=torch.Tag.pt2_compliant_tag)
torch.library.impl(SUM_PARTS, "default", _reduce)
torch.library.register_fake(SUM_PARTS, lambda parts: parts.new_empty(parts.shape[1:]))


def sum_parts(parts: Tensor, out: Tensor | None = None) -> Tensor:
    """The sum over the first axis, rounded to the dtype of `out`."""
    if out is not None:
        return _reduce(parts, out)
    total: Tensor = torch.ops.seq2see.sum_parts(parts)
    return total


def sum_over_rows(rows: Tensor, out: Tensor | None = None) -> Tensor:
    """The sum over the first of two axes, always in the same order."""
    count, width = rows.shape
    slices, shape = slice_layout(count, SLICE)
    parts = rows.new_empty(slices, width, dtype=torch.float32)
    _sums[(triton.cdiv(width, COLUMNS), slices)](parts, rows, count, width, width, STAGES=1, **shape)
    return sum_parts(parts, out)


EMBEDDING_ROWS, EMBEDDING_COLUMNS = 4, 512


@triton.jit
def _accumulate(embedding_grad, grad, tokens, order, ends, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Sum the gradients of one token, if this program is at its first occurrence."""
    first, column = tl.program_id(0), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    token = tl.load(tokens + first)
    if (first == 0) | (tl.load(tokens + tl.maximum(first, 1) - 1) != token):
        end = tl.load(ends + first)
        total = tl.zeros((ROWS, COLUMNS), tl.float32)
        for start in range(first, end, ROWS):
            sorted_index = start + tl.arange(0, ROWS)
            rows = tl.load(order + sorted_index, sorted_index < end, 0).to(tl.int64)
            inside = (sorted_index < end)[:, None] & (column < width)[None, :]
            total += tl.load(grad + rows[:, None] * width + column[None, :], inside, 0.0).to(tl.float32)
        address = embedding_grad + token.to(tl.int64) * width + column
        previous = tl.load(address, column < width, 0.0).to(tl.float32)
        tl.store(address, (previous + tl.sum(total, 0)).to(embedding_grad.dtype.element_ty), column < width)


def sort_tokens(tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The sorted tokens, the original index of each, and for each the index after its last occurrence."""
    tokens, order = tokens.flatten().int().sort(stable=True)
    return tokens, order, torch.searchsorted(tokens, tokens, right=True, out_int32=True)


def accumulate_embedding_grad(
    embedding_grad: Tensor, grad: Tensor, tokens: Tensor, order: Tensor, ends: Tensor
) -> None:
    """Add the gradients of vectors (token, width) to those of an embedding matrix; the rest is from `sort_tokens`."""
    count, width = grad.shape
    _accumulate[(count, triton.cdiv(width, EMBEDDING_COLUMNS))](
        embedding_grad, grad, tokens, order, ends, width, ROWS=EMBEDDING_ROWS, COLUMNS=EMBEDDING_COLUMNS, num_warps=4
    )
