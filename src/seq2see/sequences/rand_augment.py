"""Strong changes that leave an image what it is: turned, sheared, brighter, with fewer tones (RandAugment).

Cubuk et al. 2020, "RandAugment". Theirs change one image at a time; here every image of a batch draws a change of
its own, and all are made at once. There are three families, and an image goes through all three: with numbers that
change nothing in those that it has not drawn.

1. Each pixel is taken from another place: turned, sheared, moved.
2. Each pixel is moved away from, or towards, a duller image: black, its mean, gray, blurred.
3. Each level is looked up in a table: fewer levels, negative from some level on, spread out, equally frequent.
"""

from __future__ import annotations

from math import pi

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from seq2see.sequences.counter_rng import CounterRng
from seq2see.sequences.image_transforms import GRAY, PixelBatch, gather_pixels, out_of_bounds, pixel_grid

OPERATIONS = (
    "identity", "rotate", "shear-x", "shear-y", "translate-x", "translate-y", "brightness", "contrast", "color",
    "sharpness", "posterize", "solarize", "autocontrast", "equalize",
)  # fmt: skip
"""What can be drawn, each as likely as any other; the paper's list."""
MAX_ROTATION, MAX_SHEAR, MAX_TRANSLATION, MAX_BLEND, POSTERIZE_BITS = 30.0, 0.3, 150 / 331, 0.9, 4
"""At full strength: degrees, slope, share of a side, share of a blend, bits fewer; as in the paper's program."""
LUMA = (0.299, 0.587, 0.114)
"""How bright red, green and blue seem (ITU-R BT.601)."""

Magnitudes = Float[Tensor, "row"]
FloatPixels = Float[Tensor, "row channel height width"]


class RandAugment:
    """So many changes one after another, all of one strength between 0 and 1."""

    def __init__(self, num_ops: int, magnitude: float):
        self.num_ops, self.magnitude = num_ops, magnitude

    def __call__(self, pixels: PixelBatch, rng: CounterRng) -> PixelBatch:
        """Every image with changes of its own."""
        for number in range(self.num_ops):
            operation_ids = rng.integers(f"change {number}", len(OPERATIONS))[:, 0]
            signs = 1.0 - 2.0 * rng.integers(f"sign {number}", 2)[:, 0]
            pixels = apply_operations(pixels, operation_ids, signs, self.magnitude)
        return pixels


def apply_operations(
    pixels: PixelBatch, operation_ids: Int[Tensor, "row"], signs: Magnitudes, magnitude: float
) -> PixelBatch:
    """Each image with the change that it has drawn, in the direction that it has drawn."""
    sampled = SampledOperations(operation_ids, signs * magnitude)
    return apply_lookup(apply_blend(apply_affine(pixels, sampled), sampled), sampled, magnitude)


class SampledOperations:
    """How much of each change every row has drawn: `sampled["turn"]` is 0 for all rows that drew something else."""

    def __init__(self, operation_ids: Int[Tensor, "row"], magnitudes: Magnitudes):
        self.operation_ids, self.magnitudes = operation_ids, magnitudes

    def __getitem__(self, operation: str) -> Magnitudes:
        return self.magnitudes * (self.operation_ids == OPERATIONS.index(operation))

    def has(self, operation: str) -> Tensor:
        """1 for the rows that drew it, to be spread over images."""
        return (self.operation_ids == OPERATIONS.index(operation)).float()[:, None, None, None]


def apply_affine(pixels: PixelBatch, sampled: SampledOperations) -> PixelBatch:
    """Turned about the middle, sheared or moved; each pixel is the nearest of the old ones, or gray."""
    height, width = pixels.shape[2:]
    lines, columns = pixel_grid(pixels)
    down, right = lines - (height - 1) / 2, columns - (width - 1) / 2
    angle = (sampled["rotate"] * MAX_ROTATION * pi / 180)[:, None, None]
    slope_right, slope_down = ((sampled[f"shear-{way}"] * MAX_SHEAR)[:, None, None] for way in ("right", "down"))
    move_right, move_down = ((sampled[f"move-{way}"] * MAX_TRANSLATION)[:, None, None] for way in ("right", "down"))
    # Where a pixel comes from: the inverse of what is done, so signs are exchanged.
    from_right = angle.cos() * right + (angle.sin() - slope_right) * down - move_right * width
    from_down = angle.cos() * down - (angle.sin() + slope_down) * right - move_down * height
    lines, columns = (from_down + (height - 1) / 2).round().long(), (from_right + (width - 1) / 2).round().long()
    there = gather_pixels(pixels, lines.clamp(0, height - 1), columns.clamp(0, width - 1))
    return there.masked_fill(out_of_bounds(lines, columns, height, width)[:, None], GRAY)


