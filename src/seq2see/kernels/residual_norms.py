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
TILE_BACK, WARPS_BACK, PROGRAMS = 512, 2, 1024
"""The same on the way back, and programs: each adds up the slopes of the norm's weights over its own vectors."""


@triton.jit
def _drop(numbers, seed, rows, share, BLOCK: tl.constexpr):
    """Some of these numbers fall out, and the others grow by as much."""
    draws = rows.to(tl.int32)[:, None] * (BLOCK // 8) + tl.arange(0, BLOCK // 8)[None, :]
    a, b, c, d = tl.randint4x(tl.load(seed), draws, n_rounds=7)
    words = tl.join(tl.join(a, b), tl.join(c, d))
    coins = tl.reshape(tl.join(words & 0xFFFF, (words >> 16) & 0xFFFF), numbers.shape)
    return tl.where(coins.to(tl.float32) >= share * 65536, numbers / (1 - share), 0.0)


@triton.jit
def _normalise(
    normed, total, statistics, stream, part, weight, bias, seed, count, width, share, epsilon,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, PART: tl.constexpr, DROPS: tl.constexpr, LAYER: tl.constexpr,
):  # fmt: skip
    """norm(stream + dropout(part)), or norm(stream); what the way back needs is the sum, its mean and its scale."""
    rows, column = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    inside, at = (rows < count)[:, None] & (column < width)[None, :], rows[:, None] * width + column[None, :]
    vectors = tl.load(stream + at, inside, 0.0).to(tl.float32)
    if PART:
        found = tl.load(part + at, inside, 0.0).to(tl.float32)
        if DROPS:
            found = _drop(found, seed, rows, share, BLOCK)
        rounded = (vectors + found).to(total.dtype.element_ty)
        tl.store(total + at, rounded, inside)
        vectors = rounded.to(tl.float32)
    if LAYER:
        middle = tl.sum(vectors, 1) / width
        vectors = tl.where(inside, vectors - middle[:, None], 0.0)
        tl.store(statistics + rows, middle, rows < count)
    scale = 1 / tl.sqrt(tl.sum(vectors * vectors, 1) / width + epsilon)
    tl.store(statistics + count + rows, scale, rows < count)
    vectors = vectors * scale[:, None] * tl.load(weight + column, column < width, 0.0)[None, :]
    if LAYER:
        vectors += tl.load(bias + column, column < width, 0.0)[None, :]
    tl.store(normed + at, vectors.to(normed.dtype.element_ty), inside)


@triton.jit
def _normal(total, statistics, rows, at, inside, count, LAYER: tl.constexpr):
    """Vectors as they came out of the norm, but for its weight and bias, and their scales."""
    normal = tl.load(total + at, inside, 0.0).to(tl.float32)
    scale = tl.load(statistics + count + rows, rows < count, 0.0)[:, None]
    if LAYER:
        normal -= tl.load(statistics + rows, rows < count, 0.0)[:, None]
    return tl.where(inside, normal * scale, 0.0), scale


@triton.jit
def _slopes(
    by_stream, by_part, by_weights, slope, passing, total, statistics, weight, seed, count, width, share,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr,
    PART: tl.constexpr, DROPS: tl.constexpr, LAYER: tl.constexpr, TWICE: tl.constexpr, ALONG: tl.constexpr,
):  # fmt: skip
    """With n the normalised vector, g the slope by the output and h = g ⊙ weight: (h - mean(h) - n mean(h ⊙ n)) scale.

    `passing` is a second slope by the output (`TWICE`), or what comes straight along the stream, past the norm
    (`ALONG`). Behind a part, the slope by it is summed over all rows as well.
    """
    column, program = tl.arange(0, BLOCK), tl.program_id(0)
    weights = tl.load(weight + column, column < width, 0.0)[None, :]
    zeros, kinds = tl.zeros((ROWS, BLOCK), tl.float32), 3 if PART else 2
    by_weight, by_bias, sums = zeros, zeros, zeros
    for start in range(program * ROWS, count, PROGRAMS * ROWS):
        rows = (start + tl.arange(0, ROWS)).to(tl.int64)
        inside, at = (rows < count)[:, None] & (column < width)[None, :], rows[:, None] * width + column[None, :]
        normal, scale = _normal(total, statistics, rows, at, inside, count, LAYER)
        given = tl.load(slope + at, inside, 0.0).to(tl.float32)
        if TWICE:
            given += tl.load(passing + at, inside, 0.0).to(tl.float32)
        by_weight += given * normal
        by_bias += given
        given *= weights
        found = given - normal * (tl.sum(given * normal, 1) / width)[:, None]
        if LAYER:
            found -= (tl.sum(given, 1) / width)[:, None]
        found *= scale
        if ALONG:
            found += tl.load(passing + at, inside, 0.0).to(tl.float32)
        if PART:
            dropped = _drop(found, seed, rows, share, BLOCK) if DROPS else found
            tl.store(by_part + at, dropped.to(by_part.dtype.element_ty), inside)
            sums += dropped
        tl.store(by_stream + at, found.to(by_stream.dtype.element_ty), inside)
    by_weights += program * kinds * width
    tl.store(by_weights + column, tl.sum(by_weight, 0), column < width)
    tl.store(by_weights + width + column, tl.sum(by_bias, 0), column < width)
    if PART:
        tl.store(by_weights + 2 * width + column, tl.sum(sums, 0), column < width)


def _shape(width: int, tile: int, warps: int) -> dict[str, int]:
    """What the kernels are compiled for."""
    block = max(16, triton.next_power_of_2(width))
    return {"BLOCK": block, "ROWS": max(1, tile // block), "num_warps": 2 * warps if block > tile else warps}


def _go(normed: Tensor, total: Tensor, given: tuple[Any, ...], seed: Tensor, share: float) -> Tensor:
    """Fill `normed`, and `total` if there is a part to add; gives the mean and the scale of every vector."""
    stream, part, weight, bias, epsilon = given
    width, shape = stream.size(-1), _shape(stream.size(-1), TILE, WARPS)
    count = stream.numel() // width
    statistics = weight.new_empty(2, count)
    modes = {"PART": part is not None, "DROPS": share > 0, "LAYER": bias is not None}
    _normalise[(triton.cdiv(count, shape["ROWS"]),)](
        normed, total, statistics, stream, stream if part is None else part, weight,
        weight if bias is None else bias, seed, count, width, share, epsilon, **shape, **modes,
    )  # fmt: skip
    return statistics


def _come_back(places: tuple[Tensor, ...], given: tuple[Any, ...], share: float, modes: dict[str, bool]) -> Tensor:
    """Fill the places for slopes by stream and part.

    Gives what each program has found of the slopes by the norm's weight and bias, and of the sum of that by the part.
    """
    total, statistics, weight = given[2:5]
    width, count = total.size(-1), statistics.size(1)
    parts = weight.new_empty(PROGRAMS, 3 if modes["PART"] else 2, width)
    _slopes[(PROGRAMS,)](
        *places,
        parts,
        *given,
        count,
        width,
        share,
        PROGRAMS=PROGRAMS,
        DROPS=share > 0,
        **_shape(width, TILE_BACK, WARPS_BACK),
        **modes,
    )
    return parts


# Operators, which torch.compile leaves as they are (see short_attention.py).
SUM, SUM_SLOPES = "seq2see::norm_of_sum", "seq2see::norm_of_sum_slopes"
BESIDE, BESIDE_SLOPES = "seq2see::norm_beside", "seq2see::norm_beside_slopes"
for name, signature in {
    SUM: "(Tensor stream, Tensor part, Tensor weight, Tensor? bias, Tensor? seed, float share, float epsilon)"
    " -> (Tensor, Tensor, Tensor, Tensor)",
    SUM_SLOPES: "(Tensor slope, Tensor? again, Tensor? passing, Tensor total, Tensor statistics, Tensor weight,"
    " Tensor seed, float share, bool layer) -> (Tensor, Tensor, Tensor)",
    BESIDE: "(Tensor stream, Tensor weight, Tensor? bias, float epsilon) -> (Tensor, Tensor)",
    BESIDE_SLOPES: "(Tensor slope, Tensor passing, Tensor stream, Tensor statistics, Tensor weight, bool layer)"
    " -> (Tensor, Tensor)",
}.items():
    torch.library.define(name, signature, tags=torch.Tag.pt2_compliant_tag)


def _draws(seed: Tensor | None, share: float) -> int:
    """How many numbers are drawn: one if something falls out and nobody has drawn it yet."""
    return int(seed is None and share > 0)


@torch.library.impl(SUM, "default")
def _sum(
    stream: Tensor, part: Tensor, weight: Tensor, bias: Tensor | None, seed: Tensor | None, share: float, epsilon: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    stream, part = stream.contiguous(), part.contiguous()
    normed, total = torch.empty_like(part), torch.empty_like(stream)
    drawn = torch.randint(2**31, (_draws(seed, share),), device=stream.device)
    given = (stream, part, weight, bias, epsilon)
    return normed, total, _go(normed, total, given, drawn if seed is None else seed, share), drawn


@torch.library.impl(SUM_SLOPES, "default")
def _sum_slopes(
    slope: Tensor, again: Tensor | None, passing: Tensor | None, *given: Any
) -> tuple[Tensor, Tensor, Tensor]:
    *tensors, share, layer = given
    slope, other = slope.contiguous(), again if passing is None else passing
    places = torch.empty_like(tensors[0]), torch.empty_like(slope)
    modes = {"PART": True, "LAYER": layer, "TWICE": again is not None, "ALONG": passing is not None}
    other = slope if other is None else other.contiguous()
    return *places, _come_back(places, (slope, other, *tensors), share, modes)


@torch.library.impl(BESIDE, "default")
def _beside(stream: Tensor, weight: Tensor, bias: Tensor | None, epsilon: float) -> tuple[Tensor, Tensor]:
    stream = stream.contiguous()
    normed = torch.empty_like(stream, dtype=torch.bfloat16)
    return normed, _go(normed, stream, (stream, None, weight, bias, epsilon), stream, 0.0)


@torch.library.impl(BESIDE_SLOPES, "default")
def _beside_slopes(
    slope: Tensor, passing: Tensor, stream: Tensor, statistics: Tensor, weight: Tensor, layer: bool
) -> tuple[Tensor, Tensor]:
    by_stream = torch.empty_like(stream, memory_format=torch.contiguous_format)
    given = (slope.contiguous(), passing.contiguous(), stream.contiguous(), statistics, weight, stream)
    modes = {"PART": False, "LAYER": layer, "TWICE": False, "ALONG": True}
    return by_stream, _come_back((by_stream, by_stream), given, 0.0, modes)


def _statistics(stream: Tensor) -> Tensor:
    return stream.new_empty((2, stream.numel() // stream.size(-1)), dtype=torch.float32)


@torch.library.register_fake(SUM)
def _(stream: Tensor, part: Tensor, weight: Tensor, bias: Any, seed: Any, share: float, _: float) -> tuple[Tensor, ...]:
    drawn = stream.new_empty(_draws(seed, share), dtype=torch.int64)
    return part.new_empty(part.shape), stream.new_empty(stream.shape), _statistics(stream), drawn


@torch.library.register_fake(SUM_SLOPES)
def _(
    slope: Tensor, again: Any, passing: Any, total: Tensor, _: Tensor, weight: Tensor, *rest: Any
) -> tuple[Tensor, ...]:
    return torch.empty_like(total), slope.new_empty(slope.shape), weight.new_empty(PROGRAMS, 3, weight.numel())


@torch.library.register_fake(BESIDE)
def _(stream: Tensor, weight: Tensor, bias: Tensor | None, epsilon: float) -> tuple[Tensor, ...]:
    return stream.new_empty(stream.shape, dtype=torch.bfloat16), _statistics(stream)


@torch.library.register_fake(BESIDE_SLOPES)
def _(
    slope: Tensor, passing: Tensor, stream: Tensor, statistics: Tensor, weight: Tensor, layer: bool
) -> tuple[Tensor, ...]:
    return stream.new_empty(stream.shape), weight.new_empty(PROGRAMS, 2, weight.numel())
