"""A norm and what stands around it, as one kernel each way: dropout, the sum with the stream, the norm.

Each of these reads and writes all vectors and computes next to nothing, so on a GPU their time is that of the memory:
done in one go, every vector is read once and written once. Which numbers fall out is drawn again on the way back, not
remembered. One draw of 128 bits decides about eight numbers, 16 bits each.

The plain twins are PostNorm and PreNorm with LayerNorm or RMSNorm (layers/residual.py, layers/norms.py); tests compare
output and gradients. Only a GPU can run this file: `triton` comes with torch's builds for one.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE, WARPS = 2048, 2
"""Numbers that a program works on at a time, and threads that do so, in groups of 32."""
TILE_BACKWARD, WARPS_BACKWARD, PROGRAMS = 512, 2, 1024
"""The same on the way back, and programs: each adds up the slopes of the norm's weights over its own vectors."""


@triton.jit
def _drop(numbers, seed, rows, dropout_p, BLOCK: tl.constexpr):
    """Some of these numbers fall out, and the others grow by as much."""
    draws = rows.to(tl.int32)[:, None] * (BLOCK // 8) + tl.arange(0, BLOCK // 8)[None, :]
    a, b, c, d = tl.randint4x(tl.load(seed), draws, n_rounds=7)
    words = tl.join(tl.join(a, b), tl.join(c, d))
    coins = tl.reshape(tl.join(words & 0xFFFF, (words >> 16) & 0xFFFF), numbers.shape)
    return tl.where(coins.to(tl.float32) >= dropout_p * 65536, numbers / (1 - dropout_p), 0.0)


@triton.jit
def _normalize(
    normalized, total, statistics, stream, branch, weight, bias, seed, count, width, dropout_p, eps,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, BRANCH: tl.constexpr, DROPOUT: tl.constexpr, LAYER: tl.constexpr,
):  # fmt: skip
    """norm(stream + dropout(part)), or norm(stream); what the way back needs is the sum, its mean and its scale."""
    rows, column = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    inside, at = (rows < count)[:, None] & (column < width)[None, :], rows[:, None] * width + column[None, :]
    vectors = tl.load(stream + at, inside, 0.0).to(tl.float32)
    if BRANCH:
        found = tl.load(branch + at, inside, 0.0).to(tl.float32)
        if DROPOUT:
            found = _drop(found, seed, rows, dropout_p, BLOCK)
        rounded = (vectors + found).to(total.dtype.element_ty)
        tl.store(total + at, rounded, inside)
        vectors = rounded.to(tl.float32)
    if LAYER:
        middle = tl.sum(vectors, 1) / width
        vectors = tl.where(inside, vectors - middle[:, None], 0.0)
        tl.store(statistics + rows, middle, rows < count)
    scale = 1 / tl.sqrt(tl.sum(vectors * vectors, 1) / width + eps)
    tl.store(statistics + count + rows, scale, rows < count)
    vectors = vectors * scale[:, None] * tl.load(weight + column, column < width, 0.0)[None, :]
    if LAYER:
        vectors += tl.load(bias + column, column < width, 0.0)[None, :]
    tl.store(normalized + at, vectors.to(normalized.dtype.element_ty), inside)


@triton.jit
def _normal(total, statistics, rows, at, inside, count, LAYER: tl.constexpr):
    """Vectors as they came out of the norm, but for its weight and bias, and their scales."""
    normal = tl.load(total + at, inside, 0.0).to(tl.float32)
    scale = tl.load(statistics + count + rows, rows < count, 0.0)[:, None]
    if LAYER:
        normal -= tl.load(statistics + rows, rows < count, 0.0)[:, None]
    return tl.where(inside, normal * scale, 0.0), scale


@triton.jit
def _backward_kernel(
    grad_stream, grad_branch, grad_weights, grad_output, residual_grad, total, statistics, weight, seed, count, width, dropout_p,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr,
    BRANCH: tl.constexpr, DROPOUT: tl.constexpr, LAYER: tl.constexpr, SECOND_GRAD: tl.constexpr, RESIDUAL_GRAD: tl.constexpr,
):  # fmt: skip
    """With n the normalized vector, g the slope by the output and h = g ⊙ weight: (h - mean(h) - n mean(h ⊙ n)) scale.

    `residual_grad` is a second slope by the output (`SECOND_GRAD`), or what comes straight along the stream, past the norm
    (`RESIDUAL_GRAD`). Behind a part, the slope by it is summed over all rows as well.
    """
    column, program = tl.arange(0, BLOCK), tl.program_id(0)
    weights = tl.load(weight + column, column < width, 0.0)[None, :]
    zeros, kinds = tl.zeros((ROWS, BLOCK), tl.float32), 3 if BRANCH else 2
    grad_weight, grad_bias, sums = zeros, zeros, zeros
    for start in range(program * ROWS, count, PROGRAMS * ROWS):
        rows = (start + tl.arange(0, ROWS)).to(tl.int64)
        inside, at = (rows < count)[:, None] & (column < width)[None, :], rows[:, None] * width + column[None, :]
        normal, scale = _normal(total, statistics, rows, at, inside, count, LAYER)
        given = tl.load(grad_output + at, inside, 0.0).to(tl.float32)
        if SECOND_GRAD:
            given += tl.load(residual_grad + at, inside, 0.0).to(tl.float32)
        grad_weight += given * normal
        grad_bias += given
        given *= weights
        found = given - normal * (tl.sum(given * normal, 1) / width)[:, None]
        if LAYER:
            found -= (tl.sum(given, 1) / width)[:, None]
        found *= scale
        if RESIDUAL_GRAD:
            found += tl.load(residual_grad + at, inside, 0.0).to(tl.float32)
        if BRANCH:
            dropped = _drop(found, seed, rows, dropout_p, BLOCK) if DROPOUT else found
            tl.store(grad_branch + at, dropped.to(grad_branch.dtype.element_ty), inside)
            sums += dropped
        tl.store(grad_stream + at, found.to(grad_stream.dtype.element_ty), inside)
    grad_weights += program * kinds * width
    tl.store(grad_weights + column, tl.sum(grad_weight, 0), column < width)
    tl.store(grad_weights + width + column, tl.sum(grad_bias, 0), column < width)
    if BRANCH:
        tl.store(grad_weights + 2 * width + column, tl.sum(sums, 0), column < width)


def _shape(width: int, tile: int, warps: int) -> dict[str, int]:
    """What the kernels are compiled for."""
    block = max(16, triton.next_power_of_2(width))
    return {"BLOCK": block, "ROWS": max(1, tile // block), "num_warps": 2 * warps if block > tile else warps}


def _launch_forward(
    normalized: Tensor, total: Tensor, given: tuple[Any, ...], seed: Tensor, dropout_p: float
) -> Tensor:
    """Fill `normalized`, and `total` if there is a part to add; gives the mean and the scale of every vector."""
    stream, branch, weight, bias, eps = given
    width, shape = stream.size(-1), _shape(stream.size(-1), TILE, WARPS)
    count = stream.numel() // width
    statistics = weight.new_empty(2, count)
    modes = {"PART": branch is not None, "DROPS": dropout_p > 0, "LAYER": bias is not None}
    _normalize[(triton.cdiv(count, shape["ROWS"]),)](
        normalized, total, statistics, stream, stream if branch is None else branch, weight,
        weight if bias is None else bias, seed, count, width, dropout_p, eps, **shape, **modes,
    )  # fmt: skip
    return statistics


def _launch_backward(
    places: tuple[Tensor, ...], given: tuple[Any, ...], dropout_p: float, modes: dict[str, bool]
) -> Tensor:
    """Fill the places for slopes by stream and part.

    Gives what each program has found of the slopes by the norm's weight and bias, and of the sum of that by the part.
    """
    total, statistics, weight = given[2:5]
    width, count = total.size(-1), statistics.size(1)
    parts = weight.new_empty(PROGRAMS, 3 if modes["PART"] else 2, width)
    _backward_kernel[(PROGRAMS,)](
        *places,
        parts,
        *given,
        count,
        width,
        dropout_p,
        PROGRAMS=PROGRAMS,
        DROPOUT=dropout_p > 0,
        **_shape(width, TILE_BACKWARD, WARPS_BACKWARD),
        **modes,
    )
    return parts


# Operators, which torch.compile leaves as they are (see short_attention.py).
ADD_NORM, ADD_NORM_BACKWARD = "seq2see::norm_of_sum", "seq2see::norm_of_sum_slopes"
NORM_WITH_RESIDUAL, NORM_WITH_RESIDUAL_BACKWARD = "seq2see::norm_beside", "seq2see::norm_beside_slopes"
for name, signature in {
    ADD_NORM: "(Tensor stream, Tensor part, Tensor weight, Tensor? bias, Tensor? seed, float share, float epsilon)"
    " -> (Tensor, Tensor, Tensor, Tensor)",
    ADD_NORM_BACKWARD: "(Tensor slope, Tensor? again, Tensor? passing, Tensor total, Tensor statistics, Tensor weight,"
    " Tensor seed, float share, bool layer) -> (Tensor, Tensor, Tensor)",
    NORM_WITH_RESIDUAL: "(Tensor stream, Tensor weight, Tensor? bias, float epsilon) -> (Tensor, Tensor)",
    NORM_WITH_RESIDUAL_BACKWARD: "(Tensor slope, Tensor passing, Tensor stream, Tensor statistics, Tensor weight, bool layer)"
    " -> (Tensor, Tensor)",
}.items():
    torch.library.define(name, signature, tags=torch.Tag.pt2_compliant_tag)


def _draws(seed: Tensor | None, dropout_p: float) -> int:
    """How many numbers are drawn: one if something falls out and nobody has drawn it yet."""
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
    drawn = torch.randint(2**31, (_draws(seed, dropout_p),), device=stream.device)
    given = (stream, branch, weight, bias, eps)
    return (
        normalized,
        total,
        _launch_forward(normalized, total, given, drawn if seed is None else seed, dropout_p),
        drawn,
    )


@torch.library.impl(ADD_NORM_BACKWARD, "default")
def _add_norm_backward(
    grad_output: Tensor, second_grad: Tensor | None, residual_grad: Tensor | None, *given: Any
) -> tuple[Tensor, Tensor, Tensor]:
    *tensors, dropout_p, layer = given
    grad_output, other = grad_output.contiguous(), second_grad if residual_grad is None else residual_grad
    places = torch.empty_like(tensors[0]), torch.empty_like(grad_output)
    modes = {"PART": True, "LAYER": layer, "TWICE": second_grad is not None, "ALONG": residual_grad is not None}
    other = grad_output if other is None else other.contiguous()
    return *places, _launch_backward(places, (grad_output, other, *tensors), dropout_p, modes)


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
    given = (grad_output.contiguous(), residual_grad.contiguous(), stream.contiguous(), statistics, weight, stream)
    modes = {"PART": False, "LAYER": layer, "TWICE": False, "ALONG": True}
    return grad_stream, _launch_backward((grad_stream, grad_stream), given, 0.0, modes)


def _statistics(stream: Tensor) -> Tensor:
    return stream.new_empty((2, stream.numel() // stream.size(-1)), dtype=torch.float32)


@torch.library.register_fake(ADD_NORM)
def _(
    stream: Tensor, branch: Tensor, weight: Tensor, bias: Any, seed: Any, dropout_p: float, _: float
) -> tuple[Tensor, ...]:
    drawn = stream.new_empty(_draws(seed, dropout_p), dtype=torch.int64)
    return branch.new_empty(branch.shape), stream.new_empty(stream.shape), _statistics(stream), drawn


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
