"""Norms, dropout, and the residual connections that have both.

The norms are LayerNorm, RMSNorm, BatchNorm with padding and PowerNorm. All but RMSNorm and PowerNorm compute (x - mean)
/ √(variance + ε), times a learned scale, plus a learned shift. They differ in the axes of their statistics. For vectors
(row, time, width), the means are (row, time, 1) for LayerNorm, one for each token, and (1, 1, width) for BatchNorm. One
mean for each row, (row, 1, 1), as in the course notes, would leak information of later tokens to earlier ones.

Every norm is called as `norm(vectors, valid)`. LayerNorm and RMSNorm use the statistics of one position, so padding has
no influence on them. BatchNorm and PowerNorm use the statistics of one coordinate over all positions of the batch;
padding would distort them, so they include only the positions that `valid` marks. A comparison of these norms shows why
the Transformer uses LayerNorm: sentences of different length and content make the statistics of a batch vary strongly
from step to step.

In training, dropout zeroes elements at random, so that no unit relies on a single other one. The other elements are
multiplied by 1 / (1 - p), so that the expected sum stays the same. Its variants are variational dropout, embedding
dropout and drop path.

A residual connection adds the output of a sublayer, after dropout, to its input. The norm comes after the sum
(post-norm) or before the sublayer (pre-norm).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

EPSILON = 1e-5
"""The number added to the variance, so that a constant vector is not divided by zero."""


def plain_layer_norm(
    vectors: Float[Tensor, "row time width"],
    weight: Float[Tensor, "width"],
    bias: Float[Tensor, "width"],
    eps: float = EPSILON,
) -> Float[Tensor, "row time width"]:
    """Layer normalization as its equation: mean 0 and variance 1 within each vector (Ba et al. 2016, eq. 4)."""
    mean = vectors.mean(-1, keepdim=True)
    variance = (vectors - mean).square().mean(-1, keepdim=True)
    return (vectors - mean) / (variance + eps).sqrt() * weight + bias


class LayerNorm(nn.Module):
    """Normalize each vector to mean 0 and variance 1 over its width, then apply a learned scale and shift.

    It runs torch's fused kernel; `plain_layer_norm` is the definition.
    """

    def __init__(self, width: int, eps: float = EPSILON) -> None:
        super().__init__()
        self.eps = eps
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(
        self, vectors: Float[Tensor, "row time width"], valid: Bool[Tensor, "row time"]
    ) -> Float[Tensor, "row time width"]:
        """Normalize each position by itself; `valid` is not used."""
        return functional.layer_norm(vectors, self.weight.shape, self.weight, self.bias, self.eps)


def plain_rms_norm(
    vectors: Float[Tensor, "row time width"], weight: Float[Tensor, "width"], eps: float = EPSILON
) -> Float[Tensor, "row time width"]:
    """Root-mean-square normalization as its equation (Zhang & Sennrich 2019, eq. 4): no mean is subtracted."""
    return vectors / (vectors.square().mean(-1, keepdim=True) + eps).sqrt() * weight


class RMSNorm(nn.Module):
    """LayerNorm without the mean and without the shift: only the length of each vector is normalized.

    It runs torch's fused kernel; `plain_rms_norm` is the definition.
    """

    def __init__(self, width: int, eps: float = EPSILON) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(
        self, vectors: Float[Tensor, "row time width"], valid: Bool[Tensor, "row time"]
    ) -> Float[Tensor, "row time width"]:
        """Normalize each position by itself; `valid` is not used."""
        return functional.rms_norm(vectors, self.weight.shape, self.weight, self.eps)


def masked_batch_mean(
    values: Float[Tensor, "row time width"], valid: Bool[Tensor, "row time"]
) -> Float[Tensor, "width"]:
    """The mean of each coordinate over all valid positions of the batch; 0 if there are none."""
    # `masked_fill` and not a product with 0: a NaN in the padding times 0 is still NaN.
    return values.masked_fill(~valid[..., None], 0).sum((0, 1)) / valid.sum().clamp(min=1)


class MaskedBatchNorm(nn.Module):
    """Normalize each coordinate to mean 0 and variance 1 over the valid positions of a batch (Ioffe & Szegedy 2015).

    Training uses the statistics of the current batch. Evaluation uses running averages of them (momentum 0.1), so that
    the output for one sentence does not depend on the other sentences of its batch.
    """

    running_mean: Float[Tensor, "width"]
    running_var: Float[Tensor, "width"]

    def __init__(self, width: int, eps: float = EPSILON, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))

    def forward(
        self, vectors: Float[Tensor, "row time width"], valid: Bool[Tensor, "row time"]
    ) -> Float[Tensor, "row time width"]:
        """Normalize each coordinate over the batch; at padded positions the output is the bias."""
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
        # The unbiased variance of n positions divides by n - 1; an empty batch changes no running statistic.
        unbiased = variance * count / (count - 1).clamp(min=1)
        momentum = self.momentum * (count > 0)
        self.running_mean += momentum * (mean - self.running_mean)
        self.running_var += momentum * (unbiased - self.running_var)


class _PowerNormFunction(torch.autograd.Function):
    """Division by a given quadratic mean, with the backward pass of Shen et al. (2020).

    Each of the two passes uses a statistic of the batch or a running average of it. With the statistics of the batch
    this is PN-V, and the gradient is exact; with running averages it is PN, and the gradient is approximate.
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
    def backward(ctx: Any, grad_output: Float[Tensor, "row time width"]) -> tuple[Tensor | None, ...]:
        normal, valid, root, momentum, warming_up = ctx.saved_tensors
        batch_mean, running_grad = masked_batch_mean(grad_output * normal, valid), ctx.running_grad
        mean = torch.where(warming_up, batch_mean, running_grad)  # Lambda of this batch, or nu of the past ones
        grad_input = (grad_output - mean * normal) / root
        # nu <- nu (1 - (1 - alpha) Gamma) + (1 - alpha) Lambda, with Gamma the mean square of `normal`
        running_grad += momentum * (batch_mean - running_grad * masked_batch_mean(normal.square(), valid))
        return grad_input, None, None, None, None, None


