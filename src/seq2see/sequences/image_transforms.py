"""Other views of the same image: moved, mirrored, with a piece missing; a model shall give all of them one label.

All rows of a batch are changed at once, each by draws of its own (`rng.py`), and nothing waits for a GPU: no shape
depends on what was drawn. Pixels are whole numbers from 0 to 255 before and after, so that what a model sees in
training can be looked at as an image.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int, UInt8
from torch import Tensor

from seq2see.sequences.counter_rng import CounterRng

PixelBatch = UInt8[Tensor, "row channel height width"]
PixelPositions = Int[Tensor, "row #height #width"]
GRAY = 128
"""What stands where nothing is known: halfway between black and white, so that a model is told nothing."""


def gather_pixels(pixels: PixelBatch, lines: PixelPositions, columns: PixelPositions) -> PixelBatch:
    """Each pixel from another place: out[r, c, y, x] = pixels[r, c, lines[r, y, x], columns[r, y, x]]."""
    rows, channels, height, width = pixels.shape
    places = (lines * width + columns).expand(rows, height, width).flatten(1)
    # One number says where a pixel comes from, for all channels: a fifth of the time that three of them take.
    return pixels.flatten(2).gather(2, places[:, None].expand(-1, channels, -1)).view_as(pixels)


def pixel_grid(pixels: PixelBatch) -> tuple[Int[Tensor, "1 height 1"], Int[Tensor, "1 1 width"]]:
    """Where each pixel stands, counted from the top left."""
    height, width = pixels.shape[2:]
    lines, columns = (torch.arange(size, device=pixels.device) for size in (height, width))
    return lines[None, :, None], columns[None, None]


class Shift:
    """Move an image by up to `max_shift` pixels in both directions.

    The same as padding it by so many pixels and cutting out an image of the old size (He et al. 2016, section 4.2);
    but a mirror stands at every edge: no black bars come in, which real images do not have.
    """

    def __init__(self, max_shift: int):
        self.max_shift = max_shift

    def __call__(self, pixels: PixelBatch, rng: CounterRng) -> PixelBatch:
        """Every image moved by an amount of its own."""
        moves = (rng.integers("shift", 2 * self.max_shift + 1, 2) - self.max_shift)[..., None, None]
        lines, columns = (place + move for place, move in zip(pixel_grid(pixels), moves.unbind(1), strict=True))
        height, width = pixels.shape[2:]
        return gather_pixels(pixels, reflect(lines, height), reflect(columns, width))


def out_of_bounds(
    lines: PixelPositions, columns: PixelPositions, height: int, width: int
) -> Bool[Tensor, "row #height #width"]:
    """Which places an image of this size does not have."""
    return (lines < 0) | (lines >= height) | (columns < 0) | (columns >= width)


def reflect(places: PixelPositions, size: int) -> PixelPositions:
    """... 2 1 0 1 2 ... size-2 size-1 size-2 ...: what is seen in mirrors that stand on the outermost pixels."""
    there_and_back = max(2 * (size - 1), 1)
    place = places.remainder(there_and_back)
    return torch.minimum(place, there_and_back - place)


class Flip:
    """Left and right exchanged, in half of the images."""

    def __call__(self, pixels: PixelBatch, rng: CounterRng) -> PixelBatch:
        """Some of the images as in a mirror."""
        lines, columns = pixel_grid(pixels)
        flipped = rng.uniform("flip")[..., None] < 0.5
        return gather_pixels(pixels, lines, torch.where(flipped, pixels.size(3) - 1 - columns, columns))


class Cutout:
    """A square of side x side pixels is gray; it may stick out (DeVries & Taylor 2017, section 3.1)."""

    def __init__(self, size: int):
        self.size = size

    def __call__(self, pixels: PixelBatch, rng: CounterRng) -> PixelBatch:
        """Every image less a square."""
        uniform = rng.uniform("cutout", 2)[..., None, None]
        hidden = torch.ones((), dtype=torch.bool, device=pixels.device)
        for places, chance in zip(pixel_grid(pixels), uniform.unbind(1), strict=True):
            first = (chance * places.numel()).long() - self.size // 2  # its middle is any pixel
            hidden = hidden & (places >= first) & (places < first + self.size)
        return pixels.masked_fill(hidden[:, None], GRAY)
