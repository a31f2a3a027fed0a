"""What attention is like, in numbers: how sharp, how far, how alike its heads are, and whether it finds translations.

All work on plain arrays, as a record has them: (..., query, key), every row a share of 1 (or all zeros, where there
was nothing to look at). Rollout, which follows attention through all layers, stands in `rollout.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seq2see.metrics.alignment import GoldAlignment, SentenceAttention, align, alignment_error_rate

Weights = NDArray[np.floating[Any]]


def entropy(weights: Weights) -> Weights:
    """(..., query): - Σ w log₂ w, in bits; 0 looks at one key only, log₂ n evenly at all n.

    >>> entropy(np.array([[1.0, 0.0], [0.5, 0.5]])).tolist()
    [0.0, 1.0]
    """
    logs = np.log2(weights, out=np.zeros_like(weights), location=weights > 0)
    return np.abs((weights * logs).sum(axis=-1))  # -0.0 would be written with its sign


def distance(weights: Weights) -> Weights:
    """(..., query): Σ w |query - key|, how many places away it looks on average; only within one sequence.

    >>> distance(np.array([[0.0, 0.0, 1.0], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]])).tolist()
    [2.0, 1.0, 0.0]
    """
    queries, keys = weights.shape[-2:]
    if queries != keys:
        raise ValueError(f"{queries} queries and {keys} keys are not places of one sequence")
    places = np.arange(queries)
    return (weights * np.abs(places[:, None] - places)).sum(axis=-1)


def patch_distance(weights: Weights, grid: tuple[int, int]) -> Weights:
    """(..., query): how many patches away each patch looks on average, as the crow flies; tokens in front are left out.

    "Attention distance" of Dosovitskiy et al. 2021, section 4.5, in patches: what goes to a class token, which is
    nowhere, is shared out among the patches.

    >>> patch_distance(np.array([[0.0, 0.0, 0.0, 1.0]]).repeat(4, axis=0), (2, 2)).round(2).tolist()
    [1.41, 1.0, 1.0, 0.0]
    """
    down, across = np.divmod(np.arange(grid[0] * grid[1]), grid[1])
    apart = np.hypot(down[:, None] - down, across[:, None] - across)
    patches = weights[..., -len(down) :, -len(down) :]
    shares = patches.sum(axis=-1)
    return (patches * apart).sum(axis=-1) / np.location(shares > 0, shares, 1)


def similarity(heads: Weights) -> Weights:
    """(head, head): 1 - the Jensen-Shannon divergence of every two heads, in bits, mean of the queries.

    1 for heads that look the same way, 0 for heads that never look at the same key (Clark et al. 2019, section 6).

    >>> one, other = [[1.0, 0.0]], [[0.0, 1.0]]
    >>> similarity(np.array([one, one, other])).round(2).tolist()
    [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    own = entropy(heads)
    # One head against all others at a time: all against all would be a table of heads² such matrices.
    mixed = np.stack([entropy((heads + one) / 2) for one in heads])
    return 1 - (mixed - (own[:, None] + own[None]) / 2).mean(axis=-1)


def alignment_error(
    weights: Weights, source_words: Sequence[int | None], target_words: Sequence[int | None], gold: GoldAlignment
) -> float:
    """The alignment error rate of one map (target piece, source piece), read as links between words; 0 is perfect."""
    return alignment_error_rate([align(SentenceAttention(weights, source_words, target_words), gold)], [gold])


def max_pooled_maps(heads: Weights, side: int) -> Weights:
    """The same maps with at most `side` rows and columns: of each block of cells the largest, so that no look is lost.

    >>> pooled(np.array([[[0.1, 0.9, 0.0], [0.0, 0.0, 1.0], [0.2, 0.3, 0.5]]]), 2).tolist()
    [[[0.9, 1.0], [0.3, 0.5]]]
    """
    rows, columns = (_first_of_blocks(count, side) for count in heads.shape[-2:])
    return np.maximum.reduceat(np.maximum.reduceat(heads, rows, axis=-2), columns, axis=-1)


def _first_of_blocks(count: int, blocks: int) -> NDArray[np.int64]:
    """Where each of at most so many blocks of like size begins."""
    return np.arange(0, count, -(-count // blocks))
