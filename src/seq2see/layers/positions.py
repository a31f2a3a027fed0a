"""Position encodings: absolute ones, which are added to the embeddings, and relative ones.

Attention itself does not depend on the order. With relative positions, the scores depend on the distance between query
and key, not on their absolute positions, and act inside attention: rotary position embeddings (RoPE) rotate queries and
keys; ALiBi adds a bias to the scores that grows with the distance. Nothing in these two is learned.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from seq2see.core.errors import UserError

PositionIds = Int[Tensor, "row time"]
Grid = tuple[int, int]
"""The number of patches of an image from top to bottom, and from left to right."""


class SinusoidalPositions(nn.Module):
    """Sines and cosines of wavelengths from 2π to 10000·2π (Vaswani et al. 2017, section 3.5).

    PE(t, 2i) = sin(t / 10000^(2i/width)), PE(t, 2i+1) = cos of the same. The vector of t + k is a rotation of the
    vector of t that depends on k alone. The vectors also exist for lengths that do not occur in training.
    """

    frequencies: Tensor

    def __init__(self, width: int):
        super().__init__()
        if width % 2:
            raise UserError(
                f"The width {width} is odd, but sinusoidal positions are pairs of a sine and a cosine.",
                hint="Make the width even, or set embedding.positions=learned.",
            )
        exponents = torch.arange(0, width, 2) / width
        self.register_buffer("frequencies", torch.exp(-math.log(10000.0) * exponents), persistent=False)

    def forward(self, position_ids: PositionIds) -> Float[Tensor, "row time width"]:
        """The position encodings of these position ids."""
        angles = position_ids[..., None] * self.frequencies
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


class LearnedPositions(nn.Module):
    """One learned vector for each position up to `max_positions` (Gehring et al. 2017; BERT, GPT-2, ViT).

    Later positions share the last vector, since no vector is learned for them.
    """

    def __init__(self, width: int, max_positions: int = 512):
        super().__init__()
        self.max_positions = max_positions
        self.embedding = nn.Embedding(max_positions, width)

    def forward(self, position_ids: PositionIds) -> Float[Tensor, "row time width"]:
        """The position encodings of these position ids."""
        return self.embedding(position_ids.clamp(max=self.max_positions - 1))


class NoPositions(nn.Module):
    """Zeros: for recurrent networks, which process positions in order, and for relative positions."""

    def __init__(self, width: int):
        super().__init__()
        self.width = width

    def forward(self, position_ids: PositionIds) -> Float[Tensor, "#row #time width"]:
        """Zeros."""
        return torch.zeros(1, 1, self.width, device=position_ids.device)


POSITIONS: dict[str, type[nn.Module]] = {
    "sinusoidal": SinusoidalPositions,
    "learned": LearnedPositions,
    "rotary": NoPositions,  # rotary and ALiBi act in attention: see `relative_positions`
    "alibi": NoPositions,
    "none": NoPositions,
}


class SinusoidalPositions2d(nn.Module):
    """Sinusoidal positions of the patches of an image: half of the width encodes the row, the other half the column.

    Each half is the sinusoidal encoding of one number, as in Vaswani et al. 2017. Chen et al. 2021 (MoCo v3, section 5)
    use the same encoding. It exists for images of any size.
    """

    def __init__(self, width: int):
        super().__init__()
        if width % 4:
            raise UserError(
                f"The width {width} is no multiple of four, as sines and cosines of two directions need.",
                hint="Make the width a multiple of four, or set embedding.positions=learned.",
            )
        self.axis_positions = SinusoidalPositions(width // 2)

    def forward(self, grid: Grid) -> Float[Tensor, "1 place width"]:
        """The position encodings of all patches, row by row from the top left."""
        y_positions, x_positions = (
            self.axis_positions(torch.arange(size, device=self.axis_positions.frequencies.device)[None])[0]
            for size in grid
        )
        rows = y_positions[:, None].expand(-1, grid[1], -1)
        columns = x_positions[None].expand(grid[0], -1, -1)
        return torch.cat([rows, columns], dim=-1).flatten(0, 1)[None]


class LearnedPositions2d(nn.Module):
    """One learned vector for each patch of an image (Dosovitskiy et al. 2021, section 3.1).

    An image of another size has another grid. Its vectors are interpolated from the learned vectors (section 3.2,
    "2D interpolation") with bicubic interpolation.
    """

    def __init__(self, width: int, grid: Grid):
        super().__init__()
        self.grid = grid
        self.embedding = nn.Embedding(grid[0] * grid[1], width)

    def forward(self, grid: Grid) -> Float[Tensor, "1 place width"]:
        """The position embeddings of all patches, row by row from the top left."""
        return interpolate_positions(self.embedding.weight, self.grid, grid)[None]


def interpolate_positions(
    embeddings: Float[Tensor, "old width"], learned_grid: Grid, grid: Grid
) -> Float[Tensor, "new width"]:
    """Interpolate the position embeddings of one grid for another grid over the same image area."""
    if learned_grid == grid:
        return embeddings
    image = embeddings.mT.unflatten(-1, learned_grid)[None]
    return functional.interpolate(image, size=grid, mode="bicubic", align_corners=False)[0].flatten(1).mT


class NoPositions2d(nn.Module):
    """Zeros: the patches of an image are a set without order, or a convolutional stem has encoded the positions."""

    zero: Tensor

    def __init__(self, width: int):
        super().__init__()
        self.register_buffer("zero", torch.zeros(1, 1, width), persistent=False)

    def forward(self, grid: Grid) -> Float[Tensor, "1 1 width"]:
        """Zeros."""
        return self.zero


POSITIONS_2D: dict[str, type[nn.Module]] = {
    "learned": LearnedPositions2d,
    "sinusoidal": SinusoidalPositions2d,
    "none": NoPositions2d,
}


HeadVectors = Float[Tensor, "row head time size"]
SharedPositionIds = Int[Tensor, "#row time"]
QueryPositions = Int[Tensor, "#row query"]
KeyPositions = Int[Tensor, "#row key"]
AngleTable = Float[Tensor, "#row 1 time pair"]


def rotate_half_pairs(head_vectors: HeadVectors, cosines: AngleTable, sines: AngleTable) -> HeadVectors:
    """Rotate every pair (a, b) to (a cos - b sin, b cos + a sin): Su et al. 2021, eq. 34."""
    first, second = head_vectors.chunk(2, dim=-1)
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines], dim=-1)


class RelativePositions(nn.Module):
    """The base class of relative positions: they rotate queries and keys, or add a bias to the scores."""

    def rotate(self, head_vectors: HeadVectors, position_ids: SharedPositionIds) -> HeadVectors:
        """Rotate queries or keys by their positions; by default they stay unchanged."""
        return head_vectors

    def attention_bias(
        self, query_positions: QueryPositions, key_positions: KeyPositions
    ) -> Float[Tensor, "#row head #query key"] | None:
        """The bias that is added to the scores; None by default."""
        return None


class RotaryPositions(RelativePositions):
    """Rotate every pair of numbers in a query or key by an angle proportional to its position (Su et al. 2021, eq. 34).

    The dot product of a query rotated by t·θ and a key rotated by s·θ depends on t - s only. A pair consists of the
    numbers i and i + size / 2, as in Llama; the paper pairs adjacent numbers, which is the same up to their order.
    """

    frequencies: Tensor

    def __init__(self, size: int, base: float = 10_000.0):
        super().__init__()
        if size % 2:
            raise UserError(
                f"Rotary positions rotate pairs of numbers, but the head size {size} is odd.",
                hint="Make the width divided by the number of heads even, or choose other positions.",
            )
        frequencies = base ** (-torch.arange(0, size, 2) / size)
        self.register_buffer("frequencies", frequencies, persistent=False)

    def rotate(self, head_vectors: HeadVectors, position_ids: SharedPositionIds) -> HeadVectors:
        """Rotate every pair by its angle."""
        return rotate_half_pairs(head_vectors, *self.cosines_and_sines(head_vectors, position_ids))

    def cosines_and_sines(
        self, head_vectors: HeadVectors, position_ids: SharedPositionIds
    ) -> tuple[AngleTable, AngleTable]:
        """The cosines and sines of the angles position · θ, in the dtype of the head vectors."""
        angles = position_ids[:, None, :, None] * self.frequencies
        return angles.cos().to(head_vectors.dtype), angles.sin().to(head_vectors.dtype)


class AlibiPositions(RelativePositions):
    """ALiBi: a linear penalty on the distance between query and key (Press, Smith & Lewis 2022, section 3).

    It subtracts slope · distance from the score. The slopes are 2^(-8/n), 2^(-16/n), ..., 2^-8 for n heads, so that
    some heads attend to distant keys and some only to near ones. A model trained on short texts generalizes to longer
    texts with it.
    """

    slopes: Tensor

    def __init__(self, heads: int):
        super().__init__()
        self.register_buffer("slopes", 2.0 ** (-8.0 / heads * torch.arange(1, heads + 1)), persistent=False)

    def attention_bias(
        self, query_positions: QueryPositions, key_positions: KeyPositions
    ) -> Float[Tensor, "#row head query key"]:
        """The negative distance times the slope of each head; the distance is symmetric, for encoders."""
        distance = (query_positions[:, :, None] - key_positions[:, None, :]).abs()
        return -self.slopes[:, None, None] * distance[:, None]


def build_relative_positions(
    positions: str, width: int, heads: int, base: float = 10_000.0
) -> RelativePositions | None:
    """The relative positions of this name; None for absolute position encodings (see `layers.positions.POSITIONS`)."""
    if positions == "rotary":
        return RotaryPositions(width // heads, base)
    return AlibiPositions(heads) if positions == "alibi" else None
