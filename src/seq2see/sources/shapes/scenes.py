"""Scenes: what is to be seen in an image, drawn by lot, said in words, and painted.

A scene has one shape that matters. What it is, its color, whether it is small or large and in which ninth of the
image it stands are drawn evenly; inside these words everything varies (shade, radius, place, turn). Behind it lie a
dim ground, specks and noise, which mean nothing. No two words blur into each other: a radius between small and large
does not occur, nor a place between left and middle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seq2see.core.seeds import generator
from seq2see.sources.progress import in_batches
from seq2see.sources.shapes.rasterize import SHAPES, coverage

SHAPE_NAMES = tuple(SHAPES)
COLORS = {
    "red": (225, 50, 45),
    "orange": (240, 145, 30),
    "yellow": (240, 225, 60),
    "green": (60, 190, 80),
    "blue": (60, 105, 240),
    "purple": (175, 70, 215),
    "white": (240, 240, 240),
}
SIZES = {"small": (0.19, 0.24), "large": (0.3, 0.38)}
"""Radii as shares of the image's side."""
POSITIONS = (
    ("top left", "top", "top right"),
    ("left", "middle", "right"),
    ("bottom left", "bottom", "bottom right"),
)
THIRDS = ((0.0, 0.22), (0.39, 0.61), (0.78, 1.0))
"""Of the room that a shape has to move in, what counts as left (top), middle and right (bottom)."""
MAX_ROTATION, COLOR_STD, NOISE_STD, NUM_SPECKS = 0.25, 12.0, 14.0, 5
"""Most radians of turn either way, spread of colors and of noise (of 255), and how many specks there are."""
Canvas = NDArray[np.float32]
"""(image, row, column, channel), from 0 to 255 and noise beyond."""
Fractions = NDArray[np.float64]
RENDER_BATCH = 256
"""Images painted at one time: what is computed for them stays near the processor."""


@dataclass(frozen=True)
class Scenes:
    """What is to be seen in each of many images, one number or vector an image."""

    shape_ids: NDArray[np.int64]
    colors: NDArray[np.int64]
    sizes: NDArray[np.int64]
    positions: NDArray[np.int64]  # (image, 2): which third from the left and from the top
    rgb: NDArray[np.float32]  # (image, channel)
    radii: NDArray[np.float32]  # as shares of the side
    centers: NDArray[np.float32]  # (image, 2): column and row, as shares of the side
    rotations: NDArray[np.float32]

    @staticmethod
    def sample(count: int, seed: int, purpose: str) -> Scenes:
        """Draw lots."""
        lots = generator(seed, f"shapes/{purpose}")
        shape_ids, colors, sizes = (lots.integers(len(each), size=count) for each in (SHAPE_NAMES, COLORS, SIZES))
        positions = lots.integers(3, size=(count, 2))
        rgb = np.array(list(COLORS.values()))[colors] + lots.normal(0, COLOR_STD, (count, 3))
        radii = _interpolate(np.array(list(SIZES.values()))[sizes], lots.random(count))
        along = _interpolate(np.array(THIRDS)[positions], lots.random((count, 2)))
        centers = radii[:, None] + along * (1 - 2 * radii[:, None])
        rotations = lots.uniform(-MAX_ROTATION, MAX_ROTATION, count)
        plain = (each.astype(np.float32) for each in (rgb.clip(0, 255), radii, centers, rotations))
        return Scenes(shape_ids, colors, sizes, positions, *plain)

    def __len__(self) -> int:
        return len(self.shape_ids)

    @property
    def labels(self) -> tuple[str, ...]:
        """The class of each scene: the name of its shape."""
        return tuple(SHAPE_NAMES[kind] for kind in self.shape_ids)

    @property
    def captions(self) -> tuple[str, ...]:
        """Each scene in words: "a small red star at the top left"."""
        colors, sizes = tuple(COLORS), tuple(SIZES)
        rows = zip(self.sizes, self.colors, self.shape_ids, self.positions, strict=True)
        return tuple(
            f"a {sizes[size]} {colors[color]} {SHAPE_NAMES[kind]} {_position_phrase(POSITIONS[down][across])}"
            for size, color, kind, (across, down) in rows
        )

    def render(self, side: int, seed: int, purpose: str) -> NDArray[np.uint8]:
        """(image, row, column, channel): the scenes as pixels; specks and noise depend on the seed alone."""
        pixels = np.empty((len(self), side, side, 3), np.uint8)
        for rows in in_batches("drawing images", len(self), RENDER_BATCH):
            pixels[rows] = self._render(rows, side, generator(seed, f"shapes/{purpose}/behind", rows.start))
        return pixels

    def _render(self, rows: slice, side: int, lots: np.random.Generator) -> NDArray[np.uint8]:
        shape_ids = self.shape_ids[rows]
        canvas = np.float32(NOISE_STD) * lots.standard_normal((len(shape_ids), side, side, 3), np.float32)
        canvas += lots.uniform(15, 90, (len(shape_ids), 1, 1, 3)).astype(np.float32)
        _add_specks(canvas, lots)
        for kind, name in enumerate(SHAPE_NAMES):
            there = np.flatnonzero(shape_ids == kind)
            mine = there + rows.start
            share = coverage(name, self.centers[mine] * side, self.radii[mine] * side, self.rotations[mine], side)[
                ..., None
            ]
            canvas[there] += share * (self.rgb[mine, None, None] - canvas[there])
        return np.clip(canvas, 0, 255).astype(np.uint8)


def _add_specks(canvas: Canvas, lots: np.random.Generator) -> None:
    """Specks of any color, anywhere: little squares."""
    count, side = canvas.shape[:2]
    size = max(1, side // 16)
    images = np.arange(count)
    for _ in range(NUM_SPECKS):
        corners, colors = lots.integers(0, side - size + 1, (2, count)), lots.uniform(0, 255, (count, 3))
        for down, across in np.ndindex(size, size):
            canvas[images, corners[0] + down, corners[1] + across] = colors


def _interpolate(ends: Fractions, share: Fractions) -> Fractions:
    """A point of each stretch: (…, 2) and shares of the way from its first end to its second."""
    return ends[..., 0] + share * (ends[..., 1] - ends[..., 0])


def _position_phrase(place: str) -> str:
    return "in the middle" if place == "middle" else f"{'on' if place in ('left', 'right') else 'at'} the {place}"
