"""Videos of one shape with sampled attributes and actions, their captions, and their rendering frame by frame.

The shape, its color and its actions are sampled uniformly; within these classes shade, radius, position, rotation and
distance vary. Half of the videos have one action, half have two in sequence: "a red ring grows, then moves up". A
single frame does not determine the actions, and two frames do not determine their order. Compare `scenes.py`, which
has still images.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seq2see.core.seeds import generator
from seq2see.sources.progress import in_batches
from seq2see.sources.shapes.rasterize import coverage
from seq2see.sources.shapes.scenes import COLOR_STD, COLORS, MAX_ROTATION, NOISE_STD

SHAPE_NAMES = ("bar", "circle", "cross", "ring", "triangle")
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
RENDER_BATCH = 64
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
            f"{'an' if colors[color] == 'orange' else 'a'} {colors[color]} {SHAPE_NAMES[shape]} {actions[first]}"
            + (f", then {actions[second]}" if first != second else "")
            for color, shape, (first, second) in zip(self.colors, self.shape_ids, self.actions, strict=True)
        )

    def render(self, image_size: int, seed: int, purpose: str) -> NDArray[np.uint8]:
        """(video, frame, row, column, channel): the videos as pixels, with random background and noise."""
        pixels = np.empty((*self.radii.shape, image_size, image_size, 3), np.uint8)
        for rows in in_batches("rendering videos", len(self), RENDER_BATCH):
            pixels[rows] = self._render(rows, image_size, generator(seed, f"films/{purpose}/behind", rows.start))
        return pixels

    def _render(self, rows: slice, image_size: int, rng: np.random.Generator) -> NDArray[np.uint8]:
        shape_ids, frames = self.shape_ids[rows], self.radii.shape[1]
        dimensions = (len(shape_ids), frames, image_size, image_size, 3)
        canvas = np.float32(NOISE_STD) * rng.standard_normal(dimensions, np.float32)
        canvas += rng.uniform(15, 90, (len(shape_ids), 1, 1, 1, 3)).astype(np.float32)
        for shape, name in enumerate(SHAPE_NAMES):
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
    shape_ids, colors = rng.integers(len(SHAPE_NAMES), size=samples), rng.integers(len(COLORS), size=samples)
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
