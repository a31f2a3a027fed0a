"""Image transforms that keep the label: shift, flip, cutout, and the strong transforms of RandAugment.

All rows of a batch are transformed at once, each with random numbers of its own (`CounterRng`), without a GPU sync:
no shape depends on a random number. Pixels are integers from 0 to 255 before and after, so that a transformed image can
be displayed.

RandAugment (Cubuk et al. 2020) applies random operations such as rotate, shear and posterize. The authors' program
transforms one image at a time; here every image of a batch samples its own operation, and all are computed at once.
There are three families of operations. Every image passes through all three, with parameters that change nothing in the
families that it has not sampled.

1. Affine transforms: each pixel is a copy of a pixel at another position (rotate, shear, translate).
2. Blends of the image with a degenerate one: black, its mean, grayscale, smoothed.
3. Lookup tables for levels: posterize, solarize, autocontrast, equalize.
"""

from __future__ import annotations

from math import pi

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from seq2see.core.seeds import CounterRng

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
