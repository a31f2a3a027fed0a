"""Top-k and argmax of large vocabularies in two stages, with the results of torch's operators in one stage.

The vocabulary is divided into blocks, and only the blocks with the highest maxima are searched. The maximum of a block
is fast (SIMD instructions); finding its index is slow. `blockwise_topk` and `blockwise_argmax` are for a CPU. Their
definitions are `stable_topk` (decoding/samplers.py) and `torch.argmax`, and `strided_topk`, for a GPU, is `torch.topk`;
tests/acceleration/test_topk.py compares them.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

BLOCK = 64
ONE_STAGE_LIMIT = 1 << 14
"""Up to this number of scores (of all rows together) one stage is as fast as two."""


def blockwise_topk(
    scores: Float[Tensor, "row vocab"], count: int
) -> tuple[Float[Tensor, "row count"], Int[Tensor, "row count"]]:
    """The `count` highest scores of each row and their indices; among equals the lower index comes first.

    >>> blockwise_topk(torch.tensor([[0.0, 2.0, 1.0, 2.0]]), 2)[1].tolist()
    [[1, 3]]
    """
    if scores.size(1) <= max(count, BLOCK):
        return _sorted_topk(scores, count)
    best, indices = _unstable_topk(scores, count + 1)
    if (best[:, 1:] == best[:, :-1]).any():
        return _sorted_topk(scores, count)
    return best[:, :count], indices[:, :count]


def blockwise_argmax(scores: Float[Tensor, "row vocab"]) -> Int[Tensor, "row"]:
    """The index of the highest score of each row; among equals the lowest index.

    >>> blockwise_argmax(torch.tensor([[0.0, 2.0, 1.0, 2.0]])).tolist()
    [1]
    """
    if scores.numel() <= ONE_STAGE_LIMIT:
        return scores.argmax(dim=1)
    block = _block_maxima(scores).argmax(dim=1, keepdim=True)
    candidates, indices = _gather_blocks(scores, block)
    return indices.gather(1, candidates.argmax(dim=1, keepdim=True)).squeeze(1)


def strided_topk(
    scores: Float[Tensor, "row vocab"], count: int
) -> tuple[Float[Tensor, "row count"], Int[Tensor, "row count"]]:
    """Top-k for a GPU: blocks are strided, so that adjacent threads read adjacent scores.

    The order of equals is undefined: checking for equals takes longer than the rest of the step. A row with fewer than
    `count` scores returns all of them.
    """
    count = min(count, scores.size(1))
    columns = scores.size(1) // BLOCK
    if columns <= count:
        return scores.topk(count, dim=1)
    best_columns = scores[:, : columns * BLOCK].unflatten(1, (BLOCK, columns)).amax(dim=1).topk(count, dim=1).indices
    steps = torch.arange(0, columns * BLOCK, columns, device=scores.device)
    remainder = torch.arange(columns * BLOCK, scores.size(1), device=scores.device).expand(scores.size(0), -1)
    indices = torch.cat([(best_columns[:, :, None] + steps).flatten(1), remainder], dim=1)
    best, positions = scores.gather(1, indices).topk(count, dim=1)
    return best, indices.gather(1, positions)


def _unstable_topk(scores: Float[Tensor, "row vocab"], count: int) -> tuple[Tensor, Int[Tensor, "row count"]]:
    """The highest scores and their indices; the order of equal scores is undefined."""
    if scores.numel() <= ONE_STAGE_LIMIT or scores.size(1) <= count * BLOCK:
        return scores.topk(count, dim=1)
    # The `count` blocks with the highest maxima contain the `count` highest scores: a score in any other block is not
    # higher than those maxima. If the maxima of two blocks are equal and only one block is selected, its maximum
    # equals the last of the best scores, so that the caller detects the tie.
    candidates, indices = _gather_blocks(scores, _block_maxima(scores).topk(count, dim=1).indices)
    best, positions = candidates.topk(count, dim=1)
    return best, indices.gather(1, positions)


def _sorted_topk(scores: Float[Tensor, "row vocab"], count: int) -> tuple[Tensor, Int[Tensor, "row count"]]:
    """Top-k by stable sorts of `count` blocks: sorting whole vocabularies would be slow."""
    if scores.size(1) <= count * BLOCK:
        return _sorted(scores, count)
    # Blocks in ascending order, so that among equal scores the lower index comes first.
    blocks = _sorted(_block_maxima(scores), count)[1].sort(dim=1).values
    candidates, indices = _gather_blocks(scores, blocks)
    best, positions = _sorted(candidates, count)
    return best, indices.gather(1, positions)


def _block_maxima(scores: Float[Tensor, "row vocab"]) -> Float[Tensor, "row block"]:
    full_blocks = scores.size(1) // BLOCK
    best = scores[:, : full_blocks * BLOCK].unflatten(1, (full_blocks, BLOCK)).amax(dim=2)
    if full_blocks * BLOCK == scores.size(1):
        return best
    return torch.cat([best, scores[:, full_blocks * BLOCK :].amax(dim=1, keepdim=True)], dim=1)


def _gather_blocks(
    scores: Float[Tensor, "row vocab"], blocks: Int[Tensor, "row block"]
) -> tuple[Float[Tensor, "row candidate"], Int[Tensor, "row candidate"]]:
    """The scores of some blocks, concatenated, and their indices."""
    indices = (blocks[:, :, None] * BLOCK + torch.arange(BLOCK, device=scores.device)).flatten(1)
    if scores.size(1) % BLOCK == 0:
        return scores.gather(1, indices), indices
    out_of_range = indices >= scores.size(1)  # the last block is shorter than the others
    return scores.gather(1, indices.masked_fill(out_of_range, 0)).masked_fill(out_of_range, -torch.inf), indices


def _sorted(scores: Float[Tensor, "row vocab"], count: int) -> tuple[Tensor, Int[Tensor, "row count"]]:
    best, indices = scores.sort(dim=1, descending=True, stable=True)
    return best[:, :count], indices[:, :count]
