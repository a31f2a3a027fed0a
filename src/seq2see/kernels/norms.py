"""The kernels of residual_norms.py as torch's autograd sees them: what goes forward, and what comes back.

The plain twins are PostNorm and PreNorm with LayerNorm or RMSNorm (layers/residual.py, layers/norms.py); tests compare
output and gradients.
"""

from typing import Any

import torch
from torch import Tensor

import seq2see.kernels.residual_norms  # noqa: F401  (its operators)
from seq2see.kernels.beside import at_hand, taker_of
from seq2see.kernels.sums import add_up


def _by_weights(ctx: Any, parts: Tensor, by_part: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """The slopes by the norm's weight and bias, unless somebody takes them."""
    if ctx.taker is not None:
        ctx.taker.by_norm(parts, by_part)
        return None, None
    by_weight, by_bias = add_up(parts)[:2]
    return by_weight, by_bias if ctx.layer else None


def _go(ctx: Any, stream: Tensor, part: Tensor, weight: Tensor, bias: Tensor | None, *rest: float) -> list[Tensor]:
    """stream + dropout(part), and the norm of it."""
    share, epsilon = rest
    ctx.share, ctx.layer, ctx.taker, beside = share, bias is not None, taker_of(weight, bias), at_hand()
    seed = beside.seed() if beside and share else None
    given = (stream, part, weight, bias, seed, share, epsilon)
    normed, total, statistics, drawn = torch.ops.seq2see.norm_of_sum(*given)
    ctx.save_for_backward(total, statistics, weight, drawn if seed is None else seed)
    return [total, normed]


def _come_back(
    ctx: Any, slope: Tensor, again: Tensor | None = None, passing: Tensor | None = None
) -> tuple[Tensor | None, ...]:
    """The slopes by everything that `_go` was given."""
    given = (slope, again, passing, *ctx.saved_tensors, ctx.share, ctx.layer)
    by_stream, by_part, parts = torch.ops.seq2see.norm_of_sum_slopes(*given)
    return by_stream, by_part, *_by_weights(ctx, parts, by_part), None, None


class NormOfSum(torch.autograd.Function):
    """norm(stream + dropout(part)), given stream, part, the norm's weight and bias, dropout's share, and epsilon."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        return _go(ctx, *given)[1]

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        return _come_back(ctx, slope)


class ForkedNormOfSum(torch.autograd.Function):
    """The same twice, for the two that read it: what comes back along both is added by the kernel."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> tuple[Tensor, Tensor]:
        normed = _go(ctx, *given)[1]
        ctx.set_materialize_grads(False)  # what only one has read comes back as nothing, and not as zeros
        return normed, normed.detach()

    @staticmethod
    def backward(ctx: Any, slope: Tensor, again: Tensor | None) -> tuple[Tensor | None, ...]:
        return _come_back(ctx, slope, again)


class SumThenNorm(torch.autograd.Function):
    """stream + dropout(part), and the norm of it for who reads the stream next."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> tuple[Tensor, Tensor]:
        total, normed = _go(ctx, *given)
        ctx.set_materialize_grads(False)
        ctx.form = normed.dtype
        return total, normed

    @staticmethod
    def backward(ctx: Any, passing: Tensor | None, slope: Tensor | None) -> tuple[Tensor | None, ...]:
        if slope is None:  # somebody else has read the stream
            slope = torch.zeros_like(ctx.saved_tensors[0], dtype=ctx.form)
        return _come_back(ctx, slope, passing=passing)


class NormBeside(torch.autograd.Function):
    """norm(stream), and the stream itself: what comes back along both is added by the kernel."""

    @staticmethod
    def forward(ctx: Any, stream: Tensor, weight: Tensor, bias: Tensor | None, epsilon: float) -> tuple[Tensor, Tensor]:
        normed, statistics = torch.ops.seq2see.norm_beside(stream, weight, bias, epsilon)
        ctx.save_for_backward(stream, statistics, weight)
        ctx.layer, ctx.taker = bias is not None, taker_of(weight, bias)
        return stream.view_as(stream), normed

    @staticmethod
    def backward(ctx: Any, passing: Tensor, slope: Tensor) -> tuple[Tensor | None, ...]:
        given = (slope, passing, *ctx.saved_tensors, ctx.layer)
        by_stream, parts = torch.ops.seq2see.norm_beside_slopes(*given)
        return by_stream, *_by_weights(ctx, parts, None), None
