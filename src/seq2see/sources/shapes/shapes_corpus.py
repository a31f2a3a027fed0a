"""Drawn shapes as a corpus of a recipe."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from seq2see.core.settings import Settings
from seq2see.sources.data_report import DataReport
from seq2see.sources.image_examples import ImageExamples
from seq2see.sources.shapes.moving_scenes import MovingScenes
from seq2see.sources.shapes.scenes import Scenes

SEED = 1
"""The scenes are the same for everybody, whatever the seed of a training is."""
HELD_OUT = 1000
"""Images to validate on, and to test on."""
LUMA_WEIGHTS = np.array([0.299, 0.587, 0.114], np.float32)
"""How much red, green and blue count in the brightness of a pixel (ITU-R BT.601)."""


class ShapesCorpus(Settings):
    """Drawn scenes, and what is to be seen in them: ten shapes of any color, size and place."""

    kind: Literal["shapes"] = "shapes"
    size: int = Field(default=20_000, ge=1, le=1_000_000)
    """How many images to train on; the other splits do not depend on it."""
    annotation: Literal["shape", "caption"] = "shape"
    """What is said of an image: the name of its shape, or a caption such as "a small red star at the top left"."""

    def images(self, side: int, channels: int) -> tuple[dict[str, ImageExamples], list[DataReport]]:
        """Train, valid and test, and no complaints; each image is called by its caption, unless that is asked for."""
        counts = {"train": self.size, "valid": HELD_OUT, "test": HELD_OUT}
        splits = {}
        for name, count in counts.items():
            scenes = Scenes.sample(count, SEED, name)
            pixels = _in_channels(scenes.render(side, SEED, name), channels)
            numbers = tuple(f"{name} {number}" for number in range(count))
            named = (scenes.labels, scenes.captions) if self.annotation == "shape" else (scenes.captions, numbers)
            splits[name] = ImageExamples(pixels, *named)
        return splits, []


class MovingShapesCorpus(Settings):
    """Drawn videos of a shape that does something, and what it does, as "a red ring grows, then moves up"."""

    kind: Literal["moving-shapes"] = "moving-shapes"
    size: int = Field(default=8_000, ge=1, le=100_000)
    """How many videos to train on; the other splits do not depend on it."""

    def videos(self, side: int, channels: int, frames: int) -> tuple[dict[str, ImageExamples], list[DataReport]]:
        """Train, valid and test, and no complaints; of the latter two one sentence in eight is new."""
        splits = {}
        for name, count in {"train": self.size, "valid": HELD_OUT, "test": HELD_OUT}.items():
            scenes = MovingScenes.sample(count, frames, SEED, name)
            pixels = _in_channels(scenes.render(side, SEED, name), channels)
            splits[name] = ImageExamples(pixels, scenes.captions, tuple(f"{name} {each}" for each in range(count)))
        return splits, []


def _in_channels(pixels: NDArray[np.uint8], channels: int) -> NDArray[np.uint8]:
    return pixels if channels == 3 else (pixels @ LUMA_WEIGHTS).round().astype(np.uint8)[..., None]
