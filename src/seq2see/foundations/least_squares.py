"""Least squares: the closed form of linear regression, of two relatives, and stochastic gradient descent.

w* = (XᵀX)⁻¹ Xᵀ y minimizes ‖y − X w‖². Ridge regression (Hoerl & Kennard 1970) adds λ ‖w‖², and kernel ridge regression
replaces the examples by a kernel. Gradient descent reaches w* as well; how fast depends on the condition number κ of
XᵀX, because its error decreases by 1 − 1/κ in a step at best.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

Examples = Float[Tensor, "example width"]
Targets = Float[Tensor, "example"]
Weights = Float[Tensor, "width"]


def closed_form(examples: Examples, targets: Targets) -> Weights:
    """w* = (XᵀX)⁻¹ Xᵀ y, by solving the normal equations; X needs full column rank."""
    return torch.linalg.solve(examples.T @ examples, examples.T @ targets)


def ridge(examples: Examples, targets: Targets, penalty: float) -> Weights:
    """w* = (XᵀX + λI)⁻¹ Xᵀ y, the minimum of ‖y − X w‖² + λ ‖w‖²."""
    identity = torch.eye(examples.size(1), dtype=examples.dtype)
    return torch.linalg.solve(examples.T @ examples + penalty * identity, examples.T @ targets)


def kernel_ridge(
    kernel: Float[Tensor, "example example"], targets: Targets, penalty: float
) -> Float[Tensor, "example"]:
    """a* = (K + λI)⁻¹ y, the minimum of ‖y − K a‖² + λ aᵀ K a."""
    return torch.linalg.solve(kernel + penalty * torch.eye(len(targets), dtype=kernel.dtype), targets)


@dataclass(frozen=True)
class Regression:
    """Examples, targets and the weights that generated them."""

    examples: Examples
    targets: Targets
    weights: Weights


def random_regression(examples: int, width: int, condition: float, noise: float, rng: torch.Generator) -> Regression:
    """y = X w + noise, where XᵀX has about the given condition number: its columns have unequal scales."""
    scales = condition ** -(torch.arange(width, dtype=torch.float64) / (2 * max(1, width - 1)))
    inputs = torch.randn(examples, width, dtype=torch.float64, generator=rng) * scales
    weights = torch.randn(width, dtype=torch.float64, generator=rng)
    errors = noise * torch.randn(examples, dtype=torch.float64, generator=rng)
    return Regression(inputs, inputs @ weights + errors, weights)


def minibatch_sgd(regression: Regression, learning_rate: float, batch: int, rng: torch.Generator) -> Iterator[Weights]:
    """The weights after each step of minibatch SGD on the mean squared error, from zero."""
    weights = torch.zeros(regression.examples.size(1), dtype=torch.float64)
    while True:
        rows = torch.randint(len(regression.targets), (batch,), generator=rng)
        errors = regression.examples[rows] @ weights - regression.targets[rows]
        weights = weights - learning_rate * 2 / batch * errors @ regression.examples[rows]
        yield weights
