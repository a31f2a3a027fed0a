"""RandAugment: each operation against Pillow's or by hand, and that an image gets the one that it has sampled."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from seq2see.core.seeds import CounterRng
from seq2see.data.augmentation import GRAY, MAX_TRANSLATION, OPERATIONS, RandAugment, apply_operations

MAGNITUDE = 0.5


def images(rows: int = 6, channels: int = 3, size: int = 24) -> torch.Tensor:
    """Smooth random images that use only a part of the levels."""
    coarse = torch.rand(rows, channels, 4, 4)
    smooth = torch.nn.functional.interpolate(coarse, size=(size, size), mode="bilinear")
    return (smooth * 180 + 40).to(torch.uint8)


def apply(pixels: torch.Tensor, name: str, sign: float = 1.0, magnitude: float = MAGNITUDE) -> torch.Tensor:
    operation_ids = torch.full((len(pixels),), OPERATIONS.index(name))
    return apply_operations(pixels, operation_ids, torch.full((len(pixels),), sign), magnitude)


def by_pillow(pixels: torch.Tensor, operation) -> torch.Tensor:
    """Each image by itself, through Pillow."""
    results = [np.asarray(operation(Image.fromarray(each.permute(1, 2, 0).numpy()))) for each in pixels]
    return torch.from_numpy(np.stack(results)).permute(0, 3, 1, 2)


def gap(one: torch.Tensor, other: torch.Tensor) -> int:
    return int((one.int() - other.int()).abs().max())


@pytest.mark.parametrize(("name", "offset"), [("translate-x", (2, 0)), ("translate-y", (0, 1))])
def test_an_image_is_translated_by_a_share_of_its_side(name, offset):
    pixels = torch.arange(5 * 10, dtype=torch.uint8).view(1, 1, 5, 10)
    found = apply(pixels, name, magnitude=0.2 / MAX_TRANSLATION)
    right, down = offset
    assert torch.equal(found[..., down:, right:], pixels[..., : 5 - down, : 10 - right])
    assert (found[..., :down, :] == GRAY).all()
    assert (found[..., :right] == GRAY).all()


def test_at_full_magnitude_solarize_inverts_every_level():
    pixels = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16)
    assert torch.equal(apply(pixels, "solarize", magnitude=1.0), 255 - pixels)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(
    "name, tool, tolerance",
    [
        ("brightness", ImageEnhance.Brightness, 1),  # Pillow truncates where we round
        ("contrast", ImageEnhance.Contrast, 1),
        ("color", ImageEnhance.Color, 1),
        ("sharpness", ImageEnhance.Sharpness, 1),
    ],
)
def test_blends_are_pillows(name, tool, tolerance, sign):
    pixels = images()
    expected = by_pillow(pixels, lambda image: tool(image).enhance(1 + sign * MAGNITUDE * 0.9))
    found = apply(pixels, name, sign)
    assert gap(found, expected) <= tolerance
    assert gap(found, pixels) > 3


@pytest.mark.parametrize(
    "name, operation, tolerance",
    [
        ("posterize", lambda image: ImageOps.posterize(image, 6), 0),
        ("solarize", lambda image: ImageOps.solarize(image, 128), 0),
        ("autocontrast", ImageOps.autocontrast, 1),
        ("equalize", ImageOps.equalize, 0),
    ],
)
def test_tables_are_pillows(name, operation, tolerance):
    pixels = images()
    found = apply(pixels, name)
    assert gap(found, by_pillow(pixels, operation)) <= tolerance
    assert gap(found, pixels) > 1


@pytest.mark.parametrize("name, operation", [("autocontrast", ImageOps.autocontrast), ("equalize", ImageOps.equalize)])
def test_with_too_few_levels_they_do_not_change(name, operation):
    plain = torch.full((1, 3, 8, 8), 77, dtype=torch.uint8)
    assert torch.equal(apply(plain, name), plain)
    assert torch.equal(apply(plain, name), by_pillow(plain, operation))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_rotation_is_pillows_in_the_other_direction(sign):
    """Positive degrees rotate left in Pillow and right here; at ties one of two pixels is the nearest."""
    pixels = images()
    expected = by_pillow(pixels, lambda image: image.rotate(-sign * 15, fillcolor=(GRAY,) * 3))
    assert (apply(pixels, "rotate", sign) == expected).float().mean() > 0.98


def test_translations_and_shears_by_hand():
    pixels = torch.arange(1, 26, dtype=torch.uint8).view(1, 1, 5, 5)
    # 150 / 331 of a side at full magnitude: at 0.45 of it one pixel of five.
    right = apply(pixels, "translate-x", 1.0, 0.45)[0, 0]
    assert right[:, 0].tolist() == [GRAY] * 5
    assert torch.equal(right[:, 1:], pixels[0, 0, :, :-1])
    up = apply(pixels, "translate-y", -1.0, 0.45)[0, 0]
    assert torch.equal(up[:-1], pixels[0, 0, 1:])
    assert up[-1].tolist() == [GRAY] * 5
    # A shear of 0.3: two lines below the center pixels move by 0.6 to the right, above it to the left.
    sheared = apply(pixels, "shear-x", 1.0, 1.0)[0, 0]
    assert sheared.tolist() == [
        [2, 3, 4, 5, GRAY], [6, 7, 8, 9, 10], [11, 12, 13, 14, 15], [16, 17, 18, 19, 20], [GRAY, 21, 22, 23, 24],
    ]  # fmt: skip
    assert torch.equal(apply(pixels.mT.contiguous(), "shear-y", 1.0, 1.0), apply(pixels, "shear-x", 1.0, 1.0).mT)


def test_identity_changes_nothing_at_any_magnitude():
    pixels = torch.randint(0, 256, (4, 3, 9, 7), dtype=torch.uint8)
    for magnitude in (0.0, 0.3, 1.0):
        assert torch.equal(apply(pixels, "identity", -1.0, magnitude), pixels)


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in ("autocontrast", "equalize")])
def test_without_magnitude_nothing_changes(name):
    pixels = torch.randint(0, 256, (2, 3, 9, 7), dtype=torch.uint8)
    pixels[pixels == 255] = 254  # solarize inverts the brightest level even at magnitude 0, as in Pillow
    assert torch.equal(apply(pixels, name, 1.0, 0.0), pixels)


def test_each_image_gets_the_operation_that_it_has_sampled():
    pixels = images(len(OPERATIONS))
    together = apply_operations(pixels, torch.arange(len(OPERATIONS)), torch.ones(len(OPERATIONS)), MAGNITUDE)
    alone = torch.cat([apply(pixels[number : number + 1], name) for number, name in enumerate(OPERATIONS)])
    assert torch.equal(together, alone)


def test_all_operations_are_sampled_in_both_directions_for_each_row():
    pixels = images(1).repeat(3000, 1, 1, 1)
    kinds, counts = (
        RandAugment(1, MAGNITUDE)(pixels, CounterRng(1, 1, torch.arange(3000)))
        .flatten(1)
        .unique(dim=0, return_counts=True)
    )
    assert len(kinds) == 14 + 9  # nine of them have two directions
    shares = sorted((counts / 3000).tolist())
    assert shares[0] > 1 / 28 - 0.02
    assert shares[-1] < 1 / 14 + 0.03


def test_the_second_operation_is_independent_of_the_first():
    pixels = images(1).repeat(3000, 1, 1, 1)
    kinds = RandAugment(2, MAGNITUDE)(pixels, CounterRng(1, 1, torch.arange(3000))).flatten(1).unique(dim=0)
    assert len(kinds) > 200  # of 23 by 23, some equal; if both were the same operation, there would be 45 at most


def test_two_operations_are_applied_in_sequence_and_depend_on_the_step_and_the_example_alone():
    pixels, indices = images(200), torch.arange(200)
    one, two = RandAugment(1, MAGNITUDE), RandAugment(2, MAGNITUDE)
    assert not torch.equal(one(pixels, CounterRng(1, 1, indices)), two(pixels, CounterRng(1, 1, indices)))
    order = torch.randperm(200)
    assert torch.equal(two(pixels[order], CounterRng(1, 1, order)), two(pixels, CounterRng(1, 1, indices))[order])
    assert not torch.equal(two(pixels, CounterRng(1, 2, indices)), two(pixels, CounterRng(1, 1, indices)))


@pytest.mark.parametrize("shape", [(2, 1, 5, 5), (2, 3, 1, 1), (2, 3, 2, 9)])
def test_gray_and_tiny_images(shape):
    pixels = torch.randint(0, 256, shape, dtype=torch.uint8)
    for name in OPERATIONS:
        assert apply(pixels, name).shape == shape
    assert torch.equal(apply(pixels[:, :1], "color"), pixels[:, :1])  # a grayscale image has no color to lose
