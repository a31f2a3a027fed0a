"""Augmentation of training images: each image of a batch is transformed anew at every step.

The order is: shift and flip, RandAugment, cutout, and finally mixup or CutMix. The random numbers depend on
(seed, step, image) alone, so a resumed run computes the same images as an uninterrupted one.

Shift, flip, cutout and RandAugment keep the label. All rows of a batch are transformed at once, each with random
numbers of its own (`CounterRng`), without a GPU sync: no shape depends on a random number. Pixels are integers from 0
to 255 before and after, so that a transformed image can be displayed.

RandAugment (Cubuk et al. 2020) applies random operations such as rotate, shear and posterize. The authors' program
transforms one image at a time; here every image of a batch samples its own operation, and all are computed at once.
There are three families of operations. Every image passes through all three, with parameters that change nothing in the
families that it has not sampled.

1. Affine transforms: each pixel is a copy of a pixel at another position (rotate, shear, translate).
2. Blends of the image with a degenerate one: black, its mean, grayscale, smoothed.
3. Lookup tables for levels: posterize, solarize, autocontrast, equalize.

Mixup and CutMix combine two images into one, with the labels of both. Between two examples the labels are unknown, and
without further training data a model switches abruptly from one label to the other; mixtures train it to interpolate.
Every row is mixed with the previous row of its batch, whose order is random anyway.
"""

from __future__ import annotations

from dataclasses import replace
from math import pi
from typing import Protocol

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from pydantic import Field
from torch import Tensor

from seq2see.core.batch import Batch, Images, MixedBatch
from seq2see.core.seeds import CounterRng
from seq2see.core.settings import Settings
from seq2see.data.pair_dataset import IntArray

PixelBatch = UInt8[Tensor, "row channel height width"]
PixelPositions = Int[Tensor, "row #height #width"]
GRAY = 128
"""The value of missing pixels: halfway between black and white."""


def gather_pixels(pixels: PixelBatch, lines: PixelPositions, columns: PixelPositions) -> PixelBatch:
    """Gather pixels from other positions: out[r, c, y, x] = pixels[r, c, lines[r, y, x], columns[r, y, x]]."""
    rows, channels, height, width = pixels.shape
    indices = (lines * width + columns).expand(rows, height, width).flatten(1)
    # One index per pixel serves all channels; separate indices for three channels would take five times as long.
    return pixels.flatten(2).gather(2, indices[:, None].expand(-1, channels, -1)).view_as(pixels)


def pixel_grid(pixels: PixelBatch) -> tuple[Int[Tensor, "1 height 1"], Int[Tensor, "1 1 width"]]:
    """The line and the column of each pixel, counted from the top left."""
    height, width = pixels.shape[2:]
    lines, columns = (torch.arange(size, device=pixels.device) for size in (height, width))
    return lines[None, :, None], columns[None, None]


class Shift:
    """Shift an image by up to `max_shift` pixels in both directions.

    This equals padding the image by `max_shift` pixels and cropping it to the old size (He et al. 2016, section 4.2),
    but with padding by reflection, not by black bars, which real images do not have.
    """

    def __init__(self, max_shift: int):
        self.max_shift = max_shift

    def __call__(self, pixels: PixelBatch, rng: CounterRng) -> PixelBatch:
        """Shift every image by a random amount."""
        shifts = (rng.integers("shift", 2 * self.max_shift + 1, 2) - self.max_shift)[..., None, None]
        lines, columns = (grid + shift for grid, shift in zip(pixel_grid(pixels), shifts.unbind(1), strict=True))
        height, width = pixels.shape[2:]
        return gather_pixels(pixels, reflect(lines, height), reflect(columns, width))


def out_of_bounds(
    lines: PixelPositions, columns: PixelPositions, height: int, width: int
) -> Bool[Tensor, "row #height #width"]:
    """True for positions outside an image of this size."""
    return (lines < 0) | (lines >= height) | (columns < 0) | (columns >= width)


def reflect(positions: PixelPositions, size: int) -> PixelPositions:
    """Reflection padding: ... 2 1 0 1 2 ... size-2 size-1 size-2 ...; the edge pixels are not repeated."""
    period = max(2 * (size - 1), 1)
    remainder = positions.remainder(period)
    return torch.minimum(remainder, period - remainder)


class Flip:
    """Flip half of the images horizontally."""

    def __call__(self, pixels: PixelBatch, rng: CounterRng) -> PixelBatch:
        """Flip each image with probability 1/2."""
        lines, columns = pixel_grid(pixels)
        flipped = rng.uniform("flip")[..., None] < 0.5
        return gather_pixels(pixels, lines, torch.where(flipped, pixels.size(3) - 1 - columns, columns))


