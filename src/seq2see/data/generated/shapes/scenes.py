"""Scenes: images and videos of one shape with sampled attributes and actions, their labels, captions and rendering.

In an image, the shape, its color, its size (small or large) and its position (one ninth of the image) are sampled
uniformly; within these classes shade, radius, exact position and rotation vary. A dark background, specks and noise
carry no information. The classes are disjoint: no radius lies between small and large, and no position between left and
middle.

In a video, the shape, its color and its actions are sampled uniformly; within these classes shade, radius, position,
rotation and distance vary. Half of the videos have one action, half have two in sequence: "a red ring grows, then moves
up". A single frame does not determine the actions, and two frames do not determine their order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seq2see.core.seeds import generator
from seq2see.data.generated.shapes.rasterize import SHAPES, coverage
from seq2see.data.progress import in_batches

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


VIDEO_SHAPE_NAMES = ("bar", "circle", "cross", "ring", "triangle")
"""Shapes that can be distinguished in a few pixels."""
ACTIONS = {
    "moves to the left": (-1, 0, 0),
    "moves to the right": (1, 0, 0),
    "moves up": (0, -1, 0),
    "moves down": (0, 1, 0),
    "grows": (0, 0, 1),
    "shrinks": (0, 0, -1),
    "stands still": (0, 0, 0),
}
"""The change of column, row and size of each action. The last occurs only alone, because a shape stands still after
every other action."""
MOVE_DISTANCE, GROWTH_FACTOR, MIN_RADIUS, EXTRA_RADIUS = (0.24, 0.3), 1.7, (0.17, 0.2), 0.08
"""The distance of a movement (as a share of the image size), the factor of a growth, the range of the smallest radius,
and the extra radius of shapes whose size is constant."""
NOVEL_EVERY = 8
"""One in eight captions does not occur in training: its words do, but not in this combination."""
VIDEOS_PER_BATCH = 64
"""Videos rendered at a time."""


@dataclass(frozen=True)
class MovingScenes:
    """The attributes of many videos, one number, vector or matrix for each video."""

    shape_ids: NDArray[np.int64]
    colors: NDArray[np.int64]
    actions: NDArray[np.int64]  # (video, 2): the first and the second; two equal ones are a single action
    rgb: NDArray[np.float32]  # (video, channel)
    radii: NDArray[np.float32]  # (video, frame), as shares of the image size
    centers: NDArray[np.float32]  # (video, frame, 2): column and row, as shares of the image size
    rotations: NDArray[np.float32]

    @staticmethod
    def sample(count: int, frames: int, seed: int, purpose: str) -> MovingScenes:
        """Sample the attributes of `count` videos; training videos exclude the novel combinations."""
        rng = generator(seed, f"films/{purpose}")
        shape_ids, colors, actions = _sample_words(count, rng, without_novel=purpose == "train")
        rgb = np.array(list(COLORS.values()))[colors] + rng.normal(0, COLOR_STD, (count, 3))
        changes = _changes(actions, frames)
        moved = changes[..., :2] * rng.uniform(*MOVE_DISTANCE, (count, 1, 1))
        scale = GROWTH_FACTOR ** (changes[..., 2] - changes[..., 2].min(1, keepdims=True))
        constant_size = (changes[..., 2] == 0).all(1, keepdims=True)
        radii = scale * rng.uniform(MIN_RADIUS[0], np.where(constant_size, MIN_RADIUS[1] + EXTRA_RADIUS, MIN_RADIUS[1]))
        first, last = (radii[..., None] - moved).max(1), (1 - radii[..., None] - moved).min(1)  # always inside
        centers = moved + (first + rng.random((count, 2)) * (last - first))[:, None]
        rotations = rng.uniform(-MAX_ROTATION, MAX_ROTATION, count)
        arrays = (each.astype(np.float32) for each in (rgb.clip(0, 255), radii, centers, rotations))
        return MovingScenes(shape_ids, colors, actions, *arrays)

    def __len__(self) -> int:
        return len(self.shape_ids)

    @property
    def captions(self) -> tuple[str, ...]:
        """The caption of each video, such as "a red ring grows, then moves up"."""
        colors, actions = tuple(COLORS), tuple(ACTIONS)
        return tuple(
            f"{'an' if colors[color] == 'orange' else 'a'} {colors[color]} {VIDEO_SHAPE_NAMES[shape]} {actions[first]}"
            + (f", then {actions[second]}" if first != second else "")
            for color, shape, (first, second) in zip(self.colors, self.shape_ids, self.actions, strict=True)
        )

    def render(self, image_size: int, seed: int, purpose: str) -> NDArray[np.uint8]:
        """(video, frame, row, column, channel): the videos as pixels, with random background and noise."""
        pixels = np.empty((*self.radii.shape, image_size, image_size, 3), np.uint8)
        for rows in in_batches("rendering videos", len(self), VIDEOS_PER_BATCH):
            pixels[rows] = self._render(rows, image_size, generator(seed, f"films/{purpose}/behind", rows.start))
        return pixels

    def _render(self, rows: slice, image_size: int, rng: np.random.Generator) -> NDArray[np.uint8]:
        shape_ids, frames = self.shape_ids[rows], self.radii.shape[1]
        dimensions = (len(shape_ids), frames, image_size, image_size, 3)
        canvas = np.float32(NOISE_STD) * rng.standard_normal(dimensions, np.float32)
        canvas += rng.uniform(15, 90, (len(shape_ids), 1, 1, 1, 3)).astype(np.float32)
        for shape, name in enumerate(VIDEO_SHAPE_NAMES):
            members = np.flatnonzero(shape_ids == shape)
            indices = members + rows.start
            centers = self.centers[indices].reshape(-1, 2) * image_size
            radii = self.radii[indices].reshape(-1) * image_size
            mask = coverage(name, centers, radii, self.rotations[indices].repeat(frames), image_size)
            mask = mask.reshape(len(members), frames, image_size, image_size, 1)
            canvas[members] += mask * (self.rgb[indices, None, None, None] - canvas[members])
        return np.clip(canvas, 0, 255).astype(np.uint8)


def _sample_words(count: int, rng: np.random.Generator, without_novel: bool) -> tuple[NDArray[np.int64], ...]:
    """The sampled attributes: (video,) shapes, (video,) colors and (video, 2) actions."""
    samples = 2 * count + NOVEL_EVERY  # enough to fill `count` videos without the novel ones
    shape_ids, colors = rng.integers(len(VIDEO_SHAPE_NAMES), size=samples), rng.integers(len(COLORS), size=samples)
    actions = rng.integers(len(ACTIONS), size=(samples, 2))
    alone = (rng.random(samples) < 0.5) | (actions == len(ACTIONS) - 1).any(1)
    actions[alone, 1] = actions[alone, 0]
    selected = np.flatnonzero(~is_novel(shape_ids, colors, actions) | (not without_novel))[:count]
    return shape_ids[selected], colors[selected], actions[selected]


def is_novel(shape_ids: NDArray[np.int64], colors: NDArray[np.int64], actions: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(video,): whether the combination does not occur in training."""
    return (shape_ids + 3 * colors + actions[:, 0] + 5 * actions[:, 1]) % NOVEL_EVERY == 0


def _changes(actions: NDArray[np.int64], frames: int) -> NDArray[np.float64]:
    """(video, frame, 3): the sum of the actions up to this frame, in columns, rows and growth."""
    times = np.linspace(0, 1, frames)
    one, two = (times, 0 * times), (np.clip(2 * times, 0, 1), np.clip(2 * times - 1, 0, 1))
    single = (actions[:, 0] == actions[:, 1])[:, None, None]
    progress = np.where(single, np.stack(one, 1), np.stack(two, 1))  # (video, frame, action)
    return np.matmul(progress, np.array(list(ACTIONS.values()), np.float64)[actions])
