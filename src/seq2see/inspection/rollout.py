"""How much each place of the input has reached the end, through all layers: attention rollout.

One layer's attention says where it looked, but what stood there came from elsewhere already. Rollout follows it back:
R = Aᴸ ⋯ A², A¹ with A = (mean of the heads + I) / 2, where I is the stream that runs past the attention (Abnar &
Zuidema 2020, section 3; for ViT Dosovitskiy et al. 2021, appendix D.7).

Heads disagree, and small weights add up over many layers to an even haze. So the heads can also be fused by their
smallest or largest weight instead of their mean, and the smallest weights of each layer be discarded (both from
Gildenblat 2020, "Exploring explainability for Vision Transformers").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.float32]

HEAD_FUSIONS: dict[str, Callable[[Weights], Weights]] = {
    "mean": lambda heads: heads.mean(axis=0),
    "min": lambda heads: heads.min(axis=0),
    "max": lambda heads: heads.max(axis=0),
}
"""From all heads of a layer (head, query, key) to one matrix."""


def rollout(layers: Sequence[Weights], head_fusion: str = "mean", discard_ratio: float = 0.0) -> Weights:
    """(place, place): how much of each input place is in each output place; rows sum to 1.

    `layers` are (head, query, key), the first layer first; `discard_ratio` is the share of each layer's fused weights, the
    smallest, that is left out.

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


def discard_smallest(weights: Weights, share: float) -> Weights:
    """The same with zeros in place of this share of the weights, the smallest of all.

    >>> without_smallest(np.array([[0.1, 0.9], [0.4, 0.6]]), 0.5).tolist()
    [[0.0, 0.9], [0.0, 0.6]]
    """
    kept = weights.flatten()
    kept[kept.argsort(kind="stable")[: int(share * kept.size)]] = 0
    return kept.reshape(weights.shape)
