"""The size of activations and gradients in a deep network at initialization, layer by layer.

Each layer multiplies the variance of the signal by fan-in times the variance of the weights, times what the activation
function leaves of it; on the way back by fan-out instead of fan-in, times the squared derivative. Over many layers, a
factor below 1 makes the signal vanish, and a factor above 1 makes it explode (Glorot & Bengio 2010; He et al. 2015).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "ReLU": torch.relu,
}
GAINS = {"Xavier": 1.0, "He": 2.0**0.5, "small": 0.01}
"""The standard deviation of a weight is gain / √width; for "small" it is the gain itself."""


def signal_by_depth(
    activation: str, initialization: str, depth: int, width: int, rng: torch.Generator
) -> tuple[list[float], list[float]]:
    """The standard deviations of the activations, and of the gradients with respect to them, after each layer.

    All layers have equal width, so that Xavier's variance 2 / (fan-in + fan-out) is 1 / width. The input and the
    gradient at the last layer are standard normal.
    """
    scale = GAINS[initialization] * (1.0 if initialization == "small" else width**-0.5)
    vectors: Float[Tensor, "example width"] = torch.randn(256, width, generator=rng, requires_grad=True)
    layers = []
    for _ in range(depth):
        weight = scale * torch.randn(width, width, generator=rng)
        vectors = ACTIVATIONS[activation](vectors @ weight)
        vectors.retain_grad()
        layers.append(vectors)
    vectors.backward(torch.randn(vectors.shape, generator=rng))
    gradients = [layer.grad for layer in layers]
    return [float(layer.detach().std()) for layer in layers], [
        float(each.std()) for each in gradients if each is not None
    ]
