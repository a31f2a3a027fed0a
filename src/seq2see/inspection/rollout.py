"""Attention rollout: how much each input position contributes to each output position, through all layers.

The attention of one layer mixes vectors that the layers before it have mixed already. Rollout multiplies the maps:
R = Aᴸ ⋯ A² A¹ with A = (mean of the heads + I) / 2, where I is the residual connection around the attention (Abnar &
Zuidema 2020, section 3; for ViT Dosovitskiy et al. 2021, appendix D.7).

Heads differ, and small weights add up over many layers to a uniform map. So the heads can also be fused by their
minimum or maximum instead of their mean, and the smallest weights of each layer can be discarded (both from
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
"""Functions that fuse all heads of a layer (head, query, key) into one matrix."""


def rollout(layers: Sequence[Weights], head_fusion: str = "mean", discard_ratio: float = 0.0) -> Weights:
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


def discard_smallest(weights: Weights, share: float) -> Weights:
    """Set this share of the weights to zero, the smallest first.

    >>> discard_smallest(np.array([[0.1, 0.9], [0.4, 0.6]]), 0.5).tolist()
    [[0.0, 0.9], [0.0, 0.6]]
    """
    flat = weights.flatten()
    flat[flat.argsort(kind="stable")[: int(share * flat.size)]] = 0
    return flat.reshape(weights.shape)
