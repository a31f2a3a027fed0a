"""Norms: keeping vectors at a steady scale, and over which axis the statistics run.

All but RMSNorm and PowerNorm are (x - mean) / √(variance + ε), times a learnt scale, plus a learnt shift.
Of vectors (row, time, width) the means are (row, time, 1) for LayerNorm, one for each token, and
(1, 1, width) for BatchNorm. A mean for each row, (row, 1, 1), as the notes have it, would tell a token
of those that come after it.

Every norm is called as `norm(vectors, real)`. LayerNorm and RMSNorm look at one position alone, so
padding cannot touch them. BatchNorm and PowerNorm look at one coordinate over all positions of the
batch; there padding would spoil the statistics, so they take only what `real` marks. Comparing them
answers why the Transformer uses LayerNorm: sentences of different length and content make the
statistics of a batch jump from step to step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from seq2see.kernels.beside import known_norm

EPSILON = 1e-5
"""Added under the root, so that a constant vector is not divided by zero."""


def plain_layer_norm(
    vectors: Float[Tensor, "row time width"],
    weight: Float[Tensor, "width"],
    bias: Float[Tensor, "width"],
    epsilon: float = EPSILON,
) -> Float[Tensor, "row time width"]:
    """Layer normalisation written out: mean 0 and variance 1 within each vector (Ba et al. 2016, eq. 4)."""
    mean = vectors.mean(-1, keepdim=True)
    variance = (vectors - mean).square().mean(-1, keepdim=True)
    return (vectors - mean) / (variance + epsilon).sqrt() * weight + bias


class LayerNorm(nn.Module):
    """Each vector gets mean 0 and variance 1 over its own width, then a learnt scale and shift.

    The fused kernel of `plain_layer_norm`.
    """

    def __init__(self, width: int, epsilon: float = EPSILON) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(
        self, vectors: Float[Tensor, "row time width"], real: Bool[Tensor, "row time"]
    ) -> Float[Tensor, "row time width"]:
        """Normalise each position by itself; `real` is not needed."""
        known = known_norm(self, vectors)
        return (
            F.layer_norm(vectors, self.weight.shape, self.weight, self.bias, self.epsilon) if known is None else known
        )


def plain_rms_norm(
    vectors: Float[Tensor, "row time width"], weight: Float[Tensor, "width"], epsilon: float = EPSILON
) -> Float[Tensor, "row time width"]:
    """Root-mean-square normalisation written out (Zhang & Sennrich 2019, eq. 4): no mean is taken away."""
    return vectors / (vectors.square().mean(-1, keepdim=True) + epsilon).sqrt() * weight


class RMSNorm(nn.Module):
    """LayerNorm without the mean and without the shift: only the length of a vector is made steady.

    The fused kernel of `plain_rms_norm`.
    """

    def __init__(self, width: int, epsilon: float = EPSILON) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(width))

    def forward(
        self, vectors: Float[Tensor, "row time width"], real: Bool[Tensor, "row time"]
    ) -> Float[Tensor, "row time width"]:
        """Normalise each position by itself; `real` is not needed."""
        known = known_norm(self, vectors)
        return F.rms_norm(vectors, self.weight.shape, self.weight, self.epsilon) if known is None else known


def mean_over_real(values: Float[Tensor, "row time width"], real: Bool[Tensor, "row time"]) -> Float[Tensor, "width"]:
    """The mean of each coordinate over all real positions of the batch; 0 where there are none."""
    # Filling, not multiplying by 0: a NaN in the padding times 0 is still NaN.
    return values.masked_fill(~real[..., None], 0).sum((0, 1)) / real.sum().clamp(min=1)


class MaskedBatchNorm(nn.Module):
    """Each coordinate gets mean 0 and variance 1 over the real positions of the batch (Ioffe & Szegedy 2015).

    Training uses the statistics of the batch at hand; evaluation uses running averages of them
    (10 % new each step), so that the answer to one sentence does not depend on its neighbours.
    """

    running_mean: Float[Tensor, "width"]
    running_variance: Float[Tensor, "width"]

    def __init__(self, width: int, epsilon: float = EPSILON, newness: float = 0.1) -> None:
        super().__init__()
        self.epsilon, self.newness = epsilon, newness
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_variance", torch.ones(width))

    def forward(
        self, vectors: Float[Tensor, "row time width"], real: Bool[Tensor, "row time"]
    ) -> Float[Tensor, "row time width"]:
        """Normalise each coordinate over the batch; padded positions come out as the plain shift."""
        padded = ~real[..., None]
        wide = _wide(vectors).masked_fill(padded, 0)
        mean, variance = self.running_mean, self.running_variance
        if self.training:
            mean = mean_over_real(wide, real)
            variance = mean_over_real((wide - mean).square(), real)
            self._remember(mean.detach(), variance.detach(), real.sum())
        normal = ((wide - mean) / (variance + self.epsilon).sqrt()).masked_fill(padded, 0)
        return (normal * self.weight + self.bias).to(vectors.dtype)

    def _remember(self, mean: Float[Tensor, "width"], variance: Float[Tensor, "width"], count: Int[Tensor, ""]) -> None:
        # A batch of n estimates the population's variance with n - 1; nothing is learnt from an empty batch.
        unbiased = variance * count / (count - 1).clamp(min=1)
        newness = self.newness * (count > 0)
        self.running_mean += newness * (mean - self.running_mean)
        self.running_variance += newness * (unbiased - self.running_variance)


class _Power(torch.autograd.Function):
    """Divide by a given quadratic mean; the backward pass is the one of Shen et al. (2020).

    Both passes use a statistic of the batch that may be swapped for a running one. With the batch's own
    in both places this is PN-V and the gradient is exact; with running ones it is PN and approximate.
    """

    @staticmethod
    def forward(
        ctx: Any,
        vectors: Float[Tensor, "row time width"],
        real: Bool[Tensor, "row time"],
        root: Float[Tensor, "width"],
        running_gradient: Float[Tensor, "width"],
        newness: Float[Tensor, ""],
        warming: Bool[Tensor, ""],
    ) -> Float[Tensor, "row time width"]:
        normal = vectors / root
        ctx.save_for_backward(normal, real, root, newness, warming)
        ctx.running_gradient = running_gradient  # not a saved tensor: the backward pass updates it in place
        return normal

    @staticmethod
    def backward(ctx: Any, gradient: Float[Tensor, "row time width"]) -> tuple[Tensor | None, ...]:
        normal, real, root, newness, warming = ctx.saved_tensors
        ours, running = mean_over_real(gradient * normal, real), ctx.running_gradient
        part = torch.where(warming, ours, running)  # Lambda of this batch, or nu of the past ones
        corrected = (gradient - part * normal) / root
        # nu <- nu (1 - (1 - alpha) Gamma) + (1 - alpha) Lambda, with Gamma the mean square of `normal`
        running += newness * (ours - running * mean_over_real(normal.square(), real))
        return corrected, None, None, None, None, None


class PowerNorm(nn.Module):
    """BatchNorm for text: no mean is taken away, and a running quadratic mean divides (Shen et al. 2020).

    Which form this is: the paper's PN. In training the vectors of step t are divided by psi(t-1), the root
    of a running average of the batches' mean squares, and the backward pass takes the part that would go
    through that statistic from a running average nu(t-1) of past gradients. The first `warm_up` training
    steps are the paper's PN-V (the batch's own quadratic mean, exact gradient) while both averages settle.
    Evaluation divides by psi. The extra scaling of each vector that the authors' program puts in front
    (their "layer scale") is left out. Both averages change once for each training pass, the second one
    during the backward pass, so recomputing a forward pass in training would count a batch twice.
    """

    running_square: Float[Tensor, "width"]
    running_gradient: Float[Tensor, "width"]
    steps: Int[Tensor, ""]

    def __init__(self, width: int, epsilon: float = EPSILON, newness: float = 0.1, warm_up: int = 1000) -> None:
        super().__init__()
        self.epsilon, self.newness, self.warm_up = epsilon, newness, warm_up  # newness is 1 - alpha
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("running_square", torch.ones(width))
        self.register_buffer("running_gradient", torch.zeros(width))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(
        self, vectors: Float[Tensor, "row time width"], real: Bool[Tensor, "row time"]
    ) -> Float[Tensor, "row time width"]:
        """Divide each coordinate by a quadratic mean; padded positions come out as the plain shift."""
        wide = _wide(vectors).masked_fill(~real[..., None], 0)
        normal = self._learn(wide, real) if self.training else wide / self._root(self.running_square)
        return (normal * self.weight + self.bias).to(vectors.dtype)

    def _learn(
        self, vectors: Float[Tensor, "row time width"], real: Bool[Tensor, "row time"]
    ) -> Float[Tensor, "row time width"]:
        square = mean_over_real(vectors.detach().square(), real)
        warming = self.steps < self.warm_up
        root = self._root(torch.where(warming, square, self.running_square))
        newness = self.newness * real.any().to(square.dtype)  # nothing is learnt from an empty batch
        self.running_square += newness * (square - self.running_square)
        self.steps += 1
        return _Power.apply(vectors, real, root, self.running_gradient, newness, warming)

    def _root(self, square: Float[Tensor, "width"]) -> Float[Tensor, "width"]:
        return (square + self.epsilon).sqrt()


def _wide(vectors: Float[Tensor, "row time width"]) -> Float[Tensor, "row time width"]:
    """At least float32: sums over a whole batch would lose too much in 16 bits."""
    return vectors.to(torch.promote_types(vectors.dtype, torch.float32))


NORMS: dict[str, Callable[[int, float], nn.Module]] = {
    "layer": LayerNorm,
    "rms": RMSNorm,
    "batch": MaskedBatchNorm,
    "power": PowerNorm,
}
