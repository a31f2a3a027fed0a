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

from seq2see.kernels.beside import taker_of
from seq2see.kernels.sums import COLUMNS, add_up, slices_of

SLICE = 64
"""Rows that one program walks over, unless that would make too many programs."""
RELU, GELU, GELU_TANH = 0, 1, 2
CURVES = {"relu": RELU, "gelu": GELU, "gelu-tanh": GELU_TANH}


@triton.jit
def _curve(z, CURVE: tl.constexpr):
    """f(z) and f'(z); of max(0, z) they are known from max(0, z) itself."""
    if CURVE == 0:
        value, steepness = z, tl.where(z > 0, 1.0, 0.0)
    elif CURVE == 1:  # z Φ(z): Φ(z) + z φ(z)
        below = 0.5 + 0.5 * tl.erf(z * 0.7071067811865476)
        value, steepness = z * below, below + z * 0.3989422804014327 * tl.exp(-0.5 * z * z)
    else:  # z σ(2u), u = √(2/π) (z + 0.044715 z³)
        square = z * z
        gate = tl.sigmoid(1.5957691216057308 * z * (1 + 0.044715 * square))
        value = z * gate
        steepness = gate + value * (1 - gate) * 1.5957691216057308 * (1 + 0.134145 * square)
    return value, steepness


@triton.jit
def _slopes(
    by_product, by_bias, again, slope, kept, count, width,
    SLICES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, CURVE: tl.constexpr,
):  # fmt: skip
    """The slope by the product, its sum over one slice of the rows, and the curve once more unless that was kept."""
    column, slice_ = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.program_id(1)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(slice_ * ROWS, count, SLICES * ROWS):
        rows = (start + tl.arange(0, ROWS)).to(tl.int64)
        inside, at = (rows < count)[:, None] & (column < width)[None, :], rows[:, None] * width + column[None, :]
        value, steepness = _curve(tl.load(kept + at, inside, 0.0).to(tl.float32), CURVE)
        found = tl.load(slope + at, inside, 0.0).to(tl.float32) * steepness
        tl.store(by_product + at, found.to(by_product.dtype.element_ty), inside)
        if CURVE > 0:
            tl.store(again + at, value.to(again.dtype.element_ty), inside)
        total += found
    tl.store(by_bias + slice_ * width + column, tl.sum(total, 0), column < width)


# Operators, which torch.compile leaves as they are (see short_attention.py).
POSITIVE, SLOPES = "seq2see::positive_product", "seq2see::curve_slopes"
torch.library.define(POSITIVE, "(Tensor x, Tensor weight, Tensor bias) -> Tensor", tags=torch.Tag.pt2_compliant_tag)
torch.library.define(
    SLOPES, "(Tensor slope, Tensor kept, int curve) -> (Tensor, Tensor, Tensor)", tags=torch.Tag.pt2_compliant_tag
)


@torch.library.impl(POSITIVE, "default")
def _positive(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch._addmm_activation(bias, x, weight.mT)  # the product's own kernel adds the bias and cuts off at 0


@torch.library.impl(SLOPES, "default")
def _curve_slopes(slope: Tensor, kept: Tensor, curve: int) -> tuple[Tensor, Tensor, Tensor]:
    count, width = kept.shape
    slices, shape = slices_of(count, SLICE)
    found = torch.empty_like(kept), kept.new_empty(slices, width, dtype=torch.float32), _again(kept, curve)
    _slopes[(triton.cdiv(width, COLUMNS), slices)](
        *found, slope.contiguous(), kept, count, width, CURVE=curve, **shape
    )  # fmt: skip
    return found


def _again(kept: Tensor, curve: int) -> Tensor:
    """Room for the curve once more; for none if it was kept."""
    return kept.new_empty(kept.shape if curve != RELU else (0, kept.size(1)))


@torch.library.register_fake(POSITIVE)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return x.new_empty(x.size(0), weight.size(0))


@torch.library.register_fake(SLOPES)
def _(slope: Tensor, kept: Tensor, curve: int) -> tuple[Tensor, Tensor, Tensor]:
    slices, _ = slices_of(len(kept), SLICE)
    parts = kept.new_empty(slices, kept.size(1), dtype=torch.float32)
    return torch.empty_like(kept), parts, _again(kept, curve)


class CurvedProducts(torch.autograd.Function):
    """f(x W₁ᵀ + b₁) W₂ᵀ + b₂, all in one number format."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *given: Any) -> Tensor:
        rows, (widen, widen_bias, narrow, narrow_bias, curve) = x.flatten(0, -2), given
        if curve == "relu":
            kept = found = torch.ops.seq2see.positive_product(rows, widen, widen_bias)
        else:
            kept = torch.addmm(widen_bias, rows, widen.mT)
            found = functional.gelu(kept, approximate="tanh" if curve == "gelu-tanh" else "none")
        ctx.save_for_backward(rows, widen, narrow, kept)
        ctx.takers = taker_of(widen, widen_bias), taker_of(narrow, narrow_bias)
        ctx.curve, ctx.shape = CURVES[curve], x.shape
        return torch.addmm(narrow_bias, found, narrow.mT).view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        rows, widen, narrow, kept = ctx.saved_tensors
        slope = slope.flatten(0, -2).contiguous()
        by_product, parts, again = torch.ops.seq2see.curve_slopes(slope @ narrow, kept, ctx.curve)
        found, (of_widen, of_narrow) = kept if ctx.curve == RELU else again, ctx.takers
        by_x = (by_product @ widen).view(ctx.shape)
        by_narrow: tuple[Tensor | None, ...] = None, None
        if of_narrow is None:
            by_narrow = slope.mT @ found, slope.sum(0)
        else:
            of_narrow.by_product(slope, found)
        if of_widen is None:
            return by_x, by_product.mT @ rows, add_up(parts).to(kept.dtype), *by_narrow, None
        of_widen.by_both(by_product, rows, parts, add_up)
        return by_x, None, None, *by_narrow, None
