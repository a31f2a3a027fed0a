"""Scenes: images of one shape with sampled attributes, their labels and captions, and their rendering.

The shape, its color, its size (small or large) and its position (one ninth of the image) are sampled uniformly; within
these classes shade, radius, exact position and rotation vary. A dark background, specks and noise carry no
information. The classes are disjoint: no radius lies between small and large, and no position between left and middle.
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
"""Radii as shares of the image size."""
POSITIONS = (
    ("top left", "top", "top right"),
    ("left", "middle", "right"),
    ("bottom left", "bottom", "bottom right"),
)
THIRDS = ((0.0, 0.22), (0.39, 0.61), (0.78, 1.0))
"""The ranges of left (top), middle and right (bottom), as shares of the possible range of a center."""
MAX_ROTATION, COLOR_STD, NOISE_STD, NUM_SPECKS = 0.25, 12.0, 14.0, 5
"""The largest rotation in radians, the standard deviations of colors and noise (of 255), and the number of specks."""
Canvas = NDArray[np.float32]
"""(image, row, column, channel), from 0 to 255, or beyond by noise."""
Fractions = NDArray[np.float64]
RENDER_BATCH = 256
"""Images rendered at a time: their intermediate values fit into the processor's cache."""


@dataclass(frozen=True)
class Scenes:
    """The attributes of many images, one number or vector for each image."""

    shape_ids: NDArray[np.int64]
    colors: NDArray[np.int64]
    sizes: NDArray[np.int64]
    positions: NDArray[np.int64]  # (image, 2): third from the left and third from the top
    rgb: NDArray[np.float32]  # (image, channel)
    radii: NDArray[np.float32]  # as shares of the image size
    centers: NDArray[np.float32]  # (image, 2): column and row, as shares of the image size
    rotations: NDArray[np.float32]

    @staticmethod
    def sample(count: int, seed: int, purpose: str) -> Scenes:
        """Sample the attributes of `count` scenes."""
        rng = generator(seed, f"shapes/{purpose}")
        shape_ids, colors, sizes = (rng.integers(len(each), size=count) for each in (SHAPE_NAMES, COLORS, SIZES))
        positions = rng.integers(3, size=(count, 2))
        rgb = np.array(list(COLORS.values()))[colors] + rng.normal(0, COLOR_STD, (count, 3))
        radii = _interpolate(np.array(list(SIZES.values()))[sizes], rng.random(count))
        relative = _interpolate(np.array(THIRDS)[positions], rng.random((count, 2)))
        centers = radii[:, None] + relative * (1 - 2 * radii[:, None])
        rotations = rng.uniform(-MAX_ROTATION, MAX_ROTATION, count)
        arrays = (each.astype(np.float32) for each in (rgb.clip(0, 255), radii, centers, rotations))
        return Scenes(shape_ids, colors, sizes, positions, *arrays)

    def __len__(self) -> int:
        return len(self.shape_ids)

    @property
    def labels(self) -> tuple[str, ...]:
        """The class of each scene: the name of its shape."""
        return tuple(SHAPE_NAMES[shape] for shape in self.shape_ids)

    @property
    def captions(self) -> tuple[str, ...]:
        """The caption of each scene, such as "a small red star at the top left"."""
        colors, sizes = tuple(COLORS), tuple(SIZES)
        rows = zip(self.sizes, self.colors, self.shape_ids, self.positions, strict=True)
        return tuple(
            f"a {sizes[size]} {colors[color]} {SHAPE_NAMES[shape]} {_position_phrase(POSITIONS[down][across])}"
            for size, color, shape, (across, down) in rows
        )

    def render(self, image_size: int, seed: int, purpose: str) -> NDArray[np.uint8]:
        """(image, row, column, channel): the scenes as pixels; specks and noise depend on `seed` and `purpose` only."""
        pixels = np.empty((len(self), image_size, image_size, 3), np.uint8)
        for rows in in_batches("rendering images", len(self), RENDER_BATCH):
            pixels[rows] = self._render(rows, image_size, generator(seed, f"shapes/{purpose}/behind", rows.start))
        return pixels

    def _render(self, rows: slice, image_size: int, rng: np.random.Generator) -> NDArray[np.uint8]:
        shape_ids = self.shape_ids[rows]
        canvas = np.float32(NOISE_STD) * rng.standard_normal((len(shape_ids), image_size, image_size, 3), np.float32)
        canvas += rng.uniform(15, 90, (len(shape_ids), 1, 1, 3)).astype(np.float32)
        _add_specks(canvas, rng)
        for shape, name in enumerate(SHAPE_NAMES):
            members = np.flatnonzero(shape_ids == shape)
            indices = members + rows.start
            centers, radii = self.centers[indices] * image_size, self.radii[indices] * image_size
            mask = coverage(name, centers, radii, self.rotations[indices], image_size)[..., None]
            canvas[members] += mask * (self.rgb[indices, None, None] - canvas[members])
        return np.clip(canvas, 0, 255).astype(np.uint8)


def _add_specks(canvas: Canvas, rng: np.random.Generator) -> None:
    """Add specks, which are small squares of random color and position."""
    count, image_size = canvas.shape[:2]
    size = max(1, image_size // 16)
    images = np.arange(count)
    for _ in range(NUM_SPECKS):
        corners, colors = rng.integers(0, image_size - size + 1, (2, count)), rng.uniform(0, 255, (count, 3))
        for down, across in np.ndindex(size, size):
            canvas[images, corners[0] + down, corners[1] + across] = colors


def _interpolate(ends: Fractions, share: Fractions) -> Fractions:
    """Linear interpolation between the two ends (…, 2) of each range."""
    return ends[..., 0] + share * (ends[..., 1] - ends[..., 0])


def _position_phrase(position: str) -> str:
    if position == "middle":
        return "in the middle"
    return f"{'on' if position in ('left', 'right') else 'at'} the {position}"
