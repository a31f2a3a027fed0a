"""The feed-forward layer f(x W₁ + b₁) W₂ + b₂ with an activation f, and a backward pass of few kernels.

The hidden layer is wider than its input, so its tensors are the largest of a block: every pass over them takes as long
as a small matmul, and they are most of what a block stores for the backward pass. So only the input of the activation
is stored, and not its output: the kernel that computes the gradients of activation and bias computes the output again.
ReLU is an epilogue of the matmul, and its gradient follows from its output; there only the output is stored.

The definitions are the classes of layers/feed_forward.py; tests compare outputs and gradients. This module needs a GPU;
the CUDA builds of torch include `triton`.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from seq2see.acceleration.async_weight_grad import grad_sink_of
from seq2see.acceleration.row_sums import COLUMNS, slice_layout, sum_parts

SLICE = 64
"""The number of rows that one program processes, unless that needs too many programs."""
RELU, GELU, GELU_TANH = 0, 1, 2
ACTIVATION_CODES = {"relu": RELU, "gelu": GELU, "gelu-tanh": GELU_TANH}


@triton.jit
def _activation(z, ACTIVATION: tl.constexpr):
    """f(z) and f'(z); for ReLU, z is already max(0, z)."""
    if ACTIVATION == 0:
        value, derivative = z, tl.where(z > 0, 1.0, 0.0)
    elif ACTIVATION == 1:  # z Φ(z): Φ(z) + z φ(z)
        cdf = 0.5 + 0.5 * tl.erf(z * 0.7071067811865476)
        value, derivative = z * cdf, cdf + z * 0.3989422804014327 * tl.exp(-0.5 * z * z)
    else:  # z σ(2u), u = √(2/π) (z + 0.044715 z³)
        square = z * z
        gate = tl.sigmoid(1.5957691216057308 * z * (1 + 0.044715 * square))
        value = z * gate
        derivative = gate + value * (1 - gate) * 1.5957691216057308 * (1 + 0.134145 * square)
    return value, derivative


@triton.jit
def _activation_backward(
    grad_preactivation, grad_bias, recomputed, grad_output, saved, count, width,
    SLICES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, ACTIVATION: tl.constexpr,
):  # fmt: skip
    """The gradient of the activation's input, its sum over one slice of rows, and the recomputed activation."""
    column, slice_ = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.program_id(1)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(slice_ * ROWS, count, SLICES * ROWS):
        rows = (start + tl.arange(0, ROWS)).to(tl.int64)
        inside, offset = (rows < count)[:, None] & (column < width)[None, :], rows[:, None] * width + column[None, :]
        value, derivative = _activation(tl.load(saved + offset, inside, 0.0).to(tl.float32), ACTIVATION)
        grad = tl.load(grad_output + offset, inside, 0.0).to(tl.float32) * derivative
        tl.store(grad_preactivation + offset, grad.to(grad_preactivation.dtype.element_ty), inside)
        if ACTIVATION > 0:
            tl.store(recomputed + offset, value.to(recomputed.dtype.element_ty), inside)
        total += grad
    tl.store(grad_bias + slice_ * width + column, tl.sum(total, 0), column < width)


# Custom operators, which torch.compile does not trace into (see short_attention.py).
LINEAR_RELU, ACTIVATION_BACKWARD = "seq2see::linear_relu", "seq2see::activation_backward"
torch.library.define(LINEAR_RELU, "(Tensor x, Tensor weight, Tensor bias) -> Tensor", tags=torch.Tag.pt2_compliant_tag)
torch.library.define(
    ACTIVATION_BACKWARD,
    "(Tensor grad_output, Tensor saved, int activation) -> (Tensor, Tensor, Tensor)",
    tags=torch.Tag.pt2_compliant_tag,
)


@torch.library.impl(LINEAR_RELU, "default")
def _linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch._addmm_activation(bias, x, weight.mT)  # one kernel for matmul, bias and ReLU


@torch.library.impl(ACTIVATION_BACKWARD, "default")
def _run_activation_backward(grad_output: Tensor, saved: Tensor, activation: int) -> tuple[Tensor, Tensor, Tensor]:
    count, width = saved.shape
    slices, shape = slice_layout(count, SLICE)
    outputs = (
        torch.empty_like(saved),
        saved.new_empty(slices, width, dtype=torch.float32),
        _empty_recomputed(saved, activation),
    )
    _activation_backward[(triton.cdiv(width, COLUMNS), slices)](
        *outputs, grad_output.contiguous(), saved, count, width, ACTIVATION=activation, **shape
    )  # fmt: skip
    return outputs


def _empty_recomputed(saved: Tensor, activation: int) -> Tensor:
    """An empty tensor for the recomputed activation; without rows for ReLU, whose output is saved."""
    return saved.new_empty(saved.shape if activation != RELU else (0, saved.size(1)))


@torch.library.register_fake(LINEAR_RELU)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return x.new_empty(x.size(0), weight.size(0))


@torch.library.register_fake(ACTIVATION_BACKWARD)
def _(grad_output: Tensor, saved: Tensor, activation: int) -> tuple[Tensor, Tensor, Tensor]:
    slices, _ = slice_layout(len(saved), SLICE)
    parts = saved.new_empty(slices, saved.size(1), dtype=torch.float32)
    return torch.empty_like(saved), parts, _empty_recomputed(saved, activation)


class FeedForwardFunction(torch.autograd.Function):
    """f(x W₁ᵀ + b₁) W₂ᵀ + b₂, where all tensors have the same dtype."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *inputs: Any) -> Tensor:
        rows, (up_proj, up_bias, down_proj, down_bias, activation, async_grads) = x.flatten(0, -2), inputs
        if activation == "relu":
            saved = activated = torch.ops.seq2see.linear_relu(rows, up_proj, up_bias)
        else:
            saved = torch.addmm(up_bias, rows, up_proj.mT)
            activated = functional.gelu(saved, approximate="tanh" if activation == "gelu-tanh" else "none")
        ctx.save_for_backward(rows, up_proj, down_proj, saved)
        ctx.grad_sinks = (
            grad_sink_of(async_grads, up_proj, up_bias),
            grad_sink_of(async_grads, down_proj, down_bias),
        )
        ctx.activation, ctx.shape = ACTIVATION_CODES[activation], x.shape
        return torch.addmm(down_bias, activated, down_proj.mT).view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        rows, up_proj, down_proj, saved = ctx.saved_tensors
        grad_output = grad_output.flatten(0, -2).contiguous()
        grad_preactivation, parts, recomputed = torch.ops.seq2see.activation_backward(
            grad_output @ down_proj, saved, ctx.activation
        )
        activated, (up_sink, down_sink) = saved if ctx.activation == RELU else recomputed, ctx.grad_sinks
        grad_input = (grad_preactivation @ up_proj).view(ctx.shape)
        down_grads: tuple[Tensor | None, ...] = None, None
        if down_sink is None:
            down_grads = grad_output.mT @ activated, grad_output.sum(0)
        else:
            down_sink.linear_grad(grad_output, activated)
        if up_sink is None:
            return grad_input, grad_preactivation.mT @ rows, sum_parts(parts).to(saved.dtype), *down_grads, None, None
        up_sink.weight_and_bias_grad(grad_preactivation, rows, parts, sum_parts)
        return grad_input, None, None, *down_grads, None, None