class Cutout:
    """Fill a square of size x size pixels with gray; edges may clip it (DeVries & Taylor 2017, section 3.1)."""

    def __init__(self, size: int):
        self.size = size

    def __call__(self, pixels: PixelBatch, rng: CounterRng) -> PixelBatch:
        """Fill a random square of every image."""
        uniform = rng.uniform("cutout", 2)[..., None, None]
        inside = torch.ones((), dtype=torch.bool, device=pixels.device)
        for positions, fraction in zip(pixel_grid(pixels), uniform.unbind(1), strict=True):
            first = (fraction * positions.numel()).long() - self.size // 2  # the center of the square is any pixel
            inside = inside & (positions >= first) & (positions < first + self.size)
        return pixels.masked_fill(inside[:, None], GRAY)


OPERATIONS = (
    "identity", "rotate", "shear-x", "shear-y", "translate-x", "translate-y", "brightness", "contrast", "color",
    "sharpness", "posterize", "solarize", "autocontrast", "equalize",
)  # fmt: skip
"""The operations, all with equal probability; the paper's list. Their order is part of the random choice."""
MAX_ROTATION, MAX_SHEAR, MAX_TRANSLATION, MAX_BLEND, POSTERIZE_BITS = 30.0, 0.3, 150 / 331, 0.9, 4
"""At magnitude 1: degrees, shear, share of a side, blend factor, bits removed; as in the paper's program."""
LUMA = (0.299, 0.587, 0.114)
"""The perceived brightness of red, green and blue (ITU-R BT.601)."""

Magnitudes = Float[Tensor, "row"]
FloatPixels = Float[Tensor, "row channel height width"]


class RandAugment:
    """Apply `num_ops` random operations in sequence, all with the same magnitude between 0 and 1."""

    def __init__(self, num_ops: int, magnitude: float):
        self.num_ops, self.magnitude = num_ops, magnitude

    def __call__(self, pixels: PixelBatch, rng: CounterRng) -> PixelBatch:
        """Transform every image with its own operations."""
        for number in range(self.num_ops):
            operation_ids = rng.integers(f"change {number}", len(OPERATIONS))[:, 0]
            signs = 1.0 - 2.0 * rng.integers(f"sign {number}", 2)[:, 0]
            pixels = apply_operations(pixels, operation_ids, signs, self.magnitude)
        return pixels


def apply_operations(
    pixels: PixelBatch, operation_ids: Int[Tensor, "row"], signs: Magnitudes, magnitude: float
) -> PixelBatch:
    """Apply to each image its operation, in the direction of its sign."""
    sampled = SampledOperations(operation_ids, signs * magnitude)
    return apply_lookup(apply_blend(apply_affine(pixels, sampled), sampled), sampled, magnitude)


class SampledOperations:
    """The operation and the magnitude of each row: `sampled["rotate"]` is 0 for rows with another operation."""

    def __init__(self, operation_ids: Int[Tensor, "row"], magnitudes: Magnitudes):
        self.operation_ids, self.magnitudes = operation_ids, magnitudes

    def __getitem__(self, operation: str) -> Magnitudes:
        return self.magnitudes * (self.operation_ids == OPERATIONS.index(operation))

    def has(self, operation: str) -> Tensor:
        """1 for the rows with this operation, in a shape that broadcasts over images."""
        return (self.operation_ids == OPERATIONS.index(operation)).float()[:, None, None, None]


def apply_affine(pixels: PixelBatch, sampled: SampledOperations) -> PixelBatch:
    """Rotate about the center, shear or translate; each pixel is the nearest one of the old image, or gray."""
    height, width = pixels.shape[2:]
    lines, columns = pixel_grid(pixels)
    down, right = lines - (height - 1) / 2, columns - (width - 1) / 2
    angle = (sampled["rotate"] * MAX_ROTATION * pi / 180)[:, None, None]
    shear_x, shear_y = ((sampled[f"shear-{axis}"] * MAX_SHEAR)[:, None, None] for axis in ("x", "y"))
    shift_x, shift_y = ((sampled[f"translate-{axis}"] * MAX_TRANSLATION)[:, None, None] for axis in ("x", "y"))
    # The source position of a pixel: the inverse of the transform, so signs are reversed.
    from_right = angle.cos() * right + (angle.sin() - shear_x) * down - shift_x * width
    from_down = angle.cos() * down - (angle.sin() + shear_y) * right - shift_y * height
    lines, columns = (from_down + (height - 1) / 2).round().long(), (from_right + (width - 1) / 2).round().long()
    moved = gather_pixels(pixels, lines.clamp(0, height - 1), columns.clamp(0, width - 1))
    return moved.masked_fill(out_of_bounds(lines, columns, height, width)[:, None], GRAY)