def apply_blend(pixels: PixelBatch, sampled: SampledOperations) -> PixelBatch:
    """dull + (1 + amount) (x - dull): an amount below 0 goes towards the duller image, one above 0 away from it."""
    x = pixels.float()
    gray = to_grayscale(x)
    dull = sampled.has("contrast") * gray.mean((1, 2, 3), keepdim=True).round() + sampled.has("color") * gray
    dull = dull + sampled.has("sharpness") * smooth(x)
    amount = sum(sampled[operation] for operation in ("brightness", "contrast", "color", "sharpness"))
    assert isinstance(amount, Tensor)
    factor = (1 + amount * MAX_BLEND)[:, None, None, None]
    return to_uint8(dull.lerp(x, factor))


def to_grayscale(x: FloatPixels) -> Float[Tensor, "row 1 height width"]:
    """A gray image, as bright as it seems; of a gray one, itself."""
    if x.size(1) == 1:
        return x
    return sum(weight * x[:, number : number + 1] for number, weight in enumerate(LUMA))  # type: ignore[return-value]


def smooth(x: FloatPixels) -> FloatPixels:
    """Each pixel is 5/13 of itself and 1/13 of each neighbor (Pillow's SMOOTH); those at the edges stay."""
    blurry = x.clone()
    if min(x.shape[2:]) < 3:
        return blurry
    across = x[..., :-2] + x[..., 1:-1] + x[..., 2:]  # sums of three, first across, then down: six additions, not eight
    nine = across[:, :, :-2] + across[:, :, 1:-1] + across[:, :, 2:]
    blurry[..., 1:-1, 1:-1] = (nine + 4 * x[..., 1:-1, 1:-1]) / 13
    return blurry


def to_uint8(x: FloatPixels) -> PixelBatch:
    """The nearest whole numbers from 0 to 255."""
    return x.round_().clamp_(0, 255).to(torch.uint8)


def apply_lookup(pixels: PixelBatch, sampled: SampledOperations, magnitude: float) -> PixelBatch:
    """Each level of each channel exchanged for what a table of its image has for it."""
    levels = torch.arange(256, device=pixels.device)
    step = 2 ** round(POSTERIZE_BITS * magnitude)
    tables = {
        "posterize": levels // step * step,
        "solarize": torch.where(levels < 255 * (1 - magnitude), levels, 255 - levels),
        "autocontrast": autocontrast(pixels, levels),
        "equalize": equalize(pixels, levels),
    }
    table = levels.expand(*pixels.shape[:2], 256)
    for operation, there in tables.items():
        table = torch.where(sampled.has(operation)[..., 0] > 0, there, table)
    return table.to(torch.uint8).gather(2, pixels.flatten(2).long()).view_as(pixels)


def autocontrast(pixels: PixelBatch, levels: Int[Tensor, "256"]) -> Int[Tensor, "row channel 256"]:
    """The darkest level becomes 0 and the brightest 255, channel by channel; a single level stays."""
    low, high = (of.long()[..., None] for of in (pixels.flatten(2).amin(2), pixels.flatten(2).amax(2)))
    scaled = ((levels - low) * 255 // (high - low).clamp(min=1)).clamp(0, 255)
    return torch.where(high > low, scaled, levels)


def equalize(pixels: PixelBatch, levels: Int[Tensor, "256"]) -> Int[Tensor, "row channel 256"]:
    """Every level about as frequent as any other, channel by channel: it becomes the share of pixels that are darker.

    Pillow's rounding: with h pixels of a level, and s = (all pixels - those of the brightest) // 255, level i becomes
    (s // 2 + h[0] + ... + h[i - 1]) // s; where s is 0 there are too few levels to share out, and all stay.
    """
    counts = histogram(pixels)
    before = counts.cumsum(-1) - counts
    brightest = counts.gather(-1, pixels.flatten(2).amax(2).long()[..., None])
    step = (counts.sum(-1, keepdim=True) - brightest) // 255
    shared = ((step // 2 + before) // step.clamp(min=1)).clamp(max=255)
    return torch.where(step > 0, shared, levels)


def histogram(pixels: UInt8[Tensor, "row channel height width"]) -> Int[Tensor, "row channel 256"]:
    """How many pixels of each channel have each level."""
    flat = pixels.flatten(2).long()
    return torch.zeros(*flat.shape[:2], 256, dtype=torch.long, device=pixels.device).scatter_add_(
        2, flat, torch.ones_like(flat)
    )
