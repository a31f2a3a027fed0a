"""Augmentation of training images: each image of a batch is transformed anew at every step.

The order is: shift and flip, RandAugment, cutout, and finally mixup or CutMix. The random numbers depend on (seed,
step, image) alone, so a resumed run computes the same images as an uninterrupted one.
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
    """Augmentation of training images, sampled anew at every step."""

    shift: int = Field(0, ge=0)
    """Random shift: the maximum number of pixels in each direction; edges are padded by reflection."""
    flip: bool = False
    """Random horizontal flip of half of the images; not for letters and digits."""
    rand_augment: int = Field(0, ge=0)
    """RandAugment: the number of operations per image (rotate, shear, brightness, posterize, ...)."""
    magnitude: float = Field(0.3, ge=0, le=1)
    """RandAugment: the magnitude of the operations."""
    cutout: int = Field(0, ge=0)
    """Cutout: the side of the gray square, in pixels; 0: off."""
    mixup: float = Field(0.0, ge=0)
    """Mixup: blend two images with a weight from Beta(α, α), for this α; 0: off."""
    cutmix: float = Field(0.0, ge=0)
    """CutMix: paste a patch of another image, of a size from Beta(α, α); 0: off. With mixup, one of both at random."""
    repeats: int = Field(1, ge=1)
    """Repeated augmentation: the number of augmented copies of each image per batch; the batch size is the same."""

    def augmenter(self, seed: int) -> Augmenter:
        """The augmenter for this seed."""
        return Augmenter(self, seed)


class Transform(Protocol):
    """A transform of a batch of images; the shape stays the same."""

    def __call__(self, pixels: Tensor, rng: CounterRng) -> Tensor:
        """Transform each image with random numbers of its own."""


class Augmenter:
    """Augments training batches."""

    def __init__(self, augmentation: Augmentation, seed: int):
        self.seed, self.repeats = seed, augmentation.repeats
        candidates: list[tuple[bool, Transform]] = [
            (augmentation.shift > 0, Shift(augmentation.shift)),
            (augmentation.flip, Flip()),
            (augmentation.rand_augment > 0, RandAugment(augmentation.rand_augment, augmentation.magnitude)),
            (augmentation.cutout > 0, Cutout(augmentation.cutout)),
        ]
        self.transforms = [transform for enabled, transform in candidates if enabled]
        self.mix = _mixture(augmentation)

    def repeat_indices(self, indices: IntArray) -> IntArray:
        """All images, then all again, `repeats` times: so mixup never mixes an image with itself."""
        return np.tile(indices, self.repeats)

    def __call__(self, batch: Batch, step: int | Tensor) -> Batch:
        """The augmented batch. There is no GPU sync, so a CUDA graph can capture it."""
        assert isinstance(batch.source, Images)
        pixels, rows = batch.source.values, torch.arange(len(batch.indices), device=batch.indices.device)
        repeat = batch.indices * self.repeats + rows * self.repeats // len(rows)
        rng = CounterRng(self.seed, step, repeat.to(pixels.device))
        for transform in self.transforms:
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