def apply_blend(pixels: PixelBatch, sampled: SampledOperations) -> PixelBatch:
    """degenerate + (1 + amount) (x - degenerate): amounts < 0 blend towards the degenerate image, > 0 away from it."""
    x = pixels.float()
    gray = to_grayscale(x)
    degenerate = sampled.has("contrast") * gray.mean((1, 2, 3), keepdim=True).round() + sampled.has("color") * gray
    degenerate = degenerate + sampled.has("sharpness") * smooth(x)
    amount = sum(sampled[operation] for operation in ("brightness", "contrast", "color", "sharpness"))
    assert isinstance(amount, Tensor)
    factor = (1 + amount * MAX_BLEND)[:, None, None, None]
    return to_uint8(degenerate.lerp(x, factor))


def to_grayscale(x: FloatPixels) -> Float[Tensor, "row 1 height width"]:
    """The grayscale image by perceived brightness; a grayscale image is returned unchanged."""
    if x.size(1) == 1:
        return x
    return sum(weight * x[:, number : number + 1] for number, weight in enumerate(LUMA))  # type: ignore[return-value]


def smooth(x: FloatPixels) -> FloatPixels:
    """Each pixel is 5/13 of itself and 1/13 of each neighbor (Pillow's SMOOTH); edge pixels are unchanged."""
    smoothed = x.clone()
    if min(x.shape[2:]) < 3:
        return smoothed
    horizontal = x[..., :-2] + x[..., 1:-1] + x[..., 2:]  # sums of three, first horizontal, then vertical
    nine = horizontal[:, :, :-2] + horizontal[:, :, 1:-1] + horizontal[:, :, 2:]
    smoothed[..., 1:-1, 1:-1] = (nine + 4 * x[..., 1:-1, 1:-1]) / 13
    return smoothed


def to_uint8(x: FloatPixels) -> PixelBatch:
    """Round to integers from 0 to 255."""
    return x.round_().clamp_(0, 255).to(torch.uint8)


def apply_lookup(pixels: PixelBatch, sampled: SampledOperations, magnitude: float) -> PixelBatch:
    """Replace each level of each channel by the entry of a lookup table of its image."""
    levels = torch.arange(256, device=pixels.device)
    step = 2 ** round(POSTERIZE_BITS * magnitude)
    tables = {
        "posterize": levels // step * step,
        "solarize": torch.where(levels < 255 * (1 - magnitude), levels, 255 - levels),
        "autocontrast": autocontrast(pixels, levels),
        "equalize": equalize(pixels, levels),
    }
    table = levels.expand(*pixels.shape[:2], 256)
    for operation, operation_table in tables.items():
        table = torch.where(sampled.has(operation)[..., 0] > 0, operation_table, table)
    return table.to(torch.uint8).gather(2, pixels.flatten(2).long()).view_as(pixels)


def autocontrast(pixels: PixelBatch, levels: Int[Tensor, "256"]) -> Int[Tensor, "row channel 256"]:
    """Stretch the levels of each channel to 0 (darkest) to 255 (brightest); a single level stays."""
    low, high = (levels.long()[..., None] for levels in (pixels.flatten(2).amin(2), pixels.flatten(2).amax(2)))
    scaled = ((levels - low) * 255 // (high - low).clamp(min=1)).clamp(0, 255)
    return torch.where(high > low, scaled, levels)


def equalize(pixels: PixelBatch, levels: Int[Tensor, "256"]) -> Int[Tensor, "row channel 256"]:
    """Histogram equalization, channel by channel: a level becomes the share of pixels that are darker.

    Pillow's rounding: with h pixels of a level, and s = (all pixels - those of the brightest) // 255, level i becomes
    (s // 2 + h[0] + ... + h[i - 1]) // s; if s is 0, the image has too few pixels and is unchanged.
    """
    counts = histogram(pixels)
    darker = counts.cumsum(-1) - counts
    brightest = counts.gather(-1, pixels.flatten(2).amax(2).long()[..., None])
    step = (counts.sum(-1, keepdim=True) - brightest) // 255
    equalized = ((step // 2 + darker) // step.clamp(min=1)).clamp(max=255)
    return torch.where(step > 0, equalized, levels)


def histogram(pixels: UInt8[Tensor, "row channel height width"]) -> Int[Tensor, "row channel 256"]:
    """The number of pixels of each level, for each channel."""
    flat = pixels.flatten(2).long()
    return torch.zeros(*flat.shape[:2], 256, dtype=torch.long, device=pixels.device).scatter_add_(
        2, flat, torch.ones_like(flat)
    )


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