class PowerNorm(nn.Module):
    """BatchNorm for text: no mean is subtracted, and the divisor is a running quadratic mean (Shen et al. 2020).

    This is the paper's PN. In training, the vectors of step t are divided by psi(t-1), the root of a running average of
    the mean squares of batches. The backward pass replaces the gradient through that statistic by a running average
    nu(t-1) of past gradients. The first `warm_up` training steps are the paper's PN-V (the quadratic mean of the batch,
    exact gradient), until both averages are stable. Evaluation divides by psi. The authors' program scales each vector
    before the norm (their "layer scale"); this is left out. Both averages are updated once for each training pass, the
    second one in the backward pass, so that recomputing a forward pass in training would count a batch twice.
    """

    running_square: Float[Tensor, "width"]
    running_grad: Float[Tensor, "width"]
    steps: Int[Tensor, ""]

    def __init__(self, width: int, eps: float = EPSILON, momentum: float = 0.1, warm_up: int = 1000) -> None:
        super().__init__()
        self.eps, self.momentum, self.warm_up = eps, momentum, warm_up  # momentum is 1 - alpha
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("running_square", torch.ones(width))
        self.register_buffer("running_grad", torch.zeros(width))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(
        self, vectors: Float[Tensor, "row time width"], valid: Bool[Tensor, "row time"]
    ) -> Float[Tensor, "row time width"]:
        """Divide each coordinate by a quadratic mean; at padded positions the output is the bias."""
        wide = _at_least_float32(vectors).masked_fill(~valid[..., None], 0)
        normal = self._normalize_in_training(wide, valid) if self.training else wide / self._root(self.running_square)
        return (normal * self.weight + self.bias).to(vectors.dtype)

    def _normalize_in_training(
        self, vectors: Float[Tensor, "row time width"], valid: Bool[Tensor, "row time"]
    ) -> Float[Tensor, "row time width"]:
        square = masked_batch_mean(vectors.detach().square(), valid)
        warming_up = self.steps < self.warm_up
        root = self._root(torch.where(warming_up, square, self.running_square))
        momentum = self.momentum * valid.any().to(square.dtype)  # an empty batch changes no running statistic
        self.running_square += momentum * (square - self.running_square)
        self.steps += 1
        return _PowerNormFunction.apply(vectors, valid, root, self.running_grad, momentum, warming_up)

    def _root(self, square: Float[Tensor, "width"]) -> Float[Tensor, "width"]:
        return (square + self.eps).sqrt()


def _at_least_float32(vectors: Float[Tensor, "row time width"]) -> Float[Tensor, "row time width"]:
    """Cast 16-bit vectors to float32, because sums over a whole batch would lose too much precision."""
    return vectors.to(torch.promote_types(vectors.dtype, torch.float32))


NORMS: dict[str, Callable[[int, float], nn.Module]] = {
    "layer": LayerNorm,
    "rms": RMSNorm,
    "batch": MaskedBatchNorm,
    "power": PowerNorm,
}


Vectors = Float[Tensor, "row time width"]


