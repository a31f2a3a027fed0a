"""Positions: the sinusoidal table by its formula, what makes it special, and the alternatives."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from seq2see.core.errors import UserError
from seq2see.layers.positions import (
    POSITIONS,
    POSITIONS_2D,
    LearnedPositions,
    LearnedPositions2d,
    NoPositions,
    NoPositions2d,
    SinusoidalPositions,
    SinusoidalPositions2d,
)


def at(position_ids: list[int], width: int) -> torch.Tensor:
    return SinusoidalPositions(width)(torch.tensor([position_ids]))[0]


def test_sinusoidal_positions_by_hand():
    # Width 4: frequencies 1 and 1/100.
    assert_close(at([0], 4), torch.tensor([[0.0, 1, 0, 1]]))
    expected = [math.sin(3), math.cos(3), math.sin(0.03), math.cos(0.03)]
    assert_close(at([3], 4), torch.tensor([expected]))


@given(st.integers(0, 300), st.integers(1, 16))
def test_the_sinusoidal_table_equals_its_formula(time, half):
    width = 2 * half
    expected = []
    for place in range(half):
        angle = time / 10000 ** (2 * place / width)
        expected += [math.sin(angle), math.cos(angle)]
    assert_close(at([time], width)[0], torch.tensor(expected), rtol=0, atol=1e-4)


@given(st.integers(0, 50), st.integers(0, 50))
def test_a_shift_is_the_same_rotation_everywhere(time, shift):
    width = 6
    before, after = at([time, time + shift], width).view(2, 3, 2)
    for place in range(3):
        angle = shift / 10000 ** (2 * place / width)
        sine, cosine = before[place].tolist()
        # sin(a + b) = sin a cos b + cos a sin b, cos(a + b) = cos a cos b - sin a sin b
        rotated = [
            sine * math.cos(angle) + cosine * math.sin(angle),
            cosine * math.cos(angle) - sine * math.sin(angle),
        ]
        assert_close(after[place], torch.tensor(rotated), rtol=0, atol=1e-5)


def test_the_dot_product_of_two_positions_depends_on_their_distance_alone():
    table = at(list(range(40)), 16)
    products = table @ table.T
    for distance in range(0, 40, 7):
        along = products.diagonal(distance)
        assert_close(along, along[:1].expand_as(along), rtol=0, atol=1e-4)


def test_every_time_has_its_own_vector_and_rows_may_stand_at_different_times():
    table = at(list(range(200)), 8)
    distances = torch.cdist(table, table) + torch.eye(200)
    assert distances.min() > 0.01
    two = SinusoidalPositions(8)(torch.tensor([[0, 1], [7, 150]]))
    assert torch.equal(two[1], table[[7, 150]])


def test_a_table_that_is_a_formula_is_not_stored_with_the_weights():
    assert not SinusoidalPositions(8).state_dict()


def test_sines_and_cosines_come_in_pairs():
    with pytest.raises(UserError, match=r"width of 7.*positions"):
        SinusoidalPositions(7)


def test_learned_positions_are_rows_of_a_table_and_the_last_serves_beyond_it():
    positions = LearnedPositions(4)
    found = positions(torch.tensor([[0, 5, 511], [512, 9999, 510]]))
    rows = positions.table.weight
    assert torch.equal(found[0], rows[[0, 5, 511]])
    assert torch.equal(found[1], rows[[511, 511, 510]])
    assert rows.shape == (512, 4)
    assert rows.requires_grad


def test_there_are_as_many_learned_positions_as_are_asked_for():
    positions = LearnedPositions(4, max_positions=7)
    assert positions.table.weight.shape == (7, 4)
    assert torch.equal(positions(torch.tensor([[6, 7]]))[0], positions.table.weight[[6, 6]])


def test_no_positions_add_nothing():
    vectors = torch.randn(2, 3, 4)
    assert torch.equal(vectors + NoPositions(4)(torch.tensor([[0, 1, 2]])), vectors)


def test_every_word_means_its_class():
    assert {word: kind.__name__ for word, kind in POSITIONS.items()} == {
        "sinusoidal": "SinusoidalPositions",
        "learned": "LearnedPositions",
        "rotary": "NoPositions",
        "alibi": "NoPositions",
        "none": "NoPositions",
    }


def test_a_sinusoidal_grid_says_how_far_down_and_how_far_to_the_right():
    vectors = SinusoidalPositions2d(8)((3, 5))[0].unflatten(0, (3, 5))
    down, right = at([0, 1, 2], 4), at([0, 1, 2, 3, 4], 4)
    for line in range(3):
        for column in range(5):
            assert torch.equal(vectors[line, column], torch.cat([down[line], right[column]]))


def test_a_sinusoidal_grid_has_two_pairs_of_a_sine_and_a_cosine():
    with pytest.raises(UserError, match=r"width of 6.*multiple of four"):
        SinusoidalPositions2d(6)


def test_a_learned_grid_gives_its_own_vectors_to_its_own_size_bit_for_bit():
    grid = LearnedPositions2d(4, (2, 3))
    assert torch.equal(grid((2, 3))[0], grid.table.weight)
    assert grid.table.weight.shape == (6, 4)


def test_a_cubic_curve_through_equal_vectors_is_that_vector():
    grid = LearnedPositions2d(2, (2, 3))
    torch.nn.init.constant_(grid.table.weight, 1.5)
    assert_close(grid((5, 7))[0], torch.full((35, 2), 1.5))


def cubic(numbers: list[float], place: float) -> float:
    """A cubic convolution by its formula, a = -0.75 (Keys 1981, eq. 4); beyond the ends the outermost numbers go on."""
    total, a = 0.0, -0.75
    for index in range(math.floor(place) - 1, math.floor(place) + 3):
        gap = abs(place - index)
        near = (a + 2) * gap**3 - (a + 3) * gap**2 + 1
        far = a * gap**3 - 5 * a * gap**2 + 8 * a * gap - 4 * a
        total += (near if gap <= 1 else far) * numbers[min(max(index, 0), len(numbers) - 1)]
    return total


def test_a_larger_image_reads_its_vectors_off_between_the_learned_ones():
    """One column, so that it can be done on paper: place i of n lies at (i + 1/2) · 4 / n - 1/2 of the four."""
    grid = LearnedPositions2d(1, (4, 1))
    numbers = [3.0, -1.0, 4.0, 1.5]
    with torch.no_grad():
        grid.table.weight.copy_(torch.tensor(numbers)[:, None])
    for size in (2, 5, 8, 9):
        expected = [cubic(numbers, (place + 0.5) * 4 / size - 0.5) for place in range(size)]
        assert_close(grid((size, 1)).flatten(), torch.tensor(expected))


def test_down_and_right_are_not_mixed_up():
    grid = LearnedPositions2d(1, (2, 3))
    with torch.no_grad():
        grid.table.weight.copy_(torch.tensor([0.0, 0, 0, 10, 10, 10])[:, None])  # differs from line to line alone
    vectors = grid((4, 3)).view(4, 3)
    assert_close(vectors, vectors[:, :1].expand(4, 3))
    assert vectors[0, 0] < vectors[1, 0] < vectors[2, 0] < vectors[3, 0]


def test_learned_vectors_learn_from_images_of_another_size():
    grid = LearnedPositions2d(2, (2, 2))
    grid((3, 3)).sum().backward()
    assert_close(grid.table.weight.grad.sum(), torch.tensor(18.0))  # nine places of two numbers, shared out


def test_no_grid_adds_nothing():
    vectors = torch.randn(2, 6, 4)
    assert torch.equal(vectors + NoPositions2d(4)((2, 3)), vectors)
    assert {"learned": LearnedPositions2d, "sinusoidal": SinusoidalPositions2d, "none": NoPositions2d} == POSITIONS_2D
    assert not NoPositions2d(4).state_dict()
    assert not SinusoidalPositions2d(4).state_dict()
