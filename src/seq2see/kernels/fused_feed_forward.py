"""f(x W₁ + b₁) W₂ + b₂ for a curve f, with the way back as few kernels.

A feed-forward part widens its vectors, so what lies between its two products is the largest thing in a block: every
walk over it costs as much as a small product, and to keep it for the way back is most of what a block keeps. So what
stood before the curve is kept and what stood behind it is not: the walk that finds the curve's slope and the bias's
computes it once more. max(0, ·) is computed by the product itself, and its slope is known from the result, so that
there the result is what is kept.

The plain twins are the classes of layers/feed_forward.py; tests compare output and gradients. Only a GPU can run this
file: `triton` comes with torch's builds for one.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from seq2see.kernels.async_weight_grad import grad_sink_of
from seq2see.kernels.row_sums import COLUMNS, slice_layout, sum_parts

SLICE = 64
"""Rows that one program walks over, unless that would make too many programs."""
RELU, GELU, GELU_TANH = 0, 1, 2
ACTIVATION_CODES = {"relu": RELU, "gelu": GELU, "gelu-tanh": GELU_TANH}


@triton.jit
def _activation(z, ACTIVATION: tl.constexpr):
    """f(z) and f'(z); of max(0, z) they are known from max(0, z) itself."""
    if ACTIVATION == 0:
        value, derivative = z, tl.where(z > 0, 1.0, 0.0)
    elif ACTIVATION == 1:  # z Φ(z): Φ(z) + z φ(z)
        below = 0.5 + 0.5 * tl.erf(z * 0.7071067811865476)
        value, derivative = z * below, below + z * 0.3989422804014327 * tl.exp(-0.5 * z * z)
    else:  # z σ(2u), u = √(2/π) (z + 0.044715 z³)
        square = z * z
        gate = tl.sigmoid(1.5957691216057308 * z * (1 + 0.044715 * square))
        value = z * gate
        derivative = gate + value * (1 - gate) * 1.5957691216057308 * (1 + 0.134145 * square)
    return value, derivative


@triton.jit
def _activation_backward(
    by_product, grad_bias, recomputed, grad_output, saved, count, width,
    SLICES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, ACTIVATION: tl.constexpr,
):  # fmt: skip
    """The slope by the product, its sum over one slice of the rows, and the curve once more unless that was kept."""
    column, slice_ = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.program_id(1)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(slice_ * ROWS, count, SLICES * ROWS):
        rows = (start + tl.arange(0, ROWS)).to(tl.int64)
        inside, at = (rows < count)[:, None] & (column < width)[None, :], rows[:, None] * width + column[None, :]
        value, derivative = _activation(tl.load(saved + at, inside, 0.0).to(tl.float32), ACTIVATION)
        found = tl.load(grad_output + at, inside, 0.0).to(tl.float32) * derivative
        tl.store(by_product + at, found.to(by_product.dtype.element_ty), inside)
        if ACTIVATION > 0:
            tl.store(recomputed + at, value.to(recomputed.dtype.element_ty), inside)
        total += found
    tl.store(grad_bias + slice_ * width + column, tl.sum(total, 0), column < width)


# Operators, which torch.compile leaves as they are (see short_attention.py).
LINEAR_RELU, ACTIVATION_BACKWARD = "seq2see::positive_product", "seq2see::curve_slopes"
torch.library.define(LINEAR_RELU, "(Tensor x, Tensor weight, Tensor bias) -> Tensor", tags=torch.Tag.pt2_compliant_tag)
torch.library.define(
    ACTIVATION_BACKWARD,
    "(Tensor slope, Tensor kept, int curve) -> (Tensor, Tensor, Tensor)",
    tags=torch.Tag.pt2_compliant_tag,
)


@torch.library.impl(LINEAR_RELU, "default")
def _linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch._addmm_activation(bias, x, weight.mT)  # the product's own kernel adds the bias and cuts off at 0


@torch.library.impl(ACTIVATION_BACKWARD, "default")
def _run_activation_backward(grad_output: Tensor, saved: Tensor, activation: int) -> tuple[Tensor, Tensor, Tensor]:
    count, width = saved.shape
    slices, shape = slice_layout(count, SLICE)
    found = (
        torch.empty_like(saved),
        saved.new_empty(slices, width, dtype=torch.float32),
        _empty_recomputed(saved, activation),
    )
    _activation_backward[(triton.cdiv(width, COLUMNS), slices)](
        *found, grad_output.contiguous(), saved, count, width, ACTIVATION=activation, **shape
    )  # fmt: skip
    return found


def _empty_recomputed(saved: Tensor, activation: int) -> Tensor:
    """Room for the curve once more; for none if it was kept."""
    return saved.new_empty(saved.shape if activation != RELU else (0, saved.size(1)))


@torch.library.register_fake(LINEAR_RELU)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return x.new_empty(x.size(0), weight.size(0))


@torch.library.register_fake(ACTIVATION_BACKWARD)
def _(grad_output: Tensor, saved: Tensor, activation: int) -> tuple[Tensor, Tensor, Tensor]:
    slices, _ = slice_layout(len(saved), SLICE)
    parts = saved.new_empty(slices, saved.size(1), dtype=torch.float32)
    return torch.empty_like(saved), parts, _empty_recomputed(saved, activation)


class FusedFeedForward(torch.autograd.Function):
    """f(x W₁ᵀ + b₁) W₂ᵀ + b₂, all in one number format."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *given: Any) -> Tensor:
        rows, (up_proj, up_bias, down_proj, down_bias, activation) = x.flatten(0, -2), given
        if activation == "relu":
            saved = found = torch.ops.seq2see.linear_relu(rows, up_proj, up_bias)
        else:
            saved = torch.addmm(up_bias, rows, up_proj.mT)
            found = functional.gelu(saved, approximate="tanh" if activation == "gelu-tanh" else "none")
        ctx.save_for_backward(rows, up_proj, down_proj, saved)
        ctx.grad_sinks = grad_sink_of(up_proj, up_bias), grad_sink_of(down_proj, down_bias)
        ctx.activation, ctx.shape = ACTIVATION_CODES[activation], x.shape
        return torch.addmm(down_bias, found, down_proj.mT).view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        rows, up_proj, down_proj, saved = ctx.saved_tensors
        grad_output = grad_output.flatten(0, -2).contiguous()
        by_product, parts, recomputed = torch.ops.seq2see.activation_backward(
            grad_output @ down_proj, saved, ctx.activation
        )
        found, (up_sink, down_sink) = saved if ctx.activation == RELU else recomputed, ctx.grad_sinks
        grad_input = (by_product @ up_proj).view(ctx.shape)
        down_grads: tuple[Tensor | None, ...] = None, None
        if down_sink is None:
            down_grads = grad_output.mT @ found, grad_output.sum(0)
        else:
            down_sink.grad_preactivation(grad_output, found)
        if up_sink is None:
            return grad_input, by_product.mT @ rows, sum_parts(parts).to(saved.dtype), *down_grads, None
        up_sink.weight_and_bias_grad(by_product, rows, parts, sum_parts)
        return grad_input, None, None, *down_grads, None
