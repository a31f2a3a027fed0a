"""Strong changes that leave a picture what it is: turned, sheared, brighter, with fewer tones (RandAugment).

Cubuk et al. 2020, "RandAugment". Theirs change one picture at a time; here every picture of a batch draws a change of
its own, and all are made at once. There are three families, and a picture goes through all three: with numbers that
change nothing in those that it has not drawn.

1. Each pixel is taken from another place: turned, sheared, moved.
2. Each pixel is moved away from, or towards, a duller picture: black, its mean, grey, blurred.
3. Each level is looked up in a table: fewer levels, negative from some level on, spread out, equally frequent.
"""

from __future__ import annotations

from math import pi

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from seq2see.sequences.augment import GREY, Pixels, lines_and_columns, outside, taken
from seq2see.sequences.draws import Draws

CHANGES = (
    "nothing", "turn", "shear-right", "shear-down", "move-right", "move-down", "brightness", "contrast", "colour",
    "sharpness", "fewer-levels", "negative", "spread", "equalise",
)  # fmt: skip
"""What can be drawn, each as likely as any other; the paper's list."""
TURN, SHEAR, MOVE, BLEND, LEVELS = 30.0, 0.3, 150 / 331, 0.9, 4
"""At full strength: degrees, slope, share of a side, share of a blend, bits fewer; as in the paper's program."""
LUMA = (0.299, 0.587, 0.114)
"""How bright red, green and blue seem (ITU-R BT.601)."""

Amounts = Float[Tensor, "row"]
Maps = Float[Tensor, "row channel height width"]


class RandAugment:
    """So many changes one after another, all of one strength between 0 and 1."""

    def __init__(self, changes: int, strength: float):
        self.changes, self.strength = changes, strength

    def __call__(self, pixels: Pixels, draws: Draws) -> Pixels:
        """Every picture with changes of its own."""
        for number in range(self.changes):
            which = draws.whole(f"change {number}", len(CHANGES))[:, 0]
            signs = 1.0 - 2.0 * draws.whole(f"sign {number}", 2)[:, 0]
            pixels = changed(pixels, which, signs, self.strength)
        return pixels


def changed(pixels: Pixels, which: Int[Tensor, "row"], signs: Amounts, strength: float) -> Pixels:
    """Each picture with the change that it has drawn, in the direction that it has drawn."""
    drawn = Drawn(which, signs * strength)
    return looked_up(blended(distorted(pixels, drawn), drawn), drawn, strength)


class Drawn:
    """How much of each change every row has drawn: `drawn["turn"]` is 0 for all rows that drew something else."""

    def __init__(self, which: Int[Tensor, "row"], amounts: Amounts):
        self.which, self.amounts = which, amounts

    def __getitem__(self, change: str) -> Amounts:
        return self.amounts * (self.which == CHANGES.index(change))

    def has(self, change: str) -> Tensor:
        """1 for the rows that drew it, to be spread over pictures."""
        return (self.which == CHANGES.index(change)).float()[:, None, None, None]


def distorted(pixels: Pixels, drawn: Drawn) -> Pixels:
    """Turned about the middle, sheared or moved; each pixel is the nearest of the old ones, or grey."""
    height, width = pixels.shape[2:]
    lines, columns = lines_and_columns(pixels)
    down, right = lines - (height - 1) / 2, columns - (width - 1) / 2
    angle = (drawn["turn"] * TURN * pi / 180)[:, None, None]
    slope_right, slope_down = ((drawn[f"shear-{way}"] * SHEAR)[:, None, None] for way in ("right", "down"))
    move_right, move_down = ((drawn[f"move-{way}"] * MOVE)[:, None, None] for way in ("right", "down"))
    # Where a pixel comes from: the inverse of what is done, so signs are exchanged.
    from_right = angle.cos() * right + (angle.sin() - slope_right) * down - move_right * width
    from_down = angle.cos() * down - (angle.sin() + slope_down) * right - move_down * height
    lines, columns = (from_down + (height - 1) / 2).round().long(), (from_right + (width - 1) / 2).round().long()
    there = taken(pixels, lines.clamp(0, height - 1), columns.clamp(0, width - 1))
    return there.masked_fill(outside(lines, columns, height, width)[:, None], GREY)


def blended(pixels: Pixels, drawn: Drawn) -> Pixels:
    """dull + (1 + amount) (x - dull): an amount below 0 goes towards the duller picture, one above 0 away from it."""
    x = pixels.float()
    grey = brightness_of(x)
    dull = drawn.has("contrast") * grey.mean((1, 2, 3), keepdim=True).round() + drawn.has("colour") * grey
    dull = dull + drawn.has("sharpness") * blurred(x)
    amount = sum(drawn[change] for change in ("brightness", "contrast", "colour", "sharpness"))
    assert isinstance(amount, Tensor)
    factor = (1 + amount * BLEND)[:, None, None, None]
    return as_levels(dull.lerp(x, factor))


def brightness_of(x: Maps) -> Float[Tensor, "row 1 height width"]:
    """A grey picture, as bright as it seems; of a grey one, itself."""
    if x.size(1) == 1:
        return x
    return sum(weight * x[:, number : number + 1] for number, weight in enumerate(LUMA))  # type: ignore[return-value]


def blurred(x: Maps) -> Maps:
    """Each pixel is 5/13 of itself and 1/13 of each neighbour (Pillow's SMOOTH); those at the edges stay."""
    blurry = x.clone()
    if min(x.shape[2:]) < 3:
        return blurry
    across = x[..., :-2] + x[..., 1:-1] + x[..., 2:]  # sums of three, first across, then down: six additions, not eight
    nine = across[:, :, :-2] + across[:, :, 1:-1] + across[:, :, 2:]
    blurry[..., 1:-1, 1:-1] = (nine + 4 * x[..., 1:-1, 1:-1]) / 13
    return blurry


def as_levels(x: Maps) -> Pixels:
    """The nearest whole numbers from 0 to 255."""
    return x.round_().clamp_(0, 255).to(torch.uint8)


def looked_up(pixels: Pixels, drawn: Drawn, strength: float) -> Pixels:
    """Each level of each channel exchanged for what a table of its picture has for it."""
    levels = torch.arange(256, device=pixels.device)
    step = 2 ** round(LEVELS * strength)
    tables = {
        "fewer-levels": levels // step * step,
        "negative": torch.where(levels < 255 * (1 - strength), levels, 255 - levels),
        "spread": spread(pixels, levels),
        "equalise": equalised(pixels, levels),
    }
    table = levels.expand(*pixels.shape[:2], 256)
    for change, there in tables.items():
        table = torch.where(drawn.has(change)[..., 0] > 0, there, table)
    return table.to(torch.uint8).gather(2, pixels.flatten(2).long()).view_as(pixels)


def spread(pixels: Pixels, levels: Int[Tensor, "256"]) -> Int[Tensor, "row channel 256"]:
    """The darkest level becomes 0 and the brightest 255, channel by channel; a single level stays."""
    low, high = (of.long()[..., None] for of in (pixels.flatten(2).amin(2), pixels.flatten(2).amax(2)))
    scaled = ((levels - low) * 255 // (high - low).clamp(min=1)).clamp(0, 255)
    return torch.where(high > low, scaled, levels)


def equalised(pixels: Pixels, levels: Int[Tensor, "256"]) -> Int[Tensor, "row channel 256"]:
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
