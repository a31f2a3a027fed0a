"""Products with a matrix for one row or a few, on a GPU: curve(norm(x) Wᵀ + b) + rest, in one kernel.

Where one sentence is decoded, a product is as fast as its matrix is read, and a norm, a curve or a sum after it takes
longer to launch than to compute. So one kernel does all that stands around a product in a Transformer's block. One
program takes a few outputs: it reads their part of the matrix, once, and meanwhile norms the row. That every program
norms the same row again costs nothing: it is a few hundred numbers, and the matrix is still on its way.

The plain twin is `reference_linear` in decoding/small_batch.py, torch's own kernels one after another; a test compares them.
Sums are float32.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

MAX_ROWS = 4
"""With more rows than this, torch's kernels for many rows are as fast."""
MIN_PROGRAMS = 128
"""So many at least, where there are outputs enough: about as many as a large GPU has processors."""
TILE = 8192
"""Numbers of the matrix that a program holds, at most."""


@dataclass(frozen=True)
class LayerNormWeights:
    """A layer norm that is to be taken of a product's input (Ba et al. 2016, eq. 4)."""

    weight: Tensor
    bias: Tensor
    eps: float


@dataclass(frozen=True)
class LinearWeights:
    """A matrix (outputs, inputs), what is added to its product if anything is, and the curve behind it, by its name."""

    weight: Tensor
    bias: Tensor | None = None
    activation: str = "none"


@triton.jit
def _layer_norm(row, scale, shift, into, inputs, eps):
    """(x - mean) / √(variance + ε), scaled and shifted; rounded as if it had been stored."""
    numbers = row.to(tl.float32)
    centerd = tl.where(into < inputs, numbers - tl.sum(numbers, 0) / inputs, 0.0)
    steady = centerd / tl.sqrt(tl.sum(centerd * centerd, 0) / inputs + eps)
    scales = tl.load(scale + into, into < inputs, 0.0).to(tl.float32)
    shifts = tl.load(shift + into, into < inputs, 0.0).to(tl.float32)
    return (steady * scales + shifts).to(row.dtype)


@triton.jit
def _activate(sums, ACTIVATION: tl.constexpr):
    """max(0, x), x Φ(x), or the latter with Φ approximated by a tanh: (1 + tanh y) / 2 is σ(2 y)."""
    if ACTIVATION == "relu":
        sums = tl.maximum(sums, 0.0)
    if ACTIVATION == "gelu":
        sums = sums * 0.5 * (1 + tl.erf(sums * 0.7071067811865476))
    if ACTIVATION == "gelu-tanh":
        sums = sums * tl.sigmoid(1.5957691216057308 * (sums + 0.044715 * sums * sums * sums))
    return sums


@triton.jit
def _fused_linear(
    output, normalized, vectors, weight, bias, residual, scale, shift, eps, inputs, outputs,
    ROWS: tl.constexpr, INPUTS: tl.constexpr, OUTPUTS: tl.constexpr,
    ACTIVATION: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_NORM: tl.constexpr, HAS_RESIDUAL: tl.constexpr,
):  # fmt: skip
    """Some outputs of every row; the first program also writes down the rows after their norm."""
    into, out = tl.arange(0, INPUTS), tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    is_input, is_output = into < inputs, out < outputs
    # Before anything else: all the rest is done while these are on their way.
    weights = tl.load(weight + out[:, None] * inputs + into[None, :], is_output[:, None] & is_input[None, :], 0.0)
    for row in tl.static_range(ROWS):
        numbers = tl.load(vectors + row * inputs + into, is_input, 0.0)
        if HAS_NORM:
            numbers = _layer_norm(numbers, scale, shift, into, inputs, eps)
            if tl.program_id(0) == 0:
                tl.store(normalized + row * inputs + into, numbers, is_input)
        sums = tl.sum(weights.to(tl.float32) * numbers.to(tl.float32)[None, :], 1)
        if HAS_BIAS:
            sums += tl.load(bias + out, is_output, 0.0).to(tl.float32)
        sums = _activate(sums, ACTIVATION)
        if HAS_RESIDUAL:
            sums += tl.load(residual + row * outputs + out, is_output, 0.0).to(tl.float32)
        tl.store(output + row * outputs + out, sums.to(output.dtype.element_ty), is_output)


def _outputs_per_program(inputs: int, outputs: int) -> int:
    """How many outputs a program takes: a power of two, so that there are programs enough and no tile is too large.

    >>> [_outputs_each(512, 512), _outputs_each(512, 1536), _outputs_each(2048, 512), _outputs_each(512, 32_000)]
    [4, 8, 4, 16]
    """
    fair = 1 << (max(outputs // MIN_PROGRAMS, 1).bit_length() - 1)
    return max(1, min(fair, TILE // triton.next_power_of_2(inputs)))


def fused_linear(
    vectors: Tensor, layer: LinearWeights, norm: LayerNormWeights | None = None, residual: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The same as `reference_linear` for a few rows (row, inputs), and the rows after their norm; no gradient."""
    (rows, inputs), outputs = vectors.shape, layer.weight.size(0)
    vectors, output = vectors.contiguous(), vectors.new_empty(rows, outputs)
    normalized = vectors if norm is None else torch.empty_like(vectors)
    each = _outputs_per_program(inputs, outputs)
    nothing = vectors  # an address where none is needed
    _fused_linear[(triton.cdiv(outputs, each),)](
        output, normalized, vectors, layer.weight,
        nothing if layer.bias is None else layer.bias, nothing if residual is None else residual.contiguous(),
        *((nothing, nothing, 0.0) if norm is None else (norm.weight, norm.bias, norm.eps)), inputs, outputs,
        ROWS=rows, INPUTS=triton.next_power_of_2(inputs), OUTPUTS=each, ACTIVATION=layer.activation,
        HAS_BIAS=layer.bias is not None, HAS_NORM=norm is not None, HAS_RESIDUAL=residual is not None, num_warps=4,
    )  # fmt: skip
    return output, normalized
