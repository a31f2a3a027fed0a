"""Strong changes: each against Pillow's or by hand, and that an image gets the one that it has drawn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from seq2see.sequences.counter_rng import CounterRng
from seq2see.sequences.image_transforms import GRAY
from seq2see.sequences.rand_augment import MAX_TRANSLATION, OPERATIONS, RandAugment, apply_operations

STRENGTH = 0.5


def images(rows: int = 6, channels: int = 3, side: int = 24) -> torch.Tensor:
    """Smooth random images that use only a part of the levels."""
    coarse = torch.rand(rows, channels, 4, 4)
    smooth = torch.nn.functional.interpolate(coarse, size=(side, side), mode="bilinear")
    return (smooth * 180 + 40).to(torch.uint8)


def change(pixels: torch.Tensor, name: str, sign: float = 1.0, magnitude: float = STRENGTH) -> torch.Tensor:
    operation_ids = torch.full((len(pixels),), OPERATIONS.index(name))
    return apply_operations(pixels, operation_ids, torch.full((len(pixels),), sign), magnitude)


def by_pillow(pixels: torch.Tensor, do) -> torch.Tensor:
    """Each image by itself, through Pillow."""
    done = [np.asarray(do(Image.fromarray(each.permute(1, 2, 0).numpy()))) for each in pixels]
    return torch.from_numpy(np.stack(done)).permute(0, 3, 1, 2)


def gap(one: torch.Tensor, other: torch.Tensor) -> int:
    return int((one.int() - other.int()).abs().max())


@pytest.mark.parametrize(("name", "moved"), [("translate-x", (2, 0)), ("translate-y", (0, 1))])
def test_a_image_moves_by_a_share_of_the_side_it_moves_along(name, moved):
    pixels = torch.arange(5 * 10, dtype=torch.uint8).view(1, 1, 5, 10)
    found = change(pixels, name, magnitude=0.2 / MAX_TRANSLATION)
    right, down = moved
    assert torch.equal(found[..., down:, right:], pixels[..., : 5 - down, : 10 - right])
    assert (found[..., :down, :] == GRAY).all()
    assert (found[..., :right] == GRAY).all()


def test_at_full_strength_every_level_is_turned_into_its_negative():
    pixels = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16)
    assert torch.equal(change(pixels, "solarize", magnitude=1.0), 255 - pixels)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(
    "name, tool, off",
    [
        ("brightness", ImageEnhance.Brightness, 1),  # Pillow cuts off where we round
        ("contrast", ImageEnhance.Contrast, 1),
        ("color", ImageEnhance.Color, 1),
        ("sharpness", ImageEnhance.Sharpness, 1),
    ],
)
def test_blends_are_pillows(name, tool, off, sign):
    pixels = images()
    expected = by_pillow(pixels, lambda image: tool(image).enhance(1 + sign * STRENGTH * 0.9))
    found = change(pixels, name, sign)
    assert gap(found, expected) <= off
    assert gap(found, pixels) > 3


@pytest.mark.parametrize(
    "name, do, off",
    [
        ("posterize", lambda image: ImageOps.posterize(image, 6), 0),
        ("solarize", lambda image: ImageOps.solarize(image, 128), 0),
        ("autocontrast", ImageOps.autocontrast, 1),
        ("equalize", ImageOps.equalize, 0),
    ],
)
def test_tables_are_pillows(name, do, off):
    pixels = images()
    found = change(pixels, name)
    assert gap(found, by_pillow(pixels, do)) <= off
    assert gap(found, pixels) > 1


@pytest.mark.parametrize("name, do", [("autocontrast", ImageOps.autocontrast), ("equalize", ImageOps.equalize)])
def test_where_there_are_too_few_levels_they_stay(name, do):
    plain = torch.full((1, 3, 8, 8), 77, dtype=torch.uint8)
    assert torch.equal(change(plain, name), plain)
    assert torch.equal(
        change(plain, name), by_pillow(plain, getattr(ImageOps, {"autocontrast": "autocontrast"}.get(name, "equalize")))
    )


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_turn_is_pillows_to_the_other_side(sign):
    """Positive degrees turn left in Pillow and right here; at ties one of two pixels is the nearest."""
    pixels = images()
    expected = by_pillow(pixels, lambda image: image.rotate(-sign * 15, fillcolor=(GRAY,) * 3))
    assert (change(pixels, "rotate", sign) == expected).float().mean() > 0.98


def test_moves_and_shears_by_hand():
    pixels = torch.arange(1, 26, dtype=torch.uint8).view(1, 1, 5, 5)
    # 150 / 331 of a side at full strength: at 0.45 of it one pixel of five.
    right = change(pixels, "translate-x", 1.0, 0.45)[0, 0]
    assert right[:, 0].tolist() == [GRAY] * 5
    assert torch.equal(right[:, 1:], pixels[0, 0, :, :-1])
    up = change(pixels, "translate-y", -1.0, 0.45)[0, 0]
    assert torch.equal(up[:-1], pixels[0, 0, 1:])
    assert up[-1].tolist() == [GRAY] * 5
    # A slope of 0.3: two lines below the middle everything is 0.6 pixels further to the right, above it to the left.
    sheared = change(pixels, "shear-x", 1.0, 1.0)[0, 0]
    assert sheared.tolist() == [
        [2, 3, 4, 5, GRAY], [6, 7, 8, 9, 10], [11, 12, 13, 14, 15], [16, 17, 18, 19, 20], [GRAY, 21, 22, 23, 24],
    ]  # fmt: skip
    assert torch.equal(change(pixels.mT.contiguous(), "shear-y", 1.0, 1.0), change(pixels, "shear-x", 1.0, 1.0).mT)


def test_nothing_changes_nothing_at_any_strength():
    pixels = torch.randint(0, 256, (4, 3, 9, 7), dtype=torch.uint8)
    for magnitude in (0.0, 0.3, 1.0):
        assert torch.equal(change(pixels, "identity", -1.0, magnitude), pixels)


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in ("autocontrast", "equalize")])
def test_without_strength_nothing_changes(name):
    pixels = torch.randint(0, 256, (2, 3, 9, 7), dtype=torch.uint8)
    pixels[pixels == 255] = 254  # of the brightest level a negative at no strength is made, as in Pillow
    assert torch.equal(change(pixels, name, 1.0, 0.0), pixels)


def test_each_image_gets_the_change_that_it_has_drawn():
    pixels = images(len(OPERATIONS))
    together = apply_operations(pixels, torch.arange(len(OPERATIONS)), torch.ones(len(OPERATIONS)), STRENGTH)
    alone = torch.cat([change(pixels[number : number + 1], name) for number, name in enumerate(OPERATIONS)])
    assert torch.equal(together, alone)


def test_all_changes_are_drawn_in_both_directions_each_row_for_itself():
    pixels = images(1).repeat(3000, 1, 1, 1)
    kinds, counts = (
        RandAugment(1, STRENGTH)(pixels, CounterRng(1, 1, torch.arange(3000)))
        .flatten(1)
        .unique(dim=0, return_counts=True)
    )
    assert len(kinds) == 14 + 9  # nine of them have two directions
    shares = sorted((counts / 3000).tolist())
    assert shares[0] > 1 / 28 - 0.02
    assert shares[-1] < 1 / 14 + 0.03


def test_the_second_change_is_drawn_apart_from_the_first():
    pixels = images(1).repeat(3000, 1, 1, 1)
    kinds = RandAugment(2, STRENGTH)(pixels, CounterRng(1, 1, torch.arange(3000))).flatten(1).unique(dim=0)
    assert len(kinds) > 200  # of 23 by 23, some the same; were both the same change, there would be 45 at most


def test_two_changes_are_one_after_another_and_depend_on_the_step_and_the_example_alone():
    pixels, indices = images(200), torch.arange(200)
    one, two = RandAugment(1, STRENGTH), RandAugment(2, STRENGTH)
    assert not torch.equal(one(pixels, CounterRng(1, 1, indices)), two(pixels, CounterRng(1, 1, indices)))
    order = torch.randperm(200)
    assert torch.equal(two(pixels[order], CounterRng(1, 1, order)), two(pixels, CounterRng(1, 1, indices))[order])
    assert not torch.equal(two(pixels, CounterRng(1, 2, indices)), two(pixels, CounterRng(1, 1, indices)))


@pytest.mark.parametrize("shape", [(2, 1, 5, 5), (2, 3, 1, 1), (2, 3, 2, 9)])
def test_gray_and_tiny_images(shape):
    pixels = torch.randint(0, 256, shape, dtype=torch.uint8)
    for name in OPERATIONS:
        assert change(pixels, name).shape == shape
    assert torch.equal(change(pixels[:, :1], "color"), pixels[:, :1])  # a gray image has no color to lose
