"""The rows of a beam search reordered in place on a GPU: a hypothesis replaces another one of the same input.

`tensor.copy_(tensor.index_select(0, parents))` writes and reads the whole key-value cache a second time. The parents of
a row are rows of the same input, so a program can load a piece of all rows of one input, wait, and store the pieces
where they belong.

The definition is `reorder_rows` (core/batch.py); tests/acceleration/test_reorder_in_place.py compares them.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 8192
"""The number of values that a program moves."""


@triton.jit
def _reorder(tensor, parents, width, row_size, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * width
    beam, column = tl.arange(0, WIDTH), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row, inside = first + beam, (beam < width)[:, None] & (column < row_size)[None, :]
    parent = tl.load(parents + row, beam < width, 0)
    values = tl.load(tensor + parent[:, None] * row_size + column[None, :], inside)
    tl.debug_barrier()  # every thread has its values before any thread writes
    tl.store(tensor + row[:, None] * row_size + column[None, :], values, inside)


def reorder_in_place(tensor: Tensor, parents: Tensor, width: int) -> None:
    """Row i of a contiguous tensor becomes its row `parents[i]`, which belongs to the same group of `width` rows."""
    rows, row_size = tensor.size(0), tensor[0].numel()
    padded_width = triton.next_power_of_2(width)
    block = min(max(BLOCK // padded_width, 1), triton.next_power_of_2(row_size))
    values = tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor
    _reorder[(rows // width, triton.cdiv(row_size, block))](
        values, parents, width, row_size, WIDTH=padded_width, BLOCK=block, num_warps=4
    )
