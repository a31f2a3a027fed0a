"""A linear layer for a few rows on a GPU as one kernel: activation(norm(x) Wᵀ + b) + residual.

When one sentence is decoded, a matmul takes the time to read its weights, and the launch of a norm, an activation or a
sum takes longer than its work. So one kernel computes the matmul and all operations around it in a Transformer block.
Each program computes a few outputs: it loads their rows of the weight matrix, once, and normalizes the input meanwhile.
Every program normalizes the same input again, which costs nothing: these are a few hundred numbers, and the weights are
still being loaded.

The definition is `reference_linear` (acceleration/small_batch.py), which runs torch's kernels one after another;
tests/acceleration/test_fused_linear.py compares them. Sums are float32.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

MAX_ROWS = 4
"""The maximum number of rows: for more, torch's kernels are as fast."""
MIN_PROGRAMS = 128
"""The minimum number of programs, if there are enough outputs: about the number of multiprocessors of a large GPU."""
TILE = 8192
"""The maximum number of weights that a program holds."""


@dataclass(frozen=True)
class LayerNormWeights:
    """A layer norm of the input of a linear layer (Ba et al. 2016, eq. 4)."""

    weight: Tensor
    bias: Tensor
    eps: float


@dataclass(frozen=True)
class LinearWeights:
    """The weight (outputs, inputs) of a linear layer, its bias if there is one, and the activation after it by name."""

    weight: Tensor
    bias: Tensor | None = None
    activation: str = "none"


@triton.jit
def _layer_norm(row, norm_weight, norm_bias, in_index, inputs, eps):
    """(x - mean) / √(variance + ε), times weight, plus bias; rounded as if it had been stored."""
    numbers = row.to(tl.float32)
    centered = tl.where(in_index < inputs, numbers - tl.sum(numbers, 0) / inputs, 0.0)
    normal = centered / tl.sqrt(tl.sum(centered * centered, 0) / inputs + eps)
    weights = tl.load(norm_weight + in_index, in_index < inputs, 0.0).to(tl.float32)
    biases = tl.load(norm_bias + in_index, in_index < inputs, 0.0).to(tl.float32)
    return (normal * weights + biases).to(row.dtype)


@triton.jit
def _activate(x, ACTIVATION: tl.constexpr):
    """max(0, x), x Φ(x), or the latter with Φ approximated by a tanh: (1 + tanh y) / 2 is σ(2 y)."""
    if ACTIVATION == "relu":
        x = tl.maximum(x, 0.0)
    if ACTIVATION == "gelu":
        x = x * 0.5 * (1 + tl.erf(x * 0.7071067811865476))
    if ACTIVATION == "gelu-tanh":
        x = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    return x


@triton.jit
def _fused_linear(
    output, normalized, vectors, weight, bias, residual, norm_weight, norm_bias, eps, inputs, outputs,
    ROWS: tl.constexpr, INPUTS: tl.constexpr, OUTPUTS: tl.constexpr,
    ACTIVATION: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_NORM: tl.constexpr, HAS_RESIDUAL: tl.constexpr,
):  # fmt: skip
    """Some outputs of every row; the first program also stores the normalized rows."""
    in_index, out_index = tl.arange(0, INPUTS), tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    is_input, is_output = in_index < inputs, out_index < outputs
    # The weights are loaded first: the rest is computed while they are being loaded.
    offset = out_index[:, None] * inputs + in_index[None, :]
    weights = tl.load(weight + offset, is_output[:, None] & is_input[None, :], 0.0)
    for row in tl.static_range(ROWS):
        numbers = tl.load(vectors + row * inputs + in_index, is_input, 0.0)
        if HAS_NORM:
            numbers = _layer_norm(numbers, norm_weight, norm_bias, in_index, inputs, eps)
            if tl.program_id(0) == 0:
                tl.store(normalized + row * inputs + in_index, numbers, is_input)
        sums = tl.sum(weights.to(tl.float32) * numbers.to(tl.float32)[None, :], 1)
        if HAS_BIAS:
            sums += tl.load(bias + out_index, is_output, 0.0).to(tl.float32)
        sums = _activate(sums, ACTIVATION)
        if HAS_RESIDUAL:
            sums += tl.load(residual + row * outputs + out_index, is_output, 0.0).to(tl.float32)
        tl.store(output + row * outputs + out_index, sums.to(output.dtype.element_ty), is_output)


def _outputs_per_program(inputs: int, outputs: int) -> int:
    """The number of outputs of a program: a power of two with enough programs, whose tile is not too large.

    >>> [_outputs_per_program(512, outputs) for outputs in (512, 1536, 32_000)] + [_outputs_per_program(2048, 512)]
    [4, 8, 16, 4]
    """
    power = 1 << (max(outputs // MIN_PROGRAMS, 1).bit_length() - 1)
    return max(1, min(power, TILE // triton.next_power_of_2(inputs)))


def fused_linear(
    vectors: Tensor, layer: LinearWeights, norm: LayerNormWeights | None = None, residual: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """`reference_linear` of a few rows (row, inputs), and the normalized rows; without gradients."""
    (rows, inputs), outputs = vectors.shape, layer.weight.size(0)
    vectors, output = vectors.contiguous(), vectors.new_empty(rows, outputs)
    normalized = vectors if norm is None else torch.empty_like(vectors)
    outputs_per_program = _outputs_per_program(inputs, outputs)
    unused = vectors  # a valid address for arguments that are not read
    _fused_linear[(triton.cdiv(outputs, outputs_per_program),)](
        output, normalized, vectors, layer.weight,
        unused if layer.bias is None else layer.bias, unused if residual is None else residual.contiguous(),
        *((unused, unused, 0.0) if norm is None else (norm.weight, norm.bias, norm.eps)), inputs, outputs,
        ROWS=rows, INPUTS=triton.next_power_of_2(inputs), OUTPUTS=outputs_per_program, ACTIVATION=layer.activation,
        HAS_BIAS=layer.bias is not None, HAS_NORM=norm is not None, HAS_RESIDUAL=residual is not None, num_warps=4,
    )  # fmt: skip
    return output, normalized
