"""Image transforms for augmentation: shift, flip, cutout. The label of an image stays the same.

All rows of a batch are transformed at once, each with random numbers of its own (`counter_rng.py`), without a GPU sync:
no shape depends on a random number. Pixels are integers from 0 to 255 before and after, so that a transformed image can
be displayed.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int, UInt8
from torch import Tensor

from seq2see.sequences.counter_rng import CounterRng

PixelBatch = UInt8[Tensor, "row channel height width"]
PixelPositions = Int[Tensor, "row #height #width"]
GRAY = 128
"""The value of missing pixels: halfway between black and white."""


def gather_pixels(pixels: PixelBatch, lines: PixelPositions, columns: PixelPositions) -> PixelBatch:
    """Gather pixels from other positions: out[r, c, y, x] = pixels[r, c, lines[r, y, x], columns[r, y, x]]."""
    rows, channels, height, width = pixels.shape
    indices = (lines * width + columns).expand(rows, height, width).flatten(1)
    # One index per pixel serves all channels; separate indices for three channels would take five times as long.
    return pixels.flatten(2).gather(2, indices[:, None].expand(-1, channels, -1)).view_as(pixels)


def pixel_grid(pixels: PixelBatch) -> tuple[Int[Tensor, "1 height 1"], Int[Tensor, "1 1 width"]]:
    """The line and the column of each pixel, counted from the top left."""
    height, width = pixels.shape[2:]
    lines, columns = (torch.arange(size, device=pixels.device) for size in (height, width))
    return lines[None, :, None], columns[None, None]


class Shift:
    """Shift an image by up to `max_shift` pixels in both directions.

    This equals padding the image by `max_shift` pixels and cropping it to the old size (He et al. 2016, section 4.2),
    but with padding by reflection, not by black bars, which real images do not have.
    """

    def __init__(self, max_shift: int):
        self.max_shift = max_shift

    def __call__(self, pixels: PixelBatch, rng: CounterRng) -> PixelBatch:
        """Shift every image by a random amount."""
        shifts = (rng.integers("shift", 2 * self.max_shift + 1, 2) - self.max_shift)[..., None, None]
        lines, columns = (grid + shift for grid, shift in zip(pixel_grid(pixels), shifts.unbind(1), strict=True))
        height, width = pixels.shape[2:]
        return gather_pixels(pixels, reflect(lines, height), reflect(columns, width))


def out_of_bounds(
    lines: PixelPositions, columns: PixelPositions, height: int, width: int
) -> Bool[Tensor, "row #height #width"]:
    """True for positions outside an image of this size."""
    return (lines < 0) | (lines >= height) | (columns < 0) | (columns >= width)


def reflect(positions: PixelPositions, size: int) -> PixelPositions:
    """Reflection padding: ... 2 1 0 1 2 ... size-2 size-1 size-2 ...; the edge pixels are not repeated."""
    period = max(2 * (size - 1), 1)
    remainder = positions.remainder(period)
    return torch.minimum(remainder, period - remainder)


class Flip:
    """Flip half of the images horizontally."""

    def __call__(self, pixels: PixelBatch, rng: CounterRng) -> PixelBatch:
        """Flip each image with probability 1/2."""
        lines, columns = pixel_grid(pixels)
        flipped = rng.uniform("flip")[..., None] < 0.5
        return gather_pixels(pixels, lines, torch.where(flipped, pixels.size(3) - 1 - columns, columns))


class Cutout:
    """Fill a square of size x size pixels with gray; edges may clip it (DeVries & Taylor 2017, section 3.1)."""

    def __init__(self, size: int):
        self.size = size

    def __call__(self, pixels: PixelBatch, rng: CounterRng) -> PixelBatch:
        """Fill a random square of every image."""
        uniform = rng.uniform("cutout", 2)[..., None, None]
        inside = torch.ones((), dtype=torch.bool, device=pixels.device)
        for positions, fraction in zip(pixel_grid(pixels), uniform.unbind(1), strict=True):
            first = (fraction * positions.numel()).long() - self.size // 2  # the center of the square is any pixel
            inside = inside & (positions >= first) & (positions < first + self.size)
        return pixels.masked_fill(inside[:, None], GRAY)
