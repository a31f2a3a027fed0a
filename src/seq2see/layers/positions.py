"""Where a token stands: attention alone cannot tell, so positions are added to the vectors."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from seq2see.core.errors import UserError

PositionIds = Int[Tensor, "row time"]
Grid = tuple[int, int]
"""How many places an image has from top to bottom, and how many from left to right."""


class SinusoidalPositions(nn.Module):
    """Sines and cosines of wavelengths from 2π to 10000·2π (Vaswani et al. 2017, section 3.5).

    PE(t, 2i) = sin(t / 10000^(2i/width)), PE(t, 2i+1) = cos of the same. The vector of t + k is a
    rotation of the vector of t, whatever t is; and it exists for lengths never seen in training.
    """

    frequencies: Tensor

    def __init__(self, width: int):
        super().__init__()
        if width % 2:
            raise UserError(
                f"A width of {width} cannot be filled with pairs of a sine and a cosine.",
                hint="Make the width even, or set frontend.positions=learned.",
            )
        exponents = torch.arange(0, width, 2) / width
        self.register_buffer("frequencies", torch.exp(-math.log(10000.0) * exponents), persistent=False)

    def forward(self, position_ids: PositionIds) -> Float[Tensor, "row time width"]:
        """The position vectors of these times."""
        angles = position_ids[..., None] * self.frequencies
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


class LearnedPositions(nn.Module):
    """One learned vector for each time up to `max_positions` (Gehring et al. 2017; BERT, GPT-2, ViT).

    Times beyond the longest share the last vector: there is none that was learned for them.
    """

    def __init__(self, width: int, max_positions: int = 512):
        super().__init__()
        self.max_positions = max_positions
        self.embedding = nn.Embedding(max_positions, width)

    def forward(self, position_ids: PositionIds) -> Float[Tensor, "row time width"]:
        """The position vectors of these times."""
        return self.embedding(position_ids.clamp(max=self.max_positions - 1))


class NoPositions(nn.Module):
    """Nothing is added: a recurrent network knows the order by reading in order."""

    def __init__(self, width: int):
        super().__init__()
        self.width = width

    def forward(self, position_ids: PositionIds) -> Float[Tensor, "#row #time width"]:
        """Zeros."""
        return torch.zeros(1, 1, self.width, device=position_ids.device)


POSITIONS: dict[str, type[nn.Module]] = {
    "sinusoidal": SinusoidalPositions,
    "learned": LearnedPositions,
    "rotary": NoPositions,  # these two are told to attention: see `relative_positions`
    "alibi": NoPositions,
    "none": NoPositions,
}


class SinusoidalPositions2d(nn.Module):
    """Where a place stands in an image: half of the width says how far down, the other half how far to the right.

    Each half is the sinusoidal vector of one number, as in Vaswani et al. 2017; so has it Chen et al. 2021 (MoCo v3,
    section 5). It exists for images of any size.
    """

    def __init__(self, width: int):
        super().__init__()
        if width % 4:
            raise UserError(
                f"A width of {width} cannot be filled with sines and cosines of two directions.",
                hint="Make the width a multiple of four, or set frontend.positions=learned.",
            )
        self.axis_positions = SinusoidalPositions(width // 2)

    def forward(self, grid: Grid) -> Float[Tensor, "1 place width"]:
        """The position vectors of all places, line after line from the top left."""
        down, right = (
            self.axis_positions(torch.arange(size, device=self.axis_positions.frequencies.device)[None])[0]
            for size in grid
        )
        lines = down[:, None].expand(-1, grid[1], -1)
        columns = right[None].expand(grid[0], -1, -1)
        return torch.cat([lines, columns], dim=-1).flatten(0, 1)[None]


class LearnedPositions2d(nn.Module):
    """One learned vector for each place of an image (Dosovitskiy et al. 2021, section 3.1).

    An image of another size has another grid. Its vectors are read off between those that were learned (section 3.2,
    "2D interpolation"), by cubic curves through the four nearest in each direction.
    """

    def __init__(self, width: int, grid: Grid):
        super().__init__()
        self.grid = grid
        self.embedding = nn.Embedding(grid[0] * grid[1], width)

    def forward(self, grid: Grid) -> Float[Tensor, "1 place width"]:
        """The position vectors of all places, line after line from the top left."""
        return interpolate_positions(self.embedding.weight, self.grid, grid)[None]


def interpolate_positions(table: Float[Tensor, "old width"], learned: Grid, grid: Grid) -> Float[Tensor, "new width"]:
    """The vectors of one grid read off for another; its corners' outer edges stay where they were."""
    if learned == grid:
        return table
    image = table.mT.unflatten(-1, learned)[None]
    return functional.interpolate(image, size=grid, mode="bicubic", align_corners=False)[0].flatten(1).mT


class NoPositions2d(nn.Module):
    """Nothing is added: an image whose places may be shuffled, or whose frontend has told them already."""

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
