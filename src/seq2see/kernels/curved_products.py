"""f(x W + b) for a curve f, with the way back as few kernels: the curve's slope and the bias's are found in one walk.

A feed-forward part widens its vectors, so what lies between its two products is the largest thing in a block, and every
walk over it costs as much as a small product. max(0, ·) is computed by the product itself, and its slope is known from
the result. The plain twins are the classes of layers/feed_forward.py; tests compare output and gradients. Only a GPU
can run this file: `triton` comes with torch's builds for one.
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
def _steepness(numbers, CURVE: tl.constexpr):
    """f'(z); of max(0, z) it is known from max(0, z) itself."""
    if CURVE == 0:
        steepness = tl.where(numbers > 0, 1.0, 0.0)
    elif CURVE == 1:  # z Φ(z): Φ(z) + z φ(z)
        below = 0.5 + 0.5 * tl.erf(numbers * 0.7071067811865476)
        steepness = below + numbers * 0.3989422804014327 * tl.exp(-0.5 * numbers * numbers)
    else:  # z σ(2u), u = √(2/π) (z + 0.044715 z³)
        square = numbers * numbers
        gate = tl.sigmoid(1.5957691216057308 * numbers * (1 + 0.044715 * square))
        steepness = gate + numbers * gate * (1 - gate) * 1.5957691216057308 * (1 + 0.134145 * square)
    return steepness


@triton.jit
def _slopes(
    by_product, by_bias, slope, kept, count, width,
    SLICES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, CURVE: tl.constexpr,
):  # fmt: skip
    """The slope by the product, and its sum over one slice of the rows."""
    column, slice_ = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.program_id(1)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(slice_ * ROWS, count, SLICES * ROWS):
        rows = (start + tl.arange(0, ROWS)).to(tl.int64)
        inside, at = (rows < count)[:, None] & (column < width)[None, :], rows[:, None] * width + column[None, :]
        found = tl.load(slope + at, inside, 0.0).to(tl.float32)
        found *= _steepness(tl.load(kept + at, inside, 0.0).to(tl.float32), CURVE)
        tl.store(by_product + at, found.to(by_product.dtype.element_ty), inside)
        total += found
    tl.store(by_bias + slice_ * width + column, tl.sum(total, 0), column < width)


# Operators, which torch.compile leaves as they are (see short_attention.py).
POSITIVE, SLOPES = "seq2see::positive_product", "seq2see::curve_slopes"
torch.library.define(POSITIVE, "(Tensor x, Tensor weight, Tensor bias) -> Tensor", tags=torch.Tag.pt2_compliant_tag)
torch.library.define(
    SLOPES, "(Tensor slope, Tensor kept, int curve) -> (Tensor, Tensor)", tags=torch.Tag.pt2_compliant_tag
)


@torch.library.impl(POSITIVE, "default")
def _positive(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch._addmm_activation(bias, x, weight.mT)  # the product's own kernel adds the bias and cuts off at 0


@torch.library.impl(SLOPES, "default")
def _curve_slopes(slope: Tensor, kept: Tensor, curve: int) -> tuple[Tensor, Tensor]:
    count, width = kept.shape
    slices, shape = slices_of(count, SLICE)
    by_product, parts = torch.empty_like(kept), kept.new_empty(slices, width, dtype=torch.float32)
    given = (by_product, parts, slope.contiguous(), kept, count, width)
    _slopes[(triton.cdiv(width, COLUMNS), slices)](*given, CURVE=curve, **shape)
    return by_product, parts


@torch.library.register_fake(POSITIVE)
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return x.new_empty(x.size(0), weight.size(0))


@torch.library.register_fake(SLOPES)
def _(slope: Tensor, kept: Tensor, curve: int) -> tuple[Tensor, Tensor]:
    slices, _ = slices_of(len(kept), SLICE)
    return torch.empty_like(kept), kept.new_empty(slices, kept.size(1), dtype=torch.float32)


class CurvedProduct(torch.autograd.Function):
    """f(x Wᵀ + b), all in one number format."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, curve: str) -> Tensor:
        rows = x.flatten(0, -2)
        if curve == "relu":
            kept = found = torch.ops.seq2see.positive_product(rows, weight, bias)
        else:
            kept = torch.addmm(bias, rows, weight.mT)
            found = functional.gelu(kept, approximate="tanh" if curve == "gelu-tanh" else "none")
        ctx.save_for_backward(rows, weight, kept)
        ctx.curve, ctx.shape, ctx.taker = CURVES[curve], x.shape, taker_of(weight, bias)
        return found.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight, kept = ctx.saved_tensors
        by_product, parts = torch.ops.seq2see.curve_slopes(slope.flatten(0, -2), kept, ctx.curve)
        by_x = (by_product @ weight).view(ctx.shape)
        if ctx.taker is None:
            return by_x, by_product.mT @ rows, add_up(parts).to(kept.dtype), None
        ctx.taker.by_matrix(by_product, rows)
        ctx.taker.by_bias(parts, add_up)
        return by_x, None, None, None
