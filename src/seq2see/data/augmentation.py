"""Augmentation of training images: each image of a batch is transformed anew at every step.

The order is: shift and flip, RandAugment, cutout (all in `rand_augment.py`), and finally mixup or CutMix. The random
numbers depend on (seed, step, image) alone, so a resumed run computes the same images as an uninterrupted one.

Mixup and CutMix combine two images into one, with the labels of both. Between two examples the labels are unknown, and
without further training data a model switches abruptly from one label to the other; mixtures train it to interpolate.
Every row is mixed with the previous row of its batch, whose order is random anyway. All rows are computed at once, each
with random numbers of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np
import torch
from jaxtyping import Float, UInt8
from pydantic import Field
from torch import Tensor

from seq2see.core.batch import Batch, Images, MixedBatch
from seq2see.core.seeds import CounterRng
from seq2see.core.settings import Settings
from seq2see.data.pair_dataset import IntArray
from seq2see.data.rand_augment import Cutout, Flip, PixelBatch, RandAugment, Shift, pixel_grid


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


MixWeights = Float[Tensor, "row"]
QUANTILES = 1024
"""The number of quantiles of a distribution, the last one not counted."""


def beta_quantiles(alpha: float) -> Float[Tensor, "places"]:
    """The quantiles of Beta(α, α), whose density is ~ (x (1 - x))^(α - 1): from 0 to 1 in equal steps of probability.

    By inverse transform sampling, a uniform number becomes a sample of that distribution, so no other generator is
    needed. Below 1/2 the integral over x is computed as one over u = x^α, of (1 - x)^(α - 1), which is smooth where the
    density is infinite.
    """
    u = np.linspace(0, 0.5**alpha, 16 * QUANTILES)
    x = u ** (1 / alpha)
    density = (1 - x) ** (alpha - 1)
    cumulative = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
    half = np.interp(np.linspace(0, cumulative[-1], QUANTILES // 2 + 1), cumulative, u) ** (1 / alpha)
    return torch.from_numpy(np.concatenate([half, 1 - half[-2::-1]])).float()


def quantile_at(quantiles: Float[Tensor, "places"], uniform: MixWeights) -> MixWeights:
    """Samples of the distribution with these quantiles, by linear interpolation at uniform numbers."""
    positions = uniform * (len(quantiles) - 1)
    left = positions.long()
    return quantiles[left].lerp(quantiles[left + 1], positions - left)


class Mixup:
    """λ x + (1 - λ) x', with λ from Beta(α, α) (Zhang et al. 2018, section 2)."""

    def __init__(self, alpha: float):
        self.quantiles = beta_quantiles(alpha)

    def __call__(self, pixels: PixelBatch, rng: CounterRng) -> tuple[PixelBatch, MixWeights]:
        """Every image mixed with the previous one, and the weight λ of its own label."""
        label_weights = self.label_weights("mixup", rng)
        own, other = pixels.float(), pixels.roll(1, 0).float()
        return other.lerp(own, label_weights[:, None, None, None]).round_().to(torch.uint8), label_weights

    def label_weights(self, purpose: str, rng: CounterRng) -> MixWeights:
        """One λ per row."""
        self.quantiles = self.quantiles.to(rng.indices.device)  # copied once, at the first step
        return quantile_at(self.quantiles, rng.uniform(purpose)[:, 0])


class CutMix(Mixup):
    """Paste a patch of another image, with 1 - λ of its pixels, at a random position (Yun et al. 2019, eq. 1 and 2)."""

    def __call__(self, pixels: PixelBatch, rng: CounterRng) -> tuple[PixelBatch, MixWeights]:
        """Every image with a patch of the previous one, and the share of its own pixels.

        The patch has the aspect ratio of the image and its center anywhere; it is clipped at the edges.
        """
        fractions = (1 - self.label_weights("cutmix", rng)).sqrt()[:, None, None]
        pasted = torch.ones((), dtype=torch.bool, device=pixels.device)
        for positions, center in zip(pixel_grid(pixels), rng.uniform("piece", 2).unbind(1), strict=True):
            size = positions.numel()
            first = center[:, None, None] * size - fractions * size / 2
            # A pixel belongs to the patch if its center does.
            pasted = pasted & (positions + 0.5 >= first) & (positions + 0.5 < first + fractions * size)
        return torch.where(pasted[:, None], pixels.roll(1, 0), pixels), 1 - pasted.float().mean((1, 2))


class MixupOrCutMix:
    """Mixup in half of the steps, CutMix in the other half (as in Touvron et al. 2021, section 6)."""

    def __init__(self, mixup: Mixup, cutmix: CutMix):
        self.mixup, self.cutmix = mixup, cutmix

    def __call__(
        self, pixels: UInt8[Tensor, "row channel height width"], rng: CounterRng
    ) -> tuple[PixelBatch, MixWeights]:
        """Every image mixed with the previous one, and the weight of its own label."""
        mixup, cutmix, coin = self.mixup(pixels, rng), self.cutmix(pixels, rng), rng.coin("which mixture")
        # Both are computed, because a branch on a value of the device would need a GPU sync.
        return torch.where(coin, mixup[0], cutmix[0]), torch.where(coin, mixup[1], cutmix[1])
