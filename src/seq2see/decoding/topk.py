"""The highest scores of each row, in an order that never depends on luck.

A vocabulary is looked at in two stages: it is cut into blocks, and only the blocks whose best score is high
enough are looked into. The best of a block is a maximum, which a processor takes of many numbers at once;
finding out where it stands is slow.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

BLOCK = 64
ONE_STAGE_LIMIT = 1 << 14
"""Up to so many scores, those of all rows counted, one stage is as fast as two."""


def stable_topk_indices(scores: Float[Tensor, "row choice"], count: int) -> Int[Tensor, "row count"]:
    """Where the `count` highest scores of each row stand, best first; of equals the earlier comes first.

    If there are fewer than `count`, all of them.

    >>> highest(torch.tensor([[0.0, 2.0, 1.0, 2.0]]), 2).tolist()
    [[1, 3]]
    """
    return stable_topk(scores, count)[1]


def stable_topk(
    scores: Float[Tensor, "row choice"], count: int
) -> tuple[Float[Tensor, "row count"], Int[Tensor, "row count"]]:
    """The scores that `stable_topk_indices` finds, and where they stand.

    `topk` leaves open which of several equal scores it returns, and in which order. So one more is taken
    than is asked for, and if any two of these are equal, a stable sort decides. On a GPU it stays open: asking
    whether there are equals takes longer than the rest of the step.
    """
    if scores.is_cuda:
        return strided_topk(scores, min(count, scores.size(1)))
    if scores.size(1) <= max(count, BLOCK):
        return _sorted_topk(scores, count)
    best, indices = _unstable_topk(scores, count + 1)
    if (best[:, 1:] == best[:, :-1]).any():
        return _sorted_topk(scores, count)
    return best[:, :count], indices[:, :count]


def stable_argmax(scores: Float[Tensor, "row choice"]) -> Int[Tensor, "row"]:
    """Where the highest score of each row stands; of equals the earlier.

    >>> very_highest(torch.tensor([[0.0, 2.0, 1.0, 2.0]])).tolist()
    [1]
    """
    if scores.numel() <= ONE_STAGE_LIMIT or scores.is_cuda:
        return scores.argmax(dim=1)
    block = _block_maxima(scores).argmax(dim=1, keepdim=True)
    finalizts, indices = _gather_blocks(scores, block)
    return indices.gather(1, finalizts.argmax(dim=1, keepdim=True)).squeeze(1)


def maybe_any(flags: Bool[Tensor, "*any"]) -> bool:
    """Whether any of these is true; of flags on a GPU always True.

    Waiting for a GPU's answer takes longer than the work that the answer could spare.
    """
    return flags.is_cuda or bool(flags.any())


def _unstable_topk(scores: Float[Tensor, "row choice"], count: int) -> tuple[Tensor, Int[Tensor, "row count"]]:
    """The highest scores and where they stand; which of equals is left open."""
    if scores.numel() <= ONE_STAGE_LIMIT or scores.size(1) <= count * BLOCK:
        return scores.topk(count, dim=1)
    # The `count` blocks with the highest best hold all that is looked for: a choice in any other block
    # stands behind the best of each. If two blocks' best are equal and only one gets in, it is equal to the
    # last of the finalizts, so that the caller notices.
    finalizts, indices = _gather_blocks(scores, _block_maxima(scores).topk(count, dim=1).indices)
    best, winners = finalizts.topk(count, dim=1)
    return best, indices.gather(1, winners)


def strided_topk(scores: Float[Tensor, "row choice"], count: int) -> tuple[Tensor, Int[Tensor, "row count"]]:
    """The same for a GPU: choices that stand far apart are a block, so that neighbors are read by neighbors."""
    columns = scores.size(1) // BLOCK
    if columns <= count:
        return scores.topk(count, dim=1)
    best = scores[:, : columns * BLOCK].unflatten(1, (BLOCK, columns)).amax(dim=1).topk(count, dim=1).indices
    steps = torch.arange(0, columns * BLOCK, columns, device=scores.device)
    rest = torch.arange(columns * BLOCK, scores.size(1), device=scores.device).expand(scores.size(0), -1)
    indices = torch.cat([(best[:, :, None] + steps).flatten(1), rest], dim=1)
    finalizts, winners = scores.gather(1, indices).topk(count, dim=1)
    return finalizts, indices.gather(1, winners)


def _sorted_topk(scores: Float[Tensor, "row choice"], count: int) -> tuple[Tensor, Int[Tensor, "row count"]]:
    """The same by stable sorts alone; only `count` blocks are sorted, whole vocabularies would take long."""
    if scores.size(1) <= count * BLOCK:
        return _sorted(scores, count)
    # In the order in which they stand, so that of equal choices the earlier is met first.
    blocks = _sorted(_block_maxima(scores), count)[1].sort(dim=1).values
    finalizts, indices = _gather_blocks(scores, blocks)
    best, winners = _sorted(finalizts, count)
    return best, indices.gather(1, winners)


def _block_maxima(scores: Float[Tensor, "row choice"]) -> Float[Tensor, "row block"]:
    whole = scores.size(1) // BLOCK
    best = scores[:, : whole * BLOCK].unflatten(1, (whole, BLOCK)).amax(dim=2)
    if whole * BLOCK == scores.size(1):
        return best
    return torch.cat([best, scores[:, whole * BLOCK :].amax(dim=1, keepdim=True)], dim=1)


def _gather_blocks(
    scores: Float[Tensor, "row choice"], blocks: Int[Tensor, "row block"]
) -> tuple[Float[Tensor, "row finalizt"], Int[Tensor, "row finalizt"]]:
    """The choices of some blocks side by side, and where each stands."""
    indices = (blocks[:, :, None] * BLOCK + torch.arange(BLOCK, device=scores.device)).flatten(1)
    if scores.size(1) % BLOCK == 0:
        return scores.gather(1, indices), indices
    beyond = indices >= scores.size(1)  # the last block is shorter than the others
    return scores.gather(1, indices.masked_fill(beyond, 0)).masked_fill(beyond, -torch.inf), indices


def _sorted(scores: Float[Tensor, "row choice"], count: int) -> tuple[Tensor, Int[Tensor, "row count"]]:
    best, indices = scores.sort(dim=1, descending=True, stable=True)
    return best[:, :count], indices[:, :count]
