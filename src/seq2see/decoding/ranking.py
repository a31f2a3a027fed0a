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
FEW = 1 << 14
"""Up to so many scores, those of all rows counted, one stage is as fast as two."""


def highest(scores: Float[Tensor, "row choice"], count: int) -> Int[Tensor, "row count"]:
    """Where the `count` highest scores of each row stand, best first; of equals the earlier comes first.

    If there are fewer than `count`, all of them.

    >>> highest(torch.tensor([[0.0, 2.0, 1.0, 2.0]]), 2).tolist()
    [[1, 3]]
    """
    return highest_scores(scores, count)[1]


def highest_scores(
    scores: Float[Tensor, "row choice"], count: int
) -> tuple[Float[Tensor, "row count"], Int[Tensor, "row count"]]:
    """The scores that `highest` finds, and where they stand.

    `topk` leaves open which of several equal scores it returns, and in which order. So one more is taken
    than is asked for, and if any two of these are equal, a stable sort decides. On a GPU it stays open: asking
    whether there are equals takes longer than the rest of the step.
    """
    if scores.is_cuda:
        return top_of_columns(scores, min(count, scores.size(1)))
    if scores.size(1) <= max(count, BLOCK):
        return _stably_highest(scores, count)
    best, places = _top(scores, count + 1)
    if (best[:, 1:] == best[:, :-1]).any():
        return _stably_highest(scores, count)
    return best[:, :count], places[:, :count]


def very_highest(scores: Float[Tensor, "row choice"]) -> Int[Tensor, "row"]:
    """Where the highest score of each row stands; of equals the earlier.

    >>> very_highest(torch.tensor([[0.0, 2.0, 1.0, 2.0]])).tolist()
    [1]
    """
    if scores.numel() <= FEW or scores.is_cuda:
        return scores.argmax(dim=1)
    block = _best_of_blocks(scores).argmax(dim=1, keepdim=True)
    finalists, places = _look_into(scores, block)
    return places.gather(1, finalists.argmax(dim=1, keepdim=True)).squeeze(1)


def perhaps(flags: Bool[Tensor, "*any"]) -> bool:
    """Whether any of these is true; of flags on a GPU always True.

    Waiting for a GPU's answer takes longer than the work that the answer could spare.
    """
    return flags.is_cuda or bool(flags.any())


def _top(scores: Float[Tensor, "row choice"], count: int) -> tuple[Tensor, Int[Tensor, "row count"]]:
    """The highest scores and where they stand; which of equals is left open."""
    if scores.numel() <= FEW or scores.size(1) <= count * BLOCK:
        return scores.topk(count, dim=1)
    # The `count` blocks with the highest best hold all that is looked for: a choice in any other block
    # stands behind the best of each. If two blocks' best are equal and only one gets in, it is equal to the
    # last of the finalists, so that the caller notices.
    finalists, places = _look_into(scores, _best_of_blocks(scores).topk(count, dim=1).indices)
    best, winners = finalists.topk(count, dim=1)
    return best, places.gather(1, winners)


def top_of_columns(scores: Float[Tensor, "row choice"], count: int) -> tuple[Tensor, Int[Tensor, "row count"]]:
    """The same for a GPU: choices that stand far apart are a block, so that neighbours are read by neighbours."""
    columns = scores.size(1) // BLOCK
    if columns <= count:
        return scores.topk(count, dim=1)
    best = scores[:, : columns * BLOCK].unflatten(1, (BLOCK, columns)).amax(dim=1).topk(count, dim=1).indices
    steps = torch.arange(0, columns * BLOCK, columns, device=scores.device)
    rest = torch.arange(columns * BLOCK, scores.size(1), device=scores.device).expand(scores.size(0), -1)
    places = torch.cat([(best[:, :, None] + steps).flatten(1), rest], dim=1)
    finalists, winners = scores.gather(1, places).topk(count, dim=1)
    return finalists, places.gather(1, winners)


def _stably_highest(scores: Float[Tensor, "row choice"], count: int) -> tuple[Tensor, Int[Tensor, "row count"]]:
    """The same by stable sorts alone; only `count` blocks are sorted, whole vocabularies would take long."""
    if scores.size(1) <= count * BLOCK:
        return _sorted(scores, count)
    # In the order in which they stand, so that of equal choices the earlier is met first.
    blocks = _sorted(_best_of_blocks(scores), count)[1].sort(dim=1).values
    finalists, places = _look_into(scores, blocks)
    best, winners = _sorted(finalists, count)
    return best, places.gather(1, winners)


def _best_of_blocks(scores: Float[Tensor, "row choice"]) -> Float[Tensor, "row block"]:
    whole = scores.size(1) // BLOCK
    best = scores[:, : whole * BLOCK].unflatten(1, (whole, BLOCK)).amax(dim=2)
    if whole * BLOCK == scores.size(1):
        return best
    return torch.cat([best, scores[:, whole * BLOCK :].amax(dim=1, keepdim=True)], dim=1)


def _look_into(
    scores: Float[Tensor, "row choice"], blocks: Int[Tensor, "row block"]
) -> tuple[Float[Tensor, "row finalist"], Int[Tensor, "row finalist"]]:
    """The choices of some blocks side by side, and where each stands."""
    places = (blocks[:, :, None] * BLOCK + torch.arange(BLOCK, device=scores.device)).flatten(1)
    if scores.size(1) % BLOCK == 0:
        return scores.gather(1, places), places
    beyond = places >= scores.size(1)  # the last block is shorter than the others
    return scores.gather(1, places.masked_fill(beyond, 0)).masked_fill(beyond, -torch.inf), places


def _sorted(scores: Float[Tensor, "row choice"], count: int) -> tuple[Tensor, Int[Tensor, "row count"]]:
    best, places = scores.sort(dim=1, descending=True, stable=True)
    return best[:, :count], places[:, :count]
