"""Softmax regression: one linear layer, a softmax, and the cross-entropy of the true label.

The gradient with respect to the logits is softmax(o) − one_hot(y) (d2l, section 4.1.2): the predicted probabilities
minus the true ones. There is no hidden layer, so the loss is convex, and training may start from zeros.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

Inputs = Float[Tensor, "example width"]
Labels = Int[Tensor, "example"]
Matrix = Float[Tensor, "width class"]


def log_softmax(logits: Float[Tensor, "example class"]) -> Float[Tensor, "example class"]:
    """log softmax(o) = o − log Σ exp(o), with the maximum subtracted first, so that no exponential overflows."""
    shifted = logits - logits.amax(1, keepdim=True)
    return shifted - shifted.exp().sum(1, keepdim=True).log()


def cross_entropy_and_gradient(inputs: Inputs, labels: Labels, weights: Matrix) -> tuple[Tensor, Matrix]:
    """The mean cross-entropy, and its gradient Xᵀ (softmax(X W) − Y) / n."""
    log_probabilities = log_softmax(inputs @ weights)
    rows = torch.arange(len(labels))
    difference = log_probabilities.exp()
    difference[rows, labels] -= 1
    return -log_probabilities[rows, labels].mean(), inputs.T @ difference / len(labels)


def perplexity_and_gradient(inputs: Inputs, labels: Labels, weights: Matrix) -> tuple[Tensor, Matrix]:
    """exp(cross-entropy); by the chain rule its gradient is that of the cross-entropy times the perplexity."""
    loss, gradient = cross_entropy_and_gradient(inputs, labels, weights)
    return loss.exp(), loss.exp() * gradient


Loss = Callable[[Inputs, Labels, Matrix], tuple[Tensor, Matrix]]


def random_classification(examples: int, width: int, classes: int, rng: torch.Generator) -> tuple[Inputs, Labels]:
    """Inputs with labels that a random linear model samples."""
    inputs = torch.randn(examples, width, dtype=torch.float64, generator=rng)
    weights = torch.randn(width, classes, dtype=torch.float64, generator=rng)
    return inputs, torch.multinomial((inputs @ weights).softmax(1), 1, generator=rng)[:, 0]
