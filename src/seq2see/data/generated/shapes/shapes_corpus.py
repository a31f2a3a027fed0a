"""Generated shapes as a corpus of a recipe: labeled or captioned images, and captioned videos."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from seq2see.core.settings import Settings
from seq2see.data.examples import ImageExamples
from seq2see.data.generated.shapes.scenes import MovingScenes, Scenes
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