class Dropout(nn.Dropout):
    """y = m ⊙ x / (1 - p), where each element of the mask m is 0 with probability p, else 1.

    Srivastava et al. 2014, section 4; there the weights are multiplied by 1 - p in evaluation instead.
    """

    def forward(self, inputs: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """In training, zero each element with probability p."""
        if not self.training or self.p == 0:
            return inputs
        mask = torch.rand(inputs.shape, device=inputs.device) >= self.p
        return inputs * mask / (1 - self.p)


class VariationalDropout(Dropout):
    """Dropout with the same mask at all time steps of a row: y_t = m ⊙ x_t, with one mask m for each row.

    Gal & Ghahramani 2016, section 4.1 ("variational"); Merity et al. 2018, section 4.2 ("locked"). With a new mask at
    every time step, a recurrent layer above would learn to average over time instead.
    """

    def forward(self, inputs: Float[Tensor, "row time width"]) -> Float[Tensor, "row time width"]:
        """In training, zero each feature of a row with probability p, at all time steps of the row."""
        if not self.training or self.p == 0:
            return inputs
        return inputs * super().forward(torch.ones_like(inputs[:, :1]))


class EmbeddingDropout(nn.Module):
    """Dropout of whole tokens of the vocabulary: the embedding of a dropped token is zero wherever it occurs.

    Gal & Ghahramani 2016, section 4.2; Merity et al. 2018, section 4.3. It is dropout on the rows of the embedding
    matrix, drawn once a step; embeddings of other tokens are multiplied by 1 / (1 - p). A tied head is not affected.
    """

    def __init__(self, p: float):
        super().__init__()
        self.dropout = Dropout(p)

    def forward(
        self, vectors: Float[Tensor, "row time width"], tokens: Int[Tensor, "row time"], vocab_size: int
    ) -> Float[Tensor, "row time width"]:
        """In training, zero the embeddings of the tokens that are dropped from a vocabulary of `vocab_size`."""
        if not self.training or self.dropout.p == 0:
            return vectors
        return vectors * functional.embedding(tokens, self.dropout(vectors.new_ones(vocab_size, 1)))


class DropPath(Dropout):
    """Drop path: the output of a sublayer is zeroed for whole rows, so that they skip the sublayer.

    Stochastic depth (Huang et al. 2016, eq. 2). The paper makes one random decision for a batch and scales in
    evaluation. Here the decision is made for each row, and rows that are kept are scaled in training, as in all
    dropout. Rows of different length that are unpadded to one line (`acceleration/attention.py`) share one decision.
    """

    def forward(self, inputs: Float[Tensor, "row time width"]) -> Float[Tensor, "row time width"]:
        """In training, zero each row with probability p."""
        if not self.training or self.p == 0:
            return inputs
        return inputs * super().forward(inputs.new_ones(len(inputs), 1, 1))


class PostNorm(nn.Module):
    """norm(x + f(x)), as in Vaswani et al. 2017: the residual stream is normalized after every sublayer.

    In training, `dropout` zeroes elements of f(x), and `drop_path` zeroes f(x) for whole rows.
    """

    def __init__(self, norm: nn.Module, dropout: float, drop_path: float = 0.0):
        super().__init__()
        self.norm = norm
        self.dropout, self.drop_path = Dropout(dropout), DropPath(drop_path) if drop_path else nn.Identity()

    def forward(
        self, vectors: Vectors, valid: Bool[Tensor, "row time"], sublayer: Callable[[Tensor], Tensor]
    ) -> Vectors:
        """Apply one sublayer (attention or feed-forward), add its output, and normalize the sum."""
        return self.norm(vectors + self.drop_path(self.dropout(sublayer(vectors))), valid)

    @staticmethod
    def final_norm(norm: nn.Module) -> nn.Module | None:
        """A stack of post-norm blocks needs no norm at the end: its output is normalized."""
        return None


class PreNorm(PostNorm):
    """x + f(norm(x)) (Xiong et al. 2020): the residual stream itself has no norm, so deep stacks train easily."""

    def forward(
        self, vectors: Vectors, valid: Bool[Tensor, "row time"], sublayer: Callable[[Tensor], Tensor]
    ) -> Vectors:
        """Apply one sublayer to the normalized stream, and add its output to the stream."""
        return vectors + self.drop_path(self.dropout(sublayer(self.norm(vectors, valid))))

    @staticmethod
    def final_norm(norm: nn.Module) -> nn.Module | None:
        """The residual stream has no norm of its own, so a stack of pre-norm blocks ends with one."""
        return norm


NORM_ORDERS = {"post": PostNorm, "pre": PreNorm}
