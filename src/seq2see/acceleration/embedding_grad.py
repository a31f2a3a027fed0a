"""The gradient of an embedding matrix: for each token, the sum of the gradients of all its occurrences.

The tokens are sorted, so that equal tokens are adjacent. The program at the first occurrence of a token sums the
gradients of all its occurrences, always in the same order, and adds the sum to the row of the token. Rows of other
tokens are neither read nor written. Sorting needs only the tokens, and runs during the forward pass.

The definition is torch's backward pass of `nn.Embedding`, which creates a dense gradient of zeros each time and adds it
to the total; a test compares them. This module needs a GPU; the CUDA builds of torch include `triton`.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, COLUMNS = 4, 512


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
    _accumulate[(count, triton.cdiv(width, COLUMNS))](
        embedding_grad, grad, tokens, order, ends, width, ROWS=ROWS, COLUMNS=COLUMNS, num_warps=4
    )
