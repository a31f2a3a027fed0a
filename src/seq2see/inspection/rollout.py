"""How much each place of the input has reached the end, through all layers: attention rollout.

One layer's attention says where it looked, but what stood there came from elsewhere already. Rollout follows it back:
R = Aᴸ ⋯ A², A¹ with A = (mean of the heads + I) / 2, where I is the stream that runs past the attention (Abnar &
Zuidema 2020, section 3; for ViT Dosovitskiy et al. 2021, appendix D.7).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.float32]


def rollout(layers: Sequence[Weights]) -> Weights:
    """(place, place): how much of each input place is in each output place; rows sum to 1.

    `layers` are (head, query, key), the first layer first.

    >>> even, first = np.full((1, 2, 2), 0.5), np.array([[[1.0, 0.0], [1.0, 0.0]]])
    >>> rollout([even, first]).tolist()
    [[0.75, 0.25], [0.5, 0.5]]
    """
    reached = np.eye(layers[0].shape[-1], dtype=layers[0].dtype)
    for weights in layers:
        step = (weights.mean(axis=0) + np.eye(weights.shape[-1], dtype=weights.dtype)) / 2
        reached = step @ reached
    return reached
