"""Dropout, residual sum and norm as one kernel for the forward pass and one for the backward pass.

Each of these operations reads and writes all vectors and computes very little, so on a GPU their time is memory time.
In one kernel, every vector is read once and written once. The dropout mask is drawn again in the backward pass, not
stored. One random number of 128 bits serves eight elements, 16 bits each.

The definitions are PostNorm and PreNorm with LayerNorm or RMSNorm (layers/norms_and_dropout.py); tests compare
outputs and gradients. This module needs a GPU; the CUDA builds of torch include `triton`.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

import seq2see.acceleration.add_norm  # noqa: F401  (its operators)
from seq2see.acceleration.async_weight_grad import AsyncWeightGrads, grad_sink_of
from seq2see.acceleration.row_sums import sum_parts

TILE, WARPS = 2048, 2
"""The number of elements of a tile in the forward pass, and the number of warps of a program."""
TILE_BACKWARD, WARPS_BACKWARD, PROGRAMS = 512, 2, 1024
"""Tile and warps of the backward pass, and its number of programs: each sums the gradients of the norm of its rows."""


@triton.jit
def _dropout(numbers, seed, rows, dropout_p, BLOCK: tl.constexpr):
    """Zero elements with probability `dropout_p`, and divide the others by 1 - `dropout_p`."""
    offsets = rows.to(tl.int32)[:, None] * (BLOCK // 8) + tl.arange(0, BLOCK // 8)[None, :]
    a, b, c, d = tl.randint4x(tl.load(seed), offsets, n_rounds=7)
    words = tl.join(tl.join(a, b), tl.join(c, d))
    random_bits = tl.reshape(tl.join(words & 0xFFFF, (words >> 16) & 0xFFFF), numbers.shape)
    return tl.where(random_bits.to(tl.float32) >= dropout_p * 65536, numbers / (1 - dropout_p), 0.0)


@triton.jit
def _normalize(
    normalized, total, statistics, stream, branch, weight, bias, seed, count, width, dropout_p, eps,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, BRANCH: tl.constexpr, DROPOUT: tl.constexpr, LAYER: tl.constexpr,
):  # fmt: skip
    """norm(stream + dropout(branch)), or norm(stream); the backward pass needs the sum, its mean and its scale."""
    rows, column = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    inside, offset = (rows < count)[:, None] & (column < width)[None, :], rows[:, None] * width + column[None, :]
    vectors = tl.load(stream + offset, inside, 0.0).to(tl.float32)
    if BRANCH:
        branch_vectors = tl.load(branch + offset, inside, 0.0).to(tl.float32)
        if DROPOUT:
            branch_vectors = _dropout(branch_vectors, seed, rows, dropout_p, BLOCK)
        rounded = (vectors + branch_vectors).to(total.dtype.element_ty)
        tl.store(total + offset, rounded, inside)
        vectors = rounded.to(tl.float32)
    if LAYER:
        mean = tl.sum(vectors, 1) / width
        vectors = tl.where(inside, vectors - mean[:, None], 0.0)
        tl.store(statistics + rows, mean, rows < count)
    scale = 1 / tl.sqrt(tl.sum(vectors * vectors, 1) / width + eps)
    tl.store(statistics + count + rows, scale, rows < count)
    vectors = vectors * scale[:, None] * tl.load(weight + column, column < width, 0.0)[None, :]
    if LAYER:
        vectors += tl.load(bias + column, column < width, 0.0)[None, :]
    tl.store(normalized + offset, vectors.to(normalized.dtype.element_ty), inside)


@triton.jit
def _recompute_normal(total, statistics, rows, offset, inside, count, LAYER: tl.constexpr):
    """The normalized vectors before the weight and bias of the norm, and their scales."""
    normal = tl.load(total + offset, inside, 0.0).to(tl.float32)
    scale = tl.load(statistics + count + rows, rows < count, 0.0)[:, None]
    if LAYER:
        normal -= tl.load(statistics + rows, rows < count, 0.0)[:, None]
    return tl.where(inside, normal * scale, 0.0), scale


@triton.jit
def _backward_kernel(
    grad_stream, grad_branch, grad_sums, grad_output, residual_grad, total, statistics, weight, seed,
    count, width, dropout_p, ROWS: tl.constexpr, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr, BRANCH: tl.constexpr,
    DROPOUT: tl.constexpr, LAYER: tl.constexpr, SECOND_GRAD: tl.constexpr, RESIDUAL_GRAD: tl.constexpr,
):  # fmt: skip
    """With n the normalized vector, g = grad_output and h = g ⊙ weight: (h - mean(h) - n mean(h ⊙ n)) scale.

    `residual_grad` is the gradient of a second copy of the output (`SECOND_GRAD`), or the gradient of the residual
    stream, which does not pass the norm (`RESIDUAL_GRAD`). With a branch, its gradient is summed over all rows as well.
    """
    column, program = tl.arange(0, BLOCK), tl.program_id(0)
    weights = tl.load(weight + column, column < width, 0.0)[None, :]
    zeros, sum_count = tl.zeros((ROWS, BLOCK), tl.float32), 3 if BRANCH else 2
    grad_weight, grad_bias, grad_branch_sum = zeros, zeros, zeros
    for start in range(program * ROWS, count, PROGRAMS * ROWS):
        rows = (start + tl.arange(0, ROWS)).to(tl.int64)
        inside, offset = (rows < count)[:, None] & (column < width)[None, :], rows[:, None] * width + column[None, :]
        normal, scale = _recompute_normal(total, statistics, rows, offset, inside, count, LAYER)
        grad = tl.load(grad_output + offset, inside, 0.0).to(tl.float32)
        if SECOND_GRAD:
            grad += tl.load(residual_grad + offset, inside, 0.0).to(tl.float32)
        grad_weight += grad * normal
        grad_bias += grad
        grad *= weights
        grad_total = grad - normal * (tl.sum(grad * normal, 1) / width)[:, None]
        if LAYER:
            grad_total -= (tl.sum(grad, 1) / width)[:, None]
        grad_total *= scale
        if RESIDUAL_GRAD:
            grad_total += tl.load(residual_grad + offset, inside, 0.0).to(tl.float32)
        if BRANCH:
            dropped = _dropout(grad_total, seed, rows, dropout_p, BLOCK) if DROPOUT else grad_total
            tl.store(grad_branch + offset, dropped.to(grad_branch.dtype.element_ty), inside)
            grad_branch_sum += dropped
        tl.store(grad_stream + offset, grad_total.to(grad_stream.dtype.element_ty), inside)
    grad_sums += program * sum_count * width
    tl.store(grad_sums + column, tl.sum(grad_weight, 0), column < width)
    tl.store(grad_sums + width + column, tl.sum(grad_bias, 0), column < width)
    if BRANCH:
        tl.store(grad_sums + 2 * width + column, tl.sum(grad_branch_sum, 0), column < width)


def _shape(width: int, tile: int, warps: int) -> dict[str, int]:
    """The compile-time constants of the kernels."""
    block = max(16, triton.next_power_of_2(width))
    return {"BLOCK": block, "ROWS": max(1, tile // block), "num_warps": 2 * warps if block > tile else warps}


def _launch_forward(
    normalized: Tensor, total: Tensor, inputs: tuple[Any, ...], seed: Tensor, dropout_p: float
) -> Tensor:
    """Fill `normalized`, and `total` if there is a branch; return the mean and the scale of every vector."""
    stream, branch, weight, bias, eps = inputs
    width, shape = stream.size(-1), _shape(stream.size(-1), TILE, WARPS)
    count = stream.numel() // width
    statistics = weight.new_empty(2, count)
    modes = {"BRANCH": branch is not None, "DROPOUT": dropout_p > 0, "LAYER": bias is not None}
    _normalize[(triton.cdiv(count, shape["ROWS"]),)](
        normalized, total, statistics, stream, stream if branch is None else branch, weight,
        weight if bias is None else bias, seed, count, width, dropout_p, eps, **shape, **modes,
    )  # fmt: skip
    return statistics


def _launch_backward(
    grads: tuple[Tensor, ...], inputs: tuple[Any, ...], dropout_p: float, modes: dict[str, bool]
) -> Tensor:
    """Fill `grads`, the gradients of stream and branch.

    Return, for each program, its partial sums: the gradients of the norm's weight and bias, and the sum of the branch's
    gradient over rows.
    """
    total, statistics, weight = inputs[2:5]
    width, count = total.size(-1), statistics.size(1)
    parts = weight.new_empty(PROGRAMS, 3 if modes["BRANCH"] else 2, width)
    _backward_kernel[(PROGRAMS,)](
        *grads,
        parts,
        *inputs,
        count,
        width,
        dropout_p,
        PROGRAMS=PROGRAMS,
        DROPOUT=dropout_p > 0,
        **_shape(width, TILE_BACKWARD, WARPS_BACKWARD),
        **modes,
    )
    return parts


# Custom operators, which torch.compile does not trace into (see short_attention.py).
ADD_NORM, ADD_NORM_BACKWARD = "seq2see::add_norm", "seq2see::add_norm_backward"
NORM_WITH_RESIDUAL, NORM_WITH_RESIDUAL_BACKWARD = "seq2see::norm_with_residual", "seq2see::norm_with_residual_backward"
for name, signature in {
    ADD_NORM: "(Tensor stream, Tensor branch, Tensor weight, Tensor? bias, Tensor? seed, float dropout_p, float eps)"
    " -> (Tensor, Tensor, Tensor, Tensor)",
    ADD_NORM_BACKWARD: "(Tensor grad_output, Tensor? second_grad, Tensor? residual_grad, Tensor total,"
    " Tensor statistics, Tensor weight, Tensor seed, float dropout_p, bool layer) -> (Tensor, Tensor, Tensor)",
    NORM_WITH_RESIDUAL: "(Tensor stream, Tensor weight, Tensor? bias, float eps) -> (Tensor, Tensor)",
    NORM_WITH_RESIDUAL_BACKWARD: "(Tensor grad_output, Tensor residual_grad, Tensor stream, Tensor statistics,"
    " Tensor weight, bool layer) -> (Tensor, Tensor)",
}.items():
    torch.library.define(name, signature, tags=torch.Tag.pt2_compliant_tag)


def _seed_count(seed: Tensor | None, dropout_p: float) -> int:
    """The number of seeds to draw: one if dropout needs a seed and none was passed."""
    return int(seed is None and dropout_p > 0)


@torch.library.impl(ADD_NORM, "default")
def _add_norm(
    stream: Tensor,
    branch: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    seed: Tensor | None,
    dropout_p: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    stream, branch = stream.contiguous(), branch.contiguous()
    normalized, total = torch.empty_like(branch), torch.empty_like(stream)
    drawn_seed = torch.randint(2**31, (_seed_count(seed, dropout_p),), device=stream.device)
    inputs = (stream, branch, weight, bias, eps)
    statistics = _launch_forward(normalized, total, inputs, drawn_seed if seed is None else seed, dropout_p)
    return normalized, total, statistics, drawn_seed


@torch.library.impl(ADD_NORM_BACKWARD, "default")
def _add_norm_backward(
    grad_output: Tensor, second_grad: Tensor | None, residual_grad: Tensor | None, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    *tensors, dropout_p, layer = rest
    grad_output, other_grad = grad_output.contiguous(), second_grad if residual_grad is None else residual_grad
    grads = torch.empty_like(tensors[0]), torch.empty_like(grad_output)
    modes = {
        "BRANCH": True,
        "LAYER": layer,
        "SECOND_GRAD": second_grad is not None,
        "RESIDUAL_GRAD": residual_grad is not None,
    }
    other_grad = grad_output if other_grad is None else other_grad.contiguous()
    return *grads, _launch_backward(grads, (grad_output, other_grad, *tensors), dropout_p, modes)


@torch.library.impl(NORM_WITH_RESIDUAL, "default")
def _norm_with_residual(stream: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
    stream = stream.contiguous()
    normalized = torch.empty_like(stream, dtype=torch.bfloat16)
    return normalized, _launch_forward(normalized, stream, (stream, None, weight, bias, eps), stream, 0.0)


@torch.library.impl(NORM_WITH_RESIDUAL_BACKWARD, "default")
def _norm_with_residual_backward(
    grad_output: Tensor, residual_grad: Tensor, stream: Tensor, statistics: Tensor, weight: Tensor, layer: bool
) -> tuple[Tensor, Tensor]:
    grad_stream = torch.empty_like(stream, memory_format=torch.contiguous_format)
    inputs = (grad_output.contiguous(), residual_grad.contiguous(), stream.contiguous(), statistics, weight, stream)
    modes = {"BRANCH": False, "LAYER": layer, "SECOND_GRAD": False, "RESIDUAL_GRAD": True}
    return grad_stream, _launch_backward((grad_stream, grad_stream), inputs, 0.0, modes)


def _statistics(stream: Tensor) -> Tensor:
    return stream.new_empty((2, stream.numel() // stream.size(-1)), dtype=torch.float32)


@torch.library.register_fake(ADD_NORM)
def _(
    stream: Tensor, branch: Tensor, weight: Tensor, bias: Any, seed: Any, dropout_p: float, _: float
) -> tuple[Tensor, ...]:
    drawn_seed = stream.new_empty(_seed_count(seed, dropout_p), dtype=torch.int64)
    return branch.new_empty(branch.shape), stream.new_empty(stream.shape), _statistics(stream), drawn_seed


@torch.library.register_fake(ADD_NORM_BACKWARD)
def _(
    grad_output: Tensor, second_grad: Any, residual_grad: Any, total: Tensor, _: Tensor, weight: Tensor, *rest: Any
) -> tuple[Tensor, ...]:
    return (
        torch.empty_like(total),
        grad_output.new_empty(grad_output.shape),
        weight.new_empty(PROGRAMS, 3, weight.numel()),
    )


@torch.library.register_fake(NORM_WITH_RESIDUAL)
def _(stream: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> tuple[Tensor, ...]:
    return stream.new_empty(stream.shape, dtype=torch.bfloat16), _statistics(stream)


@torch.library.register_fake(NORM_WITH_RESIDUAL_BACKWARD)
def _(
    grad_output: Tensor, residual_grad: Tensor, stream: Tensor, statistics: Tensor, weight: Tensor, layer: bool
) -> tuple[Tensor, ...]:
    return stream.new_empty(stream.shape), weight.new_empty(PROGRAMS, 2, weight.numel())


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
