"""Other views of the same picture: moved, mirrored, with a piece missing; a model shall give all of them one label.

All rows of a batch are changed at once, each by draws of its own (`draws.py`), and nothing waits for a GPU: no shape
depends on what was drawn. Pixels are whole numbers from 0 to 255 before and after, so that what a model sees in
training can be looked at as a picture.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int, UInt8
from torch import Tensor

from seq2see.sequences.draws import Draws

Pixels = UInt8[Tensor, "row channel height width"]
Places = Int[Tensor, "row #height #width"]
GREY = 128
"""What stands where nothing is known: halfway between black and white, so that a model is told nothing."""


def taken(pixels: Pixels, lines: Places, columns: Places) -> Pixels:
    """Each pixel from another place: out[r, c, y, x] = pixels[r, c, lines[r, y, x], columns[r, y, x]]."""
    rows, channels, height, width = pixels.shape
    places = (lines * width + columns).expand(rows, height, width).flatten(1)
    # One number says where a pixel comes from, for all channels: a fifth of the time that three of them take.
    return pixels.flatten(2).gather(2, places[:, None].expand(-1, channels, -1)).view_as(pixels)


def lines_and_columns(pixels: Pixels) -> tuple[Int[Tensor, "1 height 1"], Int[Tensor, "1 1 width"]]:
    """Where each pixel stands, counted from the top left."""
    height, width = pixels.shape[2:]
    lines, columns = (torch.arange(size, device=pixels.device) for size in (height, width))
    return lines[None, :, None], columns[None, None]


class Shift:
    """Move a picture by up to `most` pixels in both directions.

    The same as padding it by so many pixels and cutting out a picture of the old size (He et al. 2016, section 4.2);
    but a mirror stands at every edge: no black bars come in, which real pictures do not have.
    """

    def __init__(self, most: int):
        self.most = most

    def __call__(self, pixels: Pixels, draws: Draws) -> Pixels:
        """Every picture moved by an amount of its own."""
        moves = (draws.whole("shift", 2 * self.most + 1, 2) - self.most)[..., None, None]
        lines, columns = (place + move for place, move in zip(lines_and_columns(pixels), moves.unbind(1), strict=True))
        height, width = pixels.shape[2:]
        return taken(pixels, mirrored(lines, height), mirrored(columns, width))


def outside(lines: Places, columns: Places, height: int, width: int) -> Bool[Tensor, "row #height #width"]:
    """Which places a picture of this size does not have."""
    return (lines < 0) | (lines >= height) | (columns < 0) | (columns >= width)


def mirrored(places: Places, size: int) -> Places:
    """... 2 1 0 1 2 ... size-2 size-1 size-2 ...: what is seen in mirrors that stand on the outermost pixels."""
    there_and_back = max(2 * (size - 1), 1)
    place = places.remainder(there_and_back)
    return torch.minimum(place, there_and_back - place)


class Flip:
    """Left and right exchanged, in half of the pictures."""

    def __call__(self, pixels: Pixels, draws: Draws) -> Pixels:
        """Some of the pictures as in a mirror."""
        lines, columns = lines_and_columns(pixels)
        flipped = draws.chances("flip")[..., None] < 0.5
        return taken(pixels, lines, torch.where(flipped, pixels.size(3) - 1 - columns, columns))


class Cutout:
    """A square of side x side pixels is grey; it may stick out (DeVries & Taylor 2017, section 3.1)."""

    def __init__(self, side: int):
        self.side = side

    def __call__(self, pixels: Pixels, draws: Draws) -> Pixels:
        """Every picture less a square."""
        chances = draws.chances("cutout", 2)[..., None, None]
        hidden = torch.ones((), dtype=torch.bool, device=pixels.device)
        for places, chance in zip(lines_and_columns(pixels), chances.unbind(1), strict=True):
            first = (chance * places.numel()).long() - self.side // 2  # its middle is any pixel
            hidden = hidden & (places >= first) & (places < first + self.side)
        return pixels.masked_fill(hidden[:, None], GREY)
