"""Autograd functions for the kernels of add_norm_kernels.py: dropout, residual sum and norm.

The definitions are PostNorm and PreNorm with LayerNorm or RMSNorm (layers/norms.py, layers/norms.py); tests compare
outputs and gradients.
"""

from typing import Any

import torch
from torch import Tensor

import seq2see.acceleration.add_norm_kernels  # noqa: F401  (its operators)
from seq2see.acceleration.async_weight_grad import AsyncWeightGrads, grad_sink_of
from seq2see.acceleration.row_sums import sum_parts


def _weight_grads(ctx: Any, parts: Tensor, grad_branch: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of the norm's weight and bias; None if a gradient sink collects them."""
    if ctx.grad_sink is not None:
        ctx.grad_sink.norm_grad(parts, grad_branch)
        return None, None
    grad_weight, grad_bias = sum_parts(parts)[:2]
    return grad_weight, grad_bias if ctx.layer else None


def _forward(ctx: Any, stream: Tensor, branch: Tensor, weight: Tensor, bias: Tensor | None, *rest: Any) -> list[Tensor]:
    """stream + dropout(branch), and the norm of it."""
    dropout_p, eps, async_grads = rest
    ctx.dropout_p, ctx.layer, ctx.grad_sink = dropout_p, bias is not None, grad_sink_of(async_grads, weight, bias)
    seed = async_grads.seed() if async_grads and dropout_p else None
    inputs = (stream, branch, weight, bias, seed, dropout_p, eps)
    normalized, total, statistics, drawn_seed = torch.ops.seq2see.add_norm(*inputs)
    ctx.save_for_backward(total, statistics, weight, drawn_seed if seed is None else seed)
    return [total, normalized]


def _backward(
    ctx: Any, grad_output: Tensor, second_grad: Tensor | None = None, residual_grad: Tensor | None = None
) -> tuple[Tensor | None, ...]:
    """The gradients of all inputs of `_forward`."""
    inputs = (grad_output, second_grad, residual_grad, *ctx.saved_tensors, ctx.dropout_p, ctx.layer)
    grad_stream, grad_branch, parts = torch.ops.seq2see.add_norm_backward(*inputs)
    return grad_stream, grad_branch, *_weight_grads(ctx, parts, grad_branch), None, None, None


class AddNorm(torch.autograd.Function):
    """norm(stream + dropout(branch)).

    The inputs are stream, branch, the norm's weight and bias, dropout p, epsilon, and an `AsyncWeightGrads` or None.
    """

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        return _forward(ctx, *inputs)[1]

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        return _backward(ctx, grad_output)


class AddNormDuplicate(torch.autograd.Function):
    """`AddNorm` with two copies of the output, for sublayer and residual; the kernel adds their gradients."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        normalized = _forward(ctx, *inputs)[1]
        ctx.set_materialize_grads(False)  # the gradient of an unused copy is None, not zeros
        return normalized, normalized.detach()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor, second_grad: Tensor | None) -> tuple[Tensor | None, ...]:
        return _backward(ctx, grad_output, second_grad)


class AddThenNorm(torch.autograd.Function):
    """stream + dropout(branch), and its norm, which is the input of the next sublayer."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        total, normalized = _forward(ctx, *inputs)
        ctx.set_materialize_grads(False)
        ctx.dtype = normalized.dtype
        return total, normalized

    @staticmethod
    def backward(ctx: Any, residual_grad: Tensor | None, grad_output: Tensor | None) -> tuple[Tensor | None, ...]:
        if grad_output is None:  # the precomputed norm was not used
            grad_output = torch.zeros_like(ctx.saved_tensors[0], dtype=ctx.dtype)
        return _backward(ctx, grad_output, residual_grad=residual_grad)


class NormWithResidual(torch.autograd.Function):
    """norm(stream), and the stream itself; the kernel adds the gradients of both."""

    @staticmethod
    def forward(
        ctx: Any,
        stream: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        eps: float,
        async_grads: AsyncWeightGrads | None,
    ) -> tuple[Tensor, Tensor]:
        normalized, statistics = torch.ops.seq2see.norm_with_residual(stream, weight, bias, eps)
        ctx.save_for_backward(stream, statistics, weight)
        ctx.layer, ctx.grad_sink = bias is not None, grad_sink_of(async_grads, weight, bias)
        return stream.view_as(stream), normalized

    @staticmethod
    def backward(ctx: Any, residual_grad: Tensor, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        inputs = (grad_output, residual_grad, *ctx.saved_tensors, ctx.layer)
        grad_stream, parts = torch.ops.seq2see.norm_with_residual_backward(*inputs)
        return grad_stream, *_weight_grads(ctx, parts, None), None, None
