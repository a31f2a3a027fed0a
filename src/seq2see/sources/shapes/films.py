"""Films: a shape that does something, drawn by lot, said in words, and painted frame by frame.

What it is, its colour and its deeds are drawn evenly; inside these words everything varies (shade, radius, place, turn,
how far it goes). Half of the films have one deed, half have two, one after the other: "a red ring grows, then moves
up". No frame alone tells which, and no two frames tell in which order. Compare `scenes.py`, where nothing moves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seq2see.core.seeds import generator
from seq2see.sources.progress import in_lots
from seq2see.sources.shapes.drawing import cover
from seq2see.sources.shapes.scenes import COLOURS, NOISE, SHADE, TURN

KINDS = ("bar", "circle", "cross", "ring", "triangle")
"""Shapes that can be told apart in a few pixels."""
DEEDS = {
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
REACH, GROWTH, SMALLEST, LARGER = (0.24, 0.3), 1.7, (0.17, 0.2), 0.08
"""How far a shape moves (of the side), by how much it grows, its smallest radius, and how much more one may have that
keeps its size."""
NEW = 8
"""One in so many sentences is never shown in training: its words are known, but not together."""
CHUNK = 64
"""Films painted at one time."""


@dataclass(frozen=True)
class MovingScenes:
    """What is to be seen in each of many films."""

    kinds: NDArray[np.int64]
    colours: NDArray[np.int64]
    deeds: NDArray[np.int64]  # (film, 2): the first and the second; the same twice is one
    shades: NDArray[np.float32]  # (film, channel)
    radii: NDArray[np.float32]  # (film, frame), as shares of the side
    middles: NDArray[np.float32]  # (film, frame, 2): column and row, as shares of the side
    turns: NDArray[np.float32]

    @staticmethod
    def drawn(count: int, frames: int, seed: int, purpose: str) -> MovingScenes:
        """Draw lots; only those to train on leave out what is to be new."""
        lots = generator(seed, f"films/{purpose}")
        kinds, colours, deeds = _words(count, lots, leave_out=purpose == "train")
        shades = np.array(list(COLOURS.values()))[colours] + lots.normal(0, SHADE, (count, 3))
        changes = _changes(deeds, frames)
        moved = changes[..., :2] * lots.uniform(*REACH, (count, 1, 1))
        grown = GROWTH ** (changes[..., 2] - changes[..., 2].min(1, keepdims=True))
        same = (changes[..., 2] == 0).all(1, keepdims=True)
        radii = grown * lots.uniform(SMALLEST[0], np.where(same, SMALLEST[1] + LARGER, SMALLEST[1]))
        first, last = (radii[..., None] - moved).max(1), (1 - radii[..., None] - moved).min(1)  # always inside
        middles = moved + (first + lots.random((count, 2)) * (last - first))[:, None]
        turns = lots.uniform(-TURN, TURN, count)
        plain = (each.astype(np.float32) for each in (shades.clip(0, 255), radii, middles, turns))
        return MovingScenes(kinds, colours, deeds, *plain)

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def captions(self) -> tuple[str, ...]:
        """Each film in words: "a red ring grows, then moves up"."""
        colours, deeds = tuple(COLOURS), tuple(DEEDS)
        return tuple(
            f"{'an' if colours[colour] == 'orange' else 'a'} {colours[colour]} {KINDS[kind]} {deeds[first]}"
            + (f", then {deeds[second]}" if first != second else "")
            for colour, kind, (first, second) in zip(self.colours, self.kinds, self.deeds, strict=True)
        )

    def paint(self, side: int, seed: int, purpose: str) -> NDArray[np.uint8]:
        """(film, frame, row, column, channel): the films as pixels; the ground and the noise depend on the seed."""
        pixels = np.empty((*self.radii.shape, side, side, 3), np.uint8)
        for rows in in_lots("drawing films", len(self), CHUNK):
            pixels[rows] = self._painted(rows, side, generator(seed, f"films/{purpose}/behind", rows.start))
        return pixels

    def _painted(self, rows: slice, side: int, lots: np.random.Generator) -> NDArray[np.uint8]:
        kinds, frames = self.kinds[rows], self.radii.shape[1]
        canvas = np.float32(NOISE) * lots.standard_normal((len(kinds), frames, side, side, 3), np.float32)
        canvas += lots.uniform(15, 90, (len(kinds), 1, 1, 1, 3)).astype(np.float32)
        for kind, name in enumerate(KINDS):
            there = np.flatnonzero(kinds == kind)
            mine = there + rows.start
            middles, radii = self.middles[mine].reshape(-1, 2) * side, self.radii[mine].reshape(-1) * side
            share = cover(name, middles, radii, self.turns[mine].repeat(frames), side)
            share = share.reshape(len(there), frames, side, side, 1)
            canvas[there] += share * (self.shades[mine, None, None, None] - canvas[there])
        return np.clip(canvas, 0, 255).astype(np.uint8)


def _words(count: int, lots: np.random.Generator, leave_out: bool) -> tuple[NDArray[np.int64], ...]:
    """What is said of each film: (film,) shapes, (film,) colours and (film, 2) deeds."""
    drawn = 2 * count + NEW  # more than enough, whatever is left out
    kinds, colours = lots.integers(len(KINDS), size=drawn), lots.integers(len(COLOURS), size=drawn)
    deeds = lots.integers(len(DEEDS), size=(drawn, 2))
    alone = (lots.random(drawn) < 0.5) | (deeds == len(DEEDS) - 1).any(1)
    deeds[alone, 1] = deeds[alone, 0]
    kept = np.flatnonzero(~is_new(kinds, colours, deeds) | (not leave_out))[:count]
    return kinds[kept], colours[kept], deeds[kept]


def is_new(kinds: NDArray[np.int64], colours: NDArray[np.int64], deeds: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(film,): whether its sentence is one that is never shown in training."""
    return (kinds + 3 * colours + deeds[:, 0] + 5 * deeds[:, 1]) % NEW == 0


def _changes(deeds: NDArray[np.int64], frames: int) -> NDArray[np.float64]:
    """(film, frame, 3): how much of its deeds is done, in columns, rows and growth."""
    times = np.linspace(0, 1, frames)
    one, two = (times, 0 * times), (np.clip(2 * times, 0, 1), np.clip(2 * times - 1, 0, 1))
    single = (deeds[:, 0] == deeds[:, 1])[:, None, None]
    done = np.where(single, np.stack(one, 1), np.stack(two, 1))  # (film, frame, deed)
    return np.matmul(done, np.array(list(DEEDS.values()), np.float64)[deeds])
