"""What is shown of an image in training: other views of it, drawn anew at every step, one row of the batch at a time.

First it is moved and mirrored, then changed strongly, then a piece is hidden, and at last two images are mixed. What
is drawn depends on (seed, step, image) alone, so a resumed run sees what the uninterrupted one would have seen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from seq2see.core.batch import Batch, Images, MixedBatch
from seq2see.core.settings import Settings
from seq2see.sequences.buckets import IntArray
from seq2see.sequences.counter_rng import CounterRng
from seq2see.sequences.image_transforms import Cutout, Flip, Shift
from seq2see.sequences.mixup import CutMix, Mixup, MixupOrCutMix
from seq2see.sequences.rand_augment import RandAugment


class Augmentation(Settings):
    """How the images to learn from are varied, anew at every step."""

    shift: int = Field(0, ge=0)
    """Pixels by which an image is moved, at most, in both directions; mirrors stand at its edges."""
    flip: bool = False
    """Whether left and right are exchanged in half of the images; letters and digits do not bear it."""
    rand_augment: int = Field(0, ge=0)
    """Strong changes that an image goes through one after another: turned, darker, with fewer tones (RandAugment)."""
    magnitude: float = Field(0.3, ge=0, le=1)
    """How strong these changes are."""
    cutout: int = Field(0, ge=0)
    """Pixels on each side of a square that is hidden; 0 hides nothing."""
    mixup: float = Field(0.0, ge=0)
    """Two images shine through each other, by shares drawn from Beta(α, α) with this α; 0 mixes none."""
    cutmix: float = Field(0.0, ge=0)
    """A piece of one image is glued into another, of a size drawn likewise; 0 glues none. With mixup: by turns."""
    repeats: int = Field(1, ge=1)
    """How many views of each image a step sees, of as many times fewer images (repeated augmentation)."""

    def augmenter(self, seed: int) -> Augmenter:
        """What makes views of batches."""
        return Augmenter(self, seed)


class Transform(Protocol):
    """Pixels in, as many pixels out."""

    def __call__(self, pixels: Tensor, rng: CounterRng) -> Tensor:
        """Every image changed by draws of its own."""


class Augmenter:
    """Batches as a step of training sees them."""

    def __init__(self, augmentation: Augmentation, seed: int):
        self.seed, self.repeats = seed, augmentation.repeats
        chosen: list[tuple[bool, Transform]] = [
            (augmentation.shift > 0, Shift(augmentation.shift)),
            (augmentation.flip, Flip()),
            (augmentation.rand_augment > 0, RandAugment(augmentation.rand_augment, augmentation.magnitude)),
            (augmentation.cutout > 0, Cutout(augmentation.cutout)),
        ]
        self.augmentation = [transform for wanted, transform in chosen if wanted]
        self.mix = _mixture(augmentation)

    def repeat_indices(self, indices: IntArray) -> IntArray:
        """Images as often as they are shown: all of them, then all again, so that none is mixed with itself."""
        return np.tile(indices, self.repeats)

    def __call__(self, batch: Batch, step: int | Tensor) -> Batch:
        """The same batch in other views; nothing waits for a GPU, so that a CUDA graph can record it."""
        assert isinstance(batch.source, Images)
        pixels, rows = batch.source.values, torch.arange(len(batch.indices), device=batch.indices.device)
        repeat = batch.indices * self.repeats + rows * self.repeats // len(rows)
        rng = CounterRng(self.seed, step, repeat.to(pixels.device))
        for transform in self.augmentation:
            pixels = transform(pixels, rng)
        if self.mix is None:
            return replace(batch, source=replace(batch.source, values=pixels))
        pixels, label_weights = self.mix(pixels, rng)
        other_labels = batch.labels.roll(1, 0)
        return MixedBatch(Images(pixels), None, batch.labels, batch.indices, other_labels, label_weights)


def _mixture(augmentation: Augmentation) -> Mixup | MixupOrCutMix | None:
    if augmentation.mixup and augmentation.cutmix:
        return MixupOrCutMix(Mixup(augmentation.mixup), CutMix(augmentation.cutmix))
    if augmentation.cutmix:
        return CutMix(augmentation.cutmix)
    return Mixup(augmentation.mixup) if augmentation.mixup else None
