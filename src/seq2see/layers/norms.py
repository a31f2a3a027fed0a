"""Norms: keeping vectors at a steady scale, and over which axis the statistics run.

All but RMSNorm and PowerNorm are (x - mean) / √(variance + ε), times a learned scale, plus a learned shift.
Of vectors (row, time, width) the means are (row, time, 1) for LayerNorm, one for each token, and
(1, 1, width) for BatchNorm. A mean for each row, (row, 1, 1), as the notes have it, would tell a token
of those that come after it.

Every norm is called as `norm(vectors, valid)`. LayerNorm and RMSNorm look at one position alone, so
padding cannot touch them. BatchNorm and PowerNorm look at one coordinate over all positions of the
batch; there padding would spoil the statistics, so they take only what `valid` marks. Comparing them
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

from seq2see.kernels.async_weight_grad import precomputed_norm

EPSILON = 1e-5
"""Added under the root, so that a constant vector is not divided by zero."""


def plain_layer_norm(
    vectors: Float[Tensor, "row time width"],
    weight: Float[Tensor, "width"],
    bias: Float[Tensor, "width"],
    eps: float = EPSILON,
) -> Float[Tensor, "row time width"]:
    """Layer normalization written out: mean 0 and variance 1 within each vector (Ba et al. 2016, eq. 4)."""
    mean = vectors.mean(-1, keepdim=True)
    variance = (vectors - mean).square().mean(-1, keepdim=True)
    return (vectors - mean) / (variance + eps).sqrt() * weight + bias


class LayerNorm(nn.Module):
    """Each vector gets mean 0 and variance 1 over its own width, then a learned scale and shift.

    The fused kernel of `plain_layer_norm`.
    """

    def __init__(self, width: int, eps: float = EPSILON) -> None:
        super().__init__()
        self.eps = eps
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(
        self, vectors: Float[Tensor, "row time width"], valid: Bool[Tensor, "row time"]
    ) -> Float[Tensor, "row time width"]:
        """Normalize each position by itself; `valid` is not needed."""
        precomputed = precomputed_norm(self, vectors)
        return (
            F.layer_norm(vectors, self.weight.shape, self.weight, self.bias, self.eps)
            if precomputed is None
            else precomputed
        )


def plain_rms_norm(
    vectors: Float[Tensor, "row time width"], weight: Float[Tensor, "width"], eps: float = EPSILON
) -> Float[Tensor, "row time width"]:
    """Root-mean-square normalization written out (Zhang & Sennrich 2019, eq. 4): no mean is taken away."""
    return vectors / (vectors.square().mean(-1, keepdim=True) + eps).sqrt() * weight


class RMSNorm(nn.Module):
    """LayerNorm without the mean and without the shift: only the length of a vector is made steady.

    The fused kernel of `plain_rms_norm`.
    """

    def __init__(self, width: int, eps: float = EPSILON) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(
        self, vectors: Float[Tensor, "row time width"], valid: Bool[Tensor, "row time"]
    ) -> Float[Tensor, "row time width"]:
        """Normalize each position by itself; `valid` is not needed."""
        precomputed = precomputed_norm(self, vectors)
        return F.rms_norm(vectors, self.weight.shape, self.weight, self.eps) if precomputed is None else precomputed


def masked_batch_mean(
    values: Float[Tensor, "row time width"], valid: Bool[Tensor, "row time"]
) -> Float[Tensor, "width"]:
    """The mean of each coordinate over all real positions of the batch; 0 where there are none."""
    # Filling, not multiplying by 0: a NaN in the padding times 0 is still NaN.
    return values.masked_fill(~valid[..., None], 0).sum((0, 1)) / valid.sum().clamp(min=1)


class MaskedBatchNorm(nn.Module):
    """Each coordinate gets mean 0 and variance 1 over the real positions of the batch (Ioffe & Szegedy 2015).

    Training uses the statistics of the batch at hand; evaluation uses running averages of them
    (10 % new each step), so that the answer to one sentence does not depend on its neighbors.
    """

    running_mean: Float[Tensor, "width"]
    running_var: Float[Tensor, "width"]

    def __init__(self, width: int, eps: float = EPSILON, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_variance", torch.ones(width))

    def forward(
        self, vectors: Float[Tensor, "row time width"], valid: Bool[Tensor, "row time"]
    ) -> Float[Tensor, "row time width"]:
        """Normalize each coordinate over the batch; padded positions come out as the plain shift."""
        padded = ~valid[..., None]
        wide = _at_least_float32(vectors).masked_fill(padded, 0)
        mean, variance = self.running_mean, self.running_var
        if self.training:
            mean = masked_batch_mean(wide, valid)
            variance = masked_batch_mean((wide - mean).square(), valid)
            self._update_running_stats(mean.detach(), variance.detach(), valid.sum())
        normal = ((wide - mean) / (variance + self.eps).sqrt()).masked_fill(padded, 0)
        return (normal * self.weight + self.bias).to(vectors.dtype)

    def _update_running_stats(
        self, mean: Float[Tensor, "width"], variance: Float[Tensor, "width"], count: Int[Tensor, ""]
    ) -> None:
        # A batch of n estimates the population's variance with n - 1; nothing is learned from an empty batch.
        unbiased = variance * count / (count - 1).clamp(min=1)
        momentum = self.momentum * (count > 0)
        self.running_mean += momentum * (mean - self.running_mean)
        self.running_var += momentum * (unbiased - self.running_var)


class _PowerNormFunction(torch.autograd.Function):
    """Divide by a given quadratic mean; the backward pass is the one of Shen et al. (2020).

    Both passes use a statistic of the batch that may be swapped for a running one. With the batch's own
    in both places this is PN-V and the gradient is exact; with running ones it is PN and approximate.
    """

    @staticmethod
    def forward(
        ctx: Any,
        vectors: Float[Tensor, "row time width"],
        valid: Bool[Tensor, "row time"],
        root: Float[Tensor, "width"],
        running_grad: Float[Tensor, "width"],
        momentum: Float[Tensor, ""],
        warming_up: Bool[Tensor, ""],
    ) -> Float[Tensor, "row time width"]:
        normal = vectors / root
        ctx.save_for_backward(normal, valid, root, momentum, warming_up)
        ctx.running_grad = running_grad  # not a saved tensor: the backward pass updates it in place
        return normal

    @staticmethod
    def backward(ctx: Any, gradient: Float[Tensor, "row time width"]) -> tuple[Tensor | None, ...]:
        normal, valid, root, momentum, warming_up = ctx.saved_tensors
        ours, running = masked_batch_mean(gradient * normal, valid), ctx.running_grad
        part = torch.where(warming_up, ours, running)  # Lambda of this batch, or nu of the past ones
        corrected = (gradient - part * normal) / root
        # nu <- nu (1 - (1 - alpha) Gamma) + (1 - alpha) Lambda, with Gamma the mean square of `normal`
        running += momentum * (ours - running * masked_batch_mean(normal.square(), valid))
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
    running_grad: Float[Tensor, "width"]
    steps: Int[Tensor, ""]

    def __init__(self, width: int, eps: float = EPSILON, momentum: float = 0.1, warm_up: int = 1000) -> None:
        super().__init__()
        self.eps, self.momentum, self.warm_up = eps, momentum, warm_up  # newness is 1 - alpha
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("running_square", torch.ones(width))
        self.register_buffer("running_gradient", torch.zeros(width))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(
        self, vectors: Float[Tensor, "row time width"], valid: Bool[Tensor, "row time"]
    ) -> Float[Tensor, "row time width"]:
        """Divide each coordinate by a quadratic mean; padded positions come out as the plain shift."""
        wide = _at_least_float32(vectors).masked_fill(~valid[..., None], 0)
        normal = self._normalize_in_training(wide, valid) if self.training else wide / self._root(self.running_square)
        return (normal * self.weight + self.bias).to(vectors.dtype)

    def _normalize_in_training(
        self, vectors: Float[Tensor, "row time width"], valid: Bool[Tensor, "row time"]
    ) -> Float[Tensor, "row time width"]:
        square = masked_batch_mean(vectors.detach().square(), valid)
        warming_up = self.steps < self.warm_up
        root = self._root(torch.where(warming_up, square, self.running_square))
        momentum = self.momentum * valid.any().to(square.dtype)  # nothing is learned from an empty batch
        self.running_square += momentum * (square - self.running_square)
        self.steps += 1
        return _PowerNormFunction.apply(vectors, valid, root, self.running_grad, momentum, warming_up)

    def _root(self, square: Float[Tensor, "width"]) -> Float[Tensor, "width"]:
        return (square + self.eps).sqrt()


def _at_least_float32(vectors: Float[Tensor, "row time width"]) -> Float[Tensor, "row time width"]:
    """At least float32: sums over a whole batch would lose too much in 16 bits."""
    return vectors.to(torch.promote_types(vectors.dtype, torch.float32))


NORMS: dict[str, Callable[[int, float], nn.Module]] = {
    "layer": LayerNorm,
    "rms": RMSNorm,
    "batch": MaskedBatchNorm,
    "power": PowerNorm,
}
