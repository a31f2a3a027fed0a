"""Measures of attention maps: entropy, distance, similarity of heads, alignment error rate, rollout.

All functions work on plain arrays, as a record stores them: (..., query, key), where every row sums to 1 (or is all
zeros, if there was no key to attend to).

`rollout` computes the contribution of each input position to each output position, through all layers. The attention
of one layer mixes vectors that the layers before it have mixed already. Rollout multiplies the maps:
R = Aᴸ ⋯ A² A¹ with A = (mean of the heads + I) / 2, where I is the residual connection around the attention (Abnar &
Zuidema 2020, section 3; for ViT Dosovitskiy et al. 2021, appendix D.7).

Heads differ, and small weights add up over many layers to a uniform map. So the heads can also be fused by their
minimum or maximum instead of their mean, and the smallest weights of each layer can be discarded (both from
Gildenblat 2020, "Exploring explainability for Vision Transformers").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seq2see.metrics.alignment import GoldAlignment, SentenceAttention, align, alignment_error_rate

Weights = NDArray[np.floating[Any]]


def entropy(weights: Weights) -> Weights:
    """(..., query): - Σ w log₂ w, in bits: 0 if one key has all the weight, log₂ n if n keys have equal weights.

    >>> entropy(np.array([[1.0, 0.0], [0.5, 0.5]])).tolist()
    [0.0, 1.0]
    """
    logs = np.log2(weights, out=np.zeros_like(weights), where=weights > 0)
    return np.abs((weights * logs).sum(axis=-1))  # -0.0 would be written with its sign


def distance(weights: Weights) -> Weights:
    """(..., query): Σ w |query - key|, the mean distance between query and key in positions; for self-attention only.

    >>> distance(np.array([[0.0, 0.0, 1.0], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]])).tolist()
    [2.0, 1.0, 0.0]
    """
    queries, keys = weights.shape[-2:]
    if queries != keys:
        raise ValueError(f"{queries} queries and {keys} keys are not positions of one sequence")
    positions = np.arange(queries)
    return (weights * np.abs(positions[:, None] - positions)).sum(axis=-1)


def patch_distance(weights: Weights, grid: tuple[int, int]) -> Weights:
    """(..., query): the mean Euclidean distance between query patch and key patch; prefix tokens are excluded.

    "Attention distance" of Dosovitskiy et al. 2021, section 4.5, in patches. A class token has no position, so its
    weight is distributed over the patches in proportion.

    >>> patch_distance(np.array([[0.0, 0.0, 0.0, 1.0]]).repeat(4, axis=0), (2, 2)).round(2).tolist()
    [1.41, 1.0, 1.0, 0.0]
    """
    rows, columns = np.divmod(np.arange(grid[0] * grid[1]), grid[1])
    distances = np.hypot(rows[:, None] - rows, columns[:, None] - columns)
    patches = weights[..., -len(rows) :, -len(rows) :]
    sums = patches.sum(axis=-1)
    return (patches * distances).sum(axis=-1) / np.where(sums > 0, sums, 1)


def similarity(heads: Weights) -> Weights:
    """(head, head): 1 - the Jensen-Shannon divergence of each pair of heads, in bits, averaged over the queries.

    1 for heads with equal weights, 0 for heads that never attend to the same key (Clark et al. 2019, section 6).

    >>> first, second = [[1.0, 0.0]], [[0.0, 1.0]]
    >>> similarity(np.array([first, first, second])).round(2).tolist()
    [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    entropies = entropy(heads)
    # One head against all heads at a time: all pairs at once would take heads² matrices of memory.
    mixture = np.stack([entropy((heads + head) / 2) for head in heads])
    return 1 - (mixture - (entropies[:, None] + entropies[None]) / 2).mean(axis=-1)


def alignment_error(
    weights: Weights, source_words: Sequence[int | None], target_words: Sequence[int | None], gold: GoldAlignment
) -> float:
    """The alignment error rate of one attention map (target token, source token), read as word links; 0 is perfect."""
    return alignment_error_rate([align(SentenceAttention(weights, source_words, target_words), gold)], [gold])


def max_pooled_maps(heads: Weights, max_size: int) -> Weights:
    """Downsample attention maps to at most `max_size` rows and columns by max-pooling, so that no peak is lost.

    >>> max_pooled_maps(np.array([[[0.1, 0.9, 0.0], [0.0, 0.0, 1.0], [0.2, 0.3, 0.5]]]), 2).tolist()
    [[[0.9, 1.0], [0.3, 0.5]]]
    """
    rows, columns = (_block_starts(count, max_size) for count in heads.shape[-2:])
    return np.maximum.reduceat(np.maximum.reduceat(heads, rows, axis=-2), columns, axis=-1)


def _block_starts(count: int, blocks: int) -> NDArray[np.int64]:
    """The start index of each of at most `blocks` blocks of equal size."""
    return np.arange(0, count, -(-count // blocks))


LayerWeights = NDArray[np.float32]

HEAD_FUSIONS: dict[str, Callable[[LayerWeights], LayerWeights]] = {
    "mean": lambda heads: heads.mean(axis=0),
    "min": lambda heads: heads.min(axis=0),
    "max": lambda heads: heads.max(axis=0),
}
"""Functions that fuse all heads of a layer (head, query, key) into one matrix."""


def rollout(layers: Sequence[LayerWeights], head_fusion: str = "mean", discard_ratio: float = 0.0) -> LayerWeights:
    """(output position, input position): the contribution of each input position to each output; rows sum to 1.

    `layers` are (head, query, key), the first layer first. `discard_ratio` is the share of each layer's fused weights
    that is set to zero, the smallest first.

    >>> even, first = np.full((1, 2, 2), 0.5), np.array([[[1.0, 0.0], [1.0, 0.0]]])
    >>> rollout([even, first]).tolist()
    [[0.75, 0.25], [0.5, 0.5]]
    """
    contribution = np.eye(layers[0].shape[-1], dtype=layers[0].dtype)
    for weights in layers:
        fused = discard_smallest(HEAD_FUSIONS[head_fusion](weights), discard_ratio)
        step = (fused + np.eye(fused.shape[-1], dtype=fused.dtype)) / 2
        contribution = step / step.sum(axis=-1, keepdims=True) @ contribution
    return contribution


def discard_smallest(weights: LayerWeights, share: float) -> LayerWeights:
    """Set this share of the weights to zero, the smallest first.

    >>> discard_smallest(np.array([[0.1, 0.9], [0.4, 0.6]]), 0.5).tolist()
    [[0.0, 0.9], [0.0, 0.6]]
    """
    flat = weights.flatten()
    flat[flat.argsort(kind="stable")[: int(share * flat.size)]] = 0
    return flat.reshape(weights.shape)
