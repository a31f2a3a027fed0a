"""The slope by a table of vectors: for each token the sum over the slopes by all vectors that it was looked up for.

Tokens are sorted, so that equal ones stand side by side; the program at the first of each kind adds up all of them,
always in the same order, and adds the sum to the token's row. Rows of tokens that do not occur are not touched. Sorting
needs the tokens alone: it is done while the model computes.

The plain twin is torch's own way back of `nn.Embedding`, which makes a table full of zeros each time and adds it to the
one that is there; a test compares them. Only a GPU can run this file: `triton` comes with torch's builds for one.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, COLUMNS = 4, 512


@triton.jit
def _add(table, grad, tokens, order, ends, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """All vectors of one token, if this program stands at the first of them."""
    first, column = tl.program_id(0), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    token = tl.load(tokens + first)
    if (first == 0) | (tl.load(tokens + tl.maximum(first, 1) - 1) != token):
        end = tl.load(ends + first)
        total = tl.zeros((ROWS, COLUMNS), tl.float32)
        for start in range(first, end, ROWS):
            places = start + tl.arange(0, ROWS)
            rows = tl.load(order + places, places < end, 0).to(tl.int64)
            inside = (places < end)[:, None] & (column < width)[None, :]
            total += tl.load(grad + rows[:, None] * width + column[None, :], inside, 0.0).to(tl.float32)
        place = table + token.to(tl.int64) * width + column
        known = tl.load(place, column < width, 0.0).to(tl.float32)
        tl.store(place, (known + tl.sum(total, 0)).to(table.dtype.element_ty), column < width)


def sort_tokens(tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens sorted, where each of them stood, and for each the place behind the last of its kind."""
    tokens, order = tokens.flatten().int().sort(stable=True)
    return tokens, order, torch.searchsorted(tokens, tokens, right=True, out_int32=True)


def accumulate_embedding_grad(table: Tensor, grad: Tensor, tokens: Tensor, order: Tensor, ends: Tensor) -> None:
    """Add slopes by vectors (token, width) to the rows of a table; the rest is what `sort_tokens` gives."""
    count, width = grad.shape
    _add[(count, triton.cdiv(width, COLUMNS))](
        table, grad, tokens, order, ends, width, ROWS=ROWS, COLUMNS=COLUMNS, num_warps=4
    )
