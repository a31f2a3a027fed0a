"""Scenes: what is to be seen in a picture, drawn by lot, said in words, and painted.

A scene has one shape that matters. What it is, its colour, whether it is small or large and in which ninth of the
picture it stands are drawn evenly; inside these words everything varies (shade, radius, place, turn). Behind it lie a
dim ground, specks and noise, which mean nothing. No two words blur into each other: a radius between small and large
does not occur, nor a place between left and middle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seq2see.core.seeds import generator
from seq2see.sources.progress import in_lots
from seq2see.sources.shapes.drawing import SHAPES, cover

KINDS = tuple(SHAPES)
COLOURS = {
    "red": (225, 50, 45),
    "orange": (240, 145, 30),
    "yellow": (240, 225, 60),
    "green": (60, 190, 80),
    "blue": (60, 105, 240),
    "purple": (175, 70, 215),
    "white": (240, 240, 240),
}
SIZES = {"small": (0.19, 0.24), "large": (0.3, 0.38)}
"""Radii as shares of the picture's side."""
PLACES = (
    ("top left", "top", "top right"),
    ("left", "middle", "right"),
    ("bottom left", "bottom", "bottom right"),
)
THIRDS = ((0.0, 0.22), (0.39, 0.61), (0.78, 1.0))
"""Of the room that a shape has to move in, what counts as left (top), middle and right (bottom)."""
TURN, SHADE, NOISE, SPECKS = 0.25, 12.0, 14.0, 5
"""Most radians of turn either way, spread of colours and of noise (of 255), and how many specks there are."""
Canvas = NDArray[np.float32]
"""(picture, row, column, channel), from 0 to 255 and noise beyond."""
Fractions = NDArray[np.float64]
CHUNK = 256
"""Pictures painted at one time: what is computed for them stays near the processor."""


@dataclass(frozen=True)
class Scenes:
    """What is to be seen in each of many pictures, one number or vector a picture."""

    kinds: NDArray[np.int64]
    colours: NDArray[np.int64]
    sizes: NDArray[np.int64]
    places: NDArray[np.int64]  # (picture, 2): which third from the left and from the top
    shades: NDArray[np.float32]  # (picture, channel)
    radii: NDArray[np.float32]  # as shares of the side
    middles: NDArray[np.float32]  # (picture, 2): column and row, as shares of the side
    turns: NDArray[np.float32]

    @staticmethod
    def drawn(count: int, seed: int, purpose: str) -> Scenes:
        """Draw lots."""
        lots = generator(seed, f"shapes/{purpose}")
        kinds, colours, sizes = (lots.integers(len(each), size=count) for each in (KINDS, COLOURS, SIZES))
        places = lots.integers(3, size=(count, 2))
        shades = np.array(list(COLOURS.values()))[colours] + lots.normal(0, SHADE, (count, 3))
        radii = _between(np.array(list(SIZES.values()))[sizes], lots.random(count))
        along = _between(np.array(THIRDS)[places], lots.random((count, 2)))
        middles = radii[:, None] + along * (1 - 2 * radii[:, None])
        turns = lots.uniform(-TURN, TURN, count)
        plain = (each.astype(np.float32) for each in (shades.clip(0, 255), radii, middles, turns))
        return Scenes(kinds, colours, sizes, places, *plain)

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def labels(self) -> tuple[str, ...]:
        """The class of each scene: the name of its shape."""
        return tuple(KINDS[kind] for kind in self.kinds)

    @property
    def captions(self) -> tuple[str, ...]:
        """Each scene in words: "a small red star at the top left"."""
        colours, sizes = tuple(COLOURS), tuple(SIZES)
        rows = zip(self.sizes, self.colours, self.kinds, self.places, strict=True)
        return tuple(
            f"a {sizes[size]} {colours[colour]} {KINDS[kind]} {_at(PLACES[down][across])}"
            for size, colour, kind, (across, down) in rows
        )

    def paint(self, side: int, seed: int, purpose: str) -> NDArray[np.uint8]:
        """(picture, row, column, channel): the scenes as pixels; specks and noise depend on the seed alone."""
        pixels = np.empty((len(self), side, side, 3), np.uint8)
        for rows in in_lots("drawing pictures", len(self), CHUNK):
            pixels[rows] = self._painted(rows, side, generator(seed, f"shapes/{purpose}/behind", rows.start))
        return pixels

    def _painted(self, rows: slice, side: int, lots: np.random.Generator) -> NDArray[np.uint8]:
        kinds = self.kinds[rows]
        canvas = np.float32(NOISE) * lots.standard_normal((len(kinds), side, side, 3), np.float32)
        canvas += lots.uniform(15, 90, (len(kinds), 1, 1, 3)).astype(np.float32)
        _strew(canvas, lots)
        for kind, name in enumerate(KINDS):
            there = np.flatnonzero(kinds == kind)
            mine = there + rows.start
            share = cover(name, self.middles[mine] * side, self.radii[mine] * side, self.turns[mine], side)[..., None]
            canvas[there] += share * (self.shades[mine, None, None] - canvas[there])
        return np.clip(canvas, 0, 255).astype(np.uint8)


def _strew(canvas: Canvas, lots: np.random.Generator) -> None:
    """Specks of any colour, anywhere: little squares."""
    count, side = canvas.shape[:2]
    size = max(1, side // 16)
    pictures = np.arange(count)
    for _ in range(SPECKS):
        corners, colours = lots.integers(0, side - size + 1, (2, count)), lots.uniform(0, 255, (count, 3))
        for down, across in np.ndindex(size, size):
            canvas[pictures, corners[0] + down, corners[1] + across] = colours


def _between(ends: Fractions, share: Fractions) -> Fractions:
    """A point of each stretch: (…, 2) and shares of the way from its first end to its second."""
    return ends[..., 0] + share * (ends[..., 1] - ends[..., 0])


def _at(place: str) -> str:
    return "in the middle" if place == "middle" else f"{'on' if place in ('left', 'right') else 'at'} the {place}"
