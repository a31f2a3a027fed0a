"""Image transforms: by hand on tiny images, and the frequencies of random choices."""

from __future__ import annotations

import pytest
import torch

from seq2see.core.seeds import CounterRng
from seq2see.data.augmentation import GRAY, Cutout, Flip, Shift, gather_pixels, reflect

ROWS = 4000


class Fixed(CounterRng):
    """Random numbers that the test chooses."""

    def __init__(self, *uniform: float):
        super().__init__(0, 0, torch.tensor([0]))
        object.__setattr__(self, "numbers", torch.tensor([uniform]))

    def uniform(self, purpose, count=1):
        assert self.numbers.size(1) == count
        return self.numbers


def image(*lines: list[int]) -> torch.Tensor:
    return torch.tensor([[lines]], dtype=torch.uint8)


NUMBERED = image([1, 2, 3], [4, 5, 6])
"""One row, one channel, two lines of three pixels."""


def test_each_pixel_is_gathered_from_its_position_in_all_channels():
    pixels = torch.arange(12, dtype=torch.uint8).view(1, 2, 2, 3)
    found = gather_pixels(pixels, torch.tensor([[[1], [0]]]), torch.tensor([[[0, 2, 2]]]))
    assert found.tolist() == [[[[3, 5, 5], [0, 2, 2]], [[9, 11, 11], [6, 8, 8]]]]


def test_a_shift_with_reflection_by_hand():
    assert Shift(1)(NUMBERED, Fixed(0.5, 0.5)).tolist() == NUMBERED.tolist()  # of -1, 0 and 1 the middle one
    assert Shift(1)(NUMBERED, Fixed(0.5, 0.99)).tolist() == [[[[2, 3, 2], [5, 6, 5]]]]
    assert Shift(1)(NUMBERED, Fixed(0.0, 0.0)).tolist() == [[[[5, 4, 5], [2, 1, 2]]]]
    assert Shift(2)(NUMBERED, Fixed(0.99, 0.99)).tolist() == [[[[3, 2, 1], [6, 5, 4]]]]


def test_reflection_does_not_repeat_the_edge_pixels():
    assert reflect(torch.arange(-5, 8)[None, None], 4).tolist() == [[[1, 2, 3, 2, 1, 0, 1, 2, 3, 2, 1, 0, 1]]]
    assert reflect(torch.arange(-2, 3)[None, None], 1).tolist() == [[[0] * 5]]


def test_the_padding_is_torchs_reflection():
    pixels = torch.randint(0, 256, (1, 3, 7, 6), dtype=torch.uint8)
    padded = torch.nn.functional.pad(pixels.float(), (4, 4, 4, 4), mode="reflect")
    for down, right in ((-4, 3), (2, -1), (4, 4)):
        rng = Fixed((down + 4.5) / 9, (right + 4.5) / 9)
        expected = padded[:, :, 4 + down : 11 + down, 4 + right : 10 + right]
        assert torch.equal(Shift(4)(pixels, rng).float(), expected)


def test_a_flip_exchanges_left_and_right():
    assert Flip()(NUMBERED, Fixed(0.4)).tolist() == [[[[3, 2, 1], [6, 5, 4]]]]
    assert Flip()(NUMBERED, Fixed(0.6)).tolist() == NUMBERED.tolist()


def test_a_square_is_filled_around_any_pixel():
    pixels = image(*([[7] * 4] * 4))
    center, corner = Cutout(2)(pixels, Fixed(0.5, 0.5)), Cutout(2)(pixels, Fixed(0.0, 0.0))
    gray, plain = GRAY, [7] * 4
    assert center.tolist() == [[[plain, [7, gray, gray, 7], [7, gray, gray, 7], plain]]]
    assert corner.tolist() == [[[[gray, 7, 7, 7], plain, plain, plain]]]
    assert Cutout(3)(pixels, Fixed(0.0, 0.99)).tolist() == [
        [[[7, 7, gray, gray], [7, 7, gray, gray], [7] * 4, [7] * 4]]
    ]


@pytest.fixture(scope="module")
def many():
    """Small images that are all equal, and one step's random numbers for them."""
    return torch.arange(9, dtype=torch.uint8).view(1, 1, 3, 3).repeat(ROWS, 2, 1, 1), CounterRng(
        1, 7, torch.arange(ROWS)
    )


def test_every_shift_is_as_frequent_as_any_other(many):
    pixels, rng = many
    kinds, counts = (Shift(1)(pixels, rng))[:, 0].flatten(1).unique(dim=0, return_counts=True)
    assert len(kinds) == 9  # three by three
    assert counts.min() > ROWS / 9 - 5 * (ROWS / 9) ** 0.5
    assert counts.max() < ROWS / 9 + 5 * (ROWS / 9) ** 0.5


def test_half_of_the_images_are_flipped_independently(many):
    pixels, rng = many
    flipped = (Flip()(pixels, rng)[:, 0, 0, 0] == 2).double()
    assert abs(flipped.mean() - 0.5) < 5 * 0.5 / ROWS**0.5
    assert not torch.equal(flipped[:2000], flipped[2000:])


@pytest.mark.parametrize("transform", [Shift(2), Flip(), Cutout(2)], ids=lambda it: type(it).__name__)
class TestEveryTransform:
    def test_an_example_has_the_same_transform_at_any_position(self, transform, many):
        pixels, rng = many
        whole = transform(pixels, rng)
        order = torch.randperm(ROWS)
        assert torch.equal(transform(pixels[order], CounterRng(1, 7, order)), whole[order])

    def test_another_step_has_another_transform(self, transform, many):
        pixels, rng = many
        assert not torch.equal(transform(pixels, rng), transform(pixels, CounterRng(1, 8, rng.indices)))

    def test_shape_dtype_and_the_input_do_not_change(self, transform, many):
        pixels, rng = many
        before = pixels.clone()
        found = transform(pixels, rng)
        assert (found.shape, found.dtype) == (pixels.shape, torch.uint8)
        assert torch.equal(pixels, before)

    def test_an_image_of_one_pixel(self, transform, many):
        found = transform(torch.full((5, 3, 1, 1), 9, dtype=torch.uint8), CounterRng(1, 1, torch.arange(5)))
        assert set(found.flatten().tolist()) <= {0, 9, GRAY}
