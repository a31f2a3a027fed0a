"""Videos: a shape that does something, drawn by lot, said in words, and painted frame by frame.

What it is, its color and its deeds are drawn evenly; inside these words everything varies (shade, radius, place, turn,
how far it goes). Half of the videos have one deed, half have two, one after the other: "a red ring grows, then moves
up". No frame alone tells which, and no two frames tell in which order. Compare `scenes.py`, where nothing moves.
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
"""Shapes that can be told apart in a few pixels."""
ACTIONS = {
    "moves to the left": (-1, 0, 0),
    "moves to the right": (1, 0, 0),
    "moves up": (0, -1, 0),
    "moves down": (0, 1, 0),
    "grows": (0, 0, 1),
    "shrinks": (0, 0, -1),
    "stands still": (0, 0, 0),
}
"""What changes, and in which direction: the column, the row, the size. The last is done alone, and never after another:
who has stopped stands still anyway."""
MOVE_DISTANCE, GROWTH_FACTOR, MIN_RADIUS, EXTRA_RADIUS = (0.24, 0.3), 1.7, (0.17, 0.2), 0.08
"""How far a shape moves (of the side), by how much it grows, its smallest radius, and how much more one may have that
keeps its size."""
NOVEL_EVERY = 8
"""One in so many sentences is never shown in training: its words are known, but not together."""
RENDER_BATCH = 64
"""Videos painted at one time."""


@dataclass(frozen=True)
class MovingScenes:
    """What is to be seen in each of many videos."""

    shape_ids: NDArray[np.int64]
    colors: NDArray[np.int64]
    actions: NDArray[np.int64]  # (video, 2): the first and the second; the same twice is one
    rgb: NDArray[np.float32]  # (video, channel)
    radii: NDArray[np.float32]  # (video, frame), as shares of the side
    centers: NDArray[np.float32]  # (video, frame, 2): column and row, as shares of the side
    rotations: NDArray[np.float32]

    @staticmethod
    def sample(count: int, frames: int, seed: int, purpose: str) -> MovingScenes:
        """Draw lots; only those to train on leave out what is to be new."""
        lots = generator(seed, f"films/{purpose}")
        shape_ids, colors, actions = _sample_words(count, lots, leave_out=purpose == "train")
        rgb = np.array(list(COLORS.values()))[colors] + lots.normal(0, COLOR_STD, (count, 3))
        changes = _changes(actions, frames)
        moved = changes[..., :2] * lots.uniform(*MOVE_DISTANCE, (count, 1, 1))
        grown = GROWTH_FACTOR ** (changes[..., 2] - changes[..., 2].min(1, keepdims=True))
        same = (changes[..., 2] == 0).all(1, keepdims=True)
        radii = grown * lots.uniform(MIN_RADIUS[0], np.where(same, MIN_RADIUS[1] + EXTRA_RADIUS, MIN_RADIUS[1]))
        first, last = (radii[..., None] - moved).max(1), (1 - radii[..., None] - moved).min(1)  # always inside
        centers = moved + (first + lots.random((count, 2)) * (last - first))[:, None]
        rotations = lots.uniform(-MAX_ROTATION, MAX_ROTATION, count)
        plain = (each.astype(np.float32) for each in (rgb.clip(0, 255), radii, centers, rotations))
        return MovingScenes(shape_ids, colors, actions, *plain)

    def __len__(self) -> int:
        return len(self.shape_ids)

    @property
    def captions(self) -> tuple[str, ...]:
        """Each video in words: "a red ring grows, then moves up"."""
        colors, actions = tuple(COLORS), tuple(ACTIONS)
        return tuple(
            f"{'an' if colors[color] == 'orange' else 'a'} {colors[color]} {SHAPE_NAMES[kind]} {actions[first]}"
            + (f", then {actions[second]}" if first != second else "")
            for color, kind, (first, second) in zip(self.colors, self.shape_ids, self.actions, strict=True)
        )

    def render(self, side: int, seed: int, purpose: str) -> NDArray[np.uint8]:
        """(video, frame, row, column, channel): the videos as pixels; the ground and the noise depend on the seed."""
        pixels = np.empty((*self.radii.shape, side, side, 3), np.uint8)
        for rows in in_batches("drawing videos", len(self), RENDER_BATCH):
            pixels[rows] = self._render(rows, side, generator(seed, f"films/{purpose}/behind", rows.start))
        return pixels

    def _render(self, rows: slice, side: int, lots: np.random.Generator) -> NDArray[np.uint8]:
        shape_ids, frames = self.shape_ids[rows], self.radii.shape[1]
        canvas = np.float32(NOISE_STD) * lots.standard_normal((len(shape_ids), frames, side, side, 3), np.float32)
        canvas += lots.uniform(15, 90, (len(shape_ids), 1, 1, 1, 3)).astype(np.float32)
        for kind, name in enumerate(SHAPE_NAMES):
            there = np.flatnonzero(shape_ids == kind)
            mine = there + rows.start
            centers, radii = self.centers[mine].reshape(-1, 2) * side, self.radii[mine].reshape(-1) * side
            share = coverage(name, centers, radii, self.rotations[mine].repeat(frames), side)
            share = share.reshape(len(there), frames, side, side, 1)
            canvas[there] += share * (self.rgb[mine, None, None, None] - canvas[there])
        return np.clip(canvas, 0, 255).astype(np.uint8)


def _sample_words(count: int, lots: np.random.Generator, leave_out: bool) -> tuple[NDArray[np.int64], ...]:
    """What is said of each video: (video,) shapes, (video,) colors and (video, 2) deeds."""
    drawn = 2 * count + NOVEL_EVERY  # more than enough, whatever is left out
    shape_ids, colors = lots.integers(len(SHAPE_NAMES), size=drawn), lots.integers(len(COLORS), size=drawn)
    actions = lots.integers(len(ACTIONS), size=(drawn, 2))
    alone = (lots.random(drawn) < 0.5) | (actions == len(ACTIONS) - 1).any(1)
    actions[alone, 1] = actions[alone, 0]
    kept = np.flatnonzero(~is_novel(shape_ids, colors, actions) | (not leave_out))[:count]
    return shape_ids[kept], colors[kept], actions[kept]


def is_novel(shape_ids: NDArray[np.int64], colors: NDArray[np.int64], actions: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(video,): whether its sentence is one that is never shown in training."""
    return (shape_ids + 3 * colors + actions[:, 0] + 5 * actions[:, 1]) % NOVEL_EVERY == 0


def _changes(actions: NDArray[np.int64], frames: int) -> NDArray[np.float64]:
    """(video, frame, 3): how much of its deeds is done, in columns, rows and growth."""
    times = np.linspace(0, 1, frames)
    one, two = (times, 0 * times), (np.clip(2 * times, 0, 1), np.clip(2 * times - 1, 0, 1))
    single = (actions[:, 0] == actions[:, 1])[:, None, None]
    done = np.where(single, np.stack(one, 1), np.stack(two, 1))  # (video, frame, deed)
    return np.matmul(done, np.array(list(ACTIONS.values()), np.float64)[actions])
