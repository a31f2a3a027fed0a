"""Gradient clipping: g ← min(1, θ / ‖g‖) g (Pascanu, Mikolov & Bengio 2013, algorithm 1).

The gradient of all parameters is one vector. If its norm is above θ, it is shortened to θ; its direction stays.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def clip_gradient(gradients: Sequence[Tensor], threshold: float) -> list[Tensor]:
    """The clipped gradient of all parameters."""
    norm = torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt()
    scale = torch.clamp(threshold / norm, max=1.0)
    return [scale * gradient for gradient in gradients]
