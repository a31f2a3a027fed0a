"""Shapes: generated images and videos of one shape each, whose content is known, with labels or captions.

A corpus samples scenes, that is, the attributes of its images or videos; a scene has a caption, and is rendered.

In an image, the shape, its color, its size (small or large) and its position (one ninth of the image) are sampled
uniformly; within these classes shade, radius, exact position and rotation vary. A dark background, specks and noise
carry no information. The classes are disjoint: no radius lies between small and large, and no position between left and
middle.

In a video, the shape, its color and its actions are sampled uniformly; within these classes shade, radius, position,
rotation and distance vary. Half of the videos have one action, half have two in sequence: "a red ring grows, then moves
up". A single frame does not determine the actions, and two frames do not determine their order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from seq2see.core.seeds import generator
from seq2see.core.settings import Settings
from seq2see.data.examples import ImageExamples
from seq2see.data.progress import in_batches
from seq2see.data.readers.data_report import DataReport

SEED = 1
"""The seed of the scenes, which does not depend on the seed of the training."""
HELD_OUT = 1000
"""The number of images in each of valid and test."""
LUMA_WEIGHTS = np.array([0.299, 0.587, 0.114], np.float32)
"""The weights of red, green and blue in the luma of a pixel (ITU-R BT.601)."""


class ShapesCorpus(Settings):
    """Generated images of one of ten shapes in any color, size and position, with labels or captions."""

    kind: Literal["shapes"] = "shapes"
    size: int = Field(default=20_000, ge=1, le=1_000_000)
    """The number of training images; the other splits do not depend on it."""
    annotation: Literal["label", "caption"] = "label"
    """The target of an image: the name of its shape, or a caption such as "a small red star at the top left"."""

    def images(self, image_size: int, channels: int) -> tuple[dict[str, ImageExamples], list[DataReport]]:
        """Train, valid and test, and no data reports; the name of a labeled image is its caption."""
        counts = {"train": self.size, "valid": HELD_OUT, "test": HELD_OUT}
        splits = {}
        for name, count in counts.items():
            scenes = Scenes.sample(count, SEED, name)
            pixels = _in_channels(scenes.render(image_size, SEED, name), channels)
            if self.annotation == "label":
                splits[name] = ImageExamples(pixels, scenes.labels, scenes.captions)
            else:
                numbers = tuple(f"{name} {number}" for number in range(count))
                splits[name] = ImageExamples(pixels, scenes.captions, numbers)
        return splits, []


class MovingShapesCorpus(Settings):
    """Generated videos of a moving shape, with captions such as "a red ring grows, then moves up"."""

    kind: Literal["moving-shapes"] = "moving-shapes"
    size: int = Field(default=8_000, ge=1, le=100_000)
    """The number of training videos; the other splits do not depend on it."""

    def videos(self, image_size: int, channels: int, frames: int) -> tuple[dict[str, ImageExamples], list[DataReport]]:
        """Train, valid and test, and no data reports; one in eight captions of valid and test is novel."""
        splits = {}
        for name, count in {"train": self.size, "valid": HELD_OUT, "test": HELD_OUT}.items():
            scenes = MovingScenes.sample(count, frames, SEED, name)
            pixels = _in_channels(scenes.render(image_size, SEED, name), channels)
            splits[name] = ImageExamples(pixels, scenes.captions, tuple(f"{name} {each}" for each in range(count)))
        return splits, []


def _in_channels(pixels: NDArray[np.uint8], channels: int) -> NDArray[np.uint8]:
    return pixels if channels == 3 else (pixels @ LUMA_WEIGHTS).round().astype(np.uint8)[..., None]


# --- scenes of images ---


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


# --- scenes of videos ---


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


# --- Rasterization: each shape is a signed distance function, positive inside, negative outside. A point has
# coordinates (u, v) relative to the center of its shape, in units of its radius; v grows downwards. The distance times
# the radius is a distance in pixels, and within half a pixel of the edge a pixel is partially covered: this gives
# anti-aliased edges without supersampling. ---


PerPixel = NDArray[np.float32]
"""(image, row, column): a value for each pixel."""
PerImage = NDArray[np.float32]
"""(image,) or (image, 2): a value or a point for each image."""


def circle(u: PerPixel, v: PerPixel) -> PerPixel:
    """1 - r."""
    return 1 - np.hypot(u, v)


def ring(u: PerPixel, v: PerPixel) -> PerPixel:
    """The area between two circles."""
    return np.float32(0.23) - np.abs(np.hypot(u, v) - np.float32(0.77))


def square(u: PerPixel, v: PerPixel) -> PerPixel:
    """max(|u|, |v|) is at most 0.85."""
    return np.float32(0.85) - np.maximum(np.abs(u), np.abs(v))


def diamond(u: PerPixel, v: PerPixel) -> PerPixel:
    """|u| + |v| < 1, scaled to be narrower than high, so that it is not a rotated square."""
    return (1 - np.float32(1.35) * np.abs(u) - np.abs(v)) * np.float32(0.6)


def triangle(u: PerPixel, v: PerPixel) -> PerPixel:
    """The inner side of three lines."""
    return np.float32(0.5) - np.maximum(v, np.float32(0.866) * np.abs(u) - np.float32(0.5) * v)


def bar(u: PerPixel, v: PerPixel) -> PerPixel:
    """A flat rectangle."""
    return np.minimum(1 - np.abs(u), np.float32(0.3) - np.abs(v))


def cross(u: PerPixel, v: PerPixel) -> PerPixel:
    """The union of two bars."""
    return np.maximum(bar(u, v), bar(v, u))


def star(u: PerPixel, v: PerPixel) -> PerPixel:
    """A pentagram of five lines: the points on the inner side of at least four of them."""
    angles = np.pi / 2 + np.arange(5, dtype=np.float32) * np.float32(2 * np.pi / 5)
    inside = [np.float32(0.309) - (np.cos(a) * u + np.sin(a) * v).astype(np.float32) for a in angles]
    lowest = np.minimum(inside[0], inside[1])
    second = np.maximum(inside[0], inside[1])
    for each in inside[2:]:
        second = np.minimum(second, np.maximum(lowest, each))
        lowest = np.minimum(lowest, each)
    return second


def moon(u: PerPixel, v: PerPixel) -> PerPixel:
    """A circle without its intersection with another."""
    return np.minimum(circle(u, v), np.hypot(u - np.float32(0.5), v) - np.float32(0.8))


def heart(u: PerPixel, v: PerPixel) -> PerPixel:
    """The union of two adjacent circles and a triangle below them."""
    side = np.abs(u)
    lobes = np.float32(0.5) - np.hypot(side - np.float32(0.45), v + np.float32(0.35))
    point = np.minimum((np.float32(0.95) - np.float32(1.35) * side - v) * np.float32(0.6), v + np.float32(0.35))
    return np.maximum(lobes, point)


SHAPES: dict[str, Callable[[PerPixel, PerPixel], PerPixel]] = {
    "bar": bar,
    "circle": circle,
    "cross": cross,
    "diamond": diamond,
    "heart": heart,
    "moon": moon,
    "ring": ring,
    "square": square,
    "star": star,
    "triangle": triangle,
}
SHAPE_NAMES = tuple(SHAPES)


def coverage(name: str, centers: PerImage, radii: PerImage, rotations: PerImage, image_size: int) -> PerPixel:
    """(image, row, column): the share of each pixel that a shape covers; `centers` are (column, row) in pixels."""
    pixels = np.arange(image_size, dtype=np.float32) + np.float32(0.5)
    across = (pixels[None, None, :] - centers[:, 0, None, None]) / radii[:, None, None]
    down = (pixels[None, :, None] - centers[:, 1, None, None]) / radii[:, None, None]
    cosine, sine = np.cos(rotations)[:, None, None], np.sin(rotations)[:, None, None]
    depth = SHAPES[name](cosine * across + sine * down, cosine * down - sine * across)
    return np.clip(depth * radii[:, None, None] + np.float32(0.5), 0, 1)
