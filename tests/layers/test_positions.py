"""Position encodings: the sinusoidal encoding by its formula, its properties, and the alternatives."""

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


def encoding_at(position_ids: list[int], width: int) -> torch.Tensor:
    return SinusoidalPositions(width)(torch.tensor([position_ids]))[0]


def test_sinusoidal_positions_by_hand():
    # Width 4: frequencies 1 and 1/100.
    assert_close(encoding_at([0], 4), torch.tensor([[0.0, 1, 0, 1]]))
    expected = [math.sin(3), math.cos(3), math.sin(0.03), math.cos(0.03)]
    assert_close(encoding_at([3], 4), torch.tensor([expected]))


@given(st.integers(0, 300), st.integers(1, 16))
def test_the_sinusoidal_encoding_equals_its_formula(time, half):
    width = 2 * half
    expected = []
    for index in range(half):
        angle = time / 10000 ** (2 * index / width)
        expected += [math.sin(angle), math.cos(angle)]
    assert_close(encoding_at([time], width)[0], torch.tensor(expected), rtol=0, atol=1e-4)


@given(st.integers(0, 50), st.integers(0, 50))
def test_a_shift_is_the_same_rotation_everywhere(time, shift):
    width = 6
    before, after = encoding_at([time, time + shift], width).view(2, 3, 2)
    for index in range(3):
        angle = shift / 10000 ** (2 * index / width)
        sine, cosine = before[index].tolist()
        # sin(a + b) = sin a cos b + cos a sin b, cos(a + b) = cos a cos b - sin a sin b
        rotated = [
            sine * math.cos(angle) + cosine * math.sin(angle),
            cosine * math.cos(angle) - sine * math.sin(angle),
        ]
        assert_close(after[index], torch.tensor(rotated), rtol=0, atol=1e-5)


def test_the_dot_product_of_two_positions_depends_on_their_distance_alone():
    encodings = encoding_at(list(range(40)), 16)
    products = encodings @ encodings.T
    for distance in range(0, 40, 7):
        diagonal = products.diagonal(distance)
        assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=0, atol=1e-4)


def test_every_position_has_its_own_vector_and_rows_may_have_different_positions():
    encodings = encoding_at(list(range(200)), 8)
    distances = torch.cdist(encodings, encodings) + torch.eye(200)
    assert distances.min() > 0.01
    two_rows = SinusoidalPositions(8)(torch.tensor([[0, 1], [7, 150]]))
    assert torch.equal(two_rows[1], encodings[[7, 150]])


def test_sinusoidal_encodings_are_not_in_the_state_dict():
    assert not SinusoidalPositions(8).state_dict()


def test_an_odd_width_is_refused():
    with pytest.raises(UserError, match=r"width 7 is odd.*positions"):
        SinusoidalPositions(7)


def test_learned_positions_are_an_embedding_whose_last_row_serves_later_positions():
    positions = LearnedPositions(4)
    output = positions(torch.tensor([[0, 5, 511], [512, 9999, 510]]))
    rows = positions.embedding.weight
    assert torch.equal(output[0], rows[[0, 5, 511]])
    assert torch.equal(output[1], rows[[511, 511, 510]])
    assert rows.shape == (512, 4)
    assert rows.requires_grad


def test_the_number_of_learned_positions_is_an_argument():
    positions = LearnedPositions(4, max_positions=7)
    assert positions.embedding.weight.shape == (7, 4)
    assert torch.equal(positions(torch.tensor([[6, 7]]))[0], positions.embedding.weight[[6, 6]])


def test_no_positions_add_nothing():
    vectors = torch.randn(2, 3, 4)
    assert torch.equal(vectors + NoPositions(4)(torch.tensor([[0, 1, 2]])), vectors)


def test_every_name_has_its_class():
    assert {name: cls.__name__ for name, cls in POSITIONS.items()} == {
        "sinusoidal": "SinusoidalPositions",
        "learned": "LearnedPositions",
        "rotary": "NoPositions",
        "alibi": "NoPositions",
        "none": "NoPositions",
    }


def test_a_sinusoidal_grid_encodes_the_row_and_the_column():
    vectors = SinusoidalPositions2d(8)((3, 5))[0].unflatten(0, (3, 5))
    down, right = encoding_at([0, 1, 2], 4), encoding_at([0, 1, 2, 3, 4], 4)
    for line in range(3):
        for column in range(5):
            assert torch.equal(vectors[line, column], torch.cat([down[line], right[column]]))


def test_a_sinusoidal_grid_has_two_pairs_of_a_sine_and_a_cosine():
    with pytest.raises(UserError, match=r"width 6.*multiple of four"):
        SinusoidalPositions2d(6)


def test_a_learned_grid_of_its_own_size_is_not_interpolated():
    grid = LearnedPositions2d(4, (2, 3))
    assert torch.equal(grid((2, 3))[0], grid.embedding.weight)
    assert grid.embedding.weight.shape == (6, 4)


def test_the_interpolation_of_equal_vectors_is_that_vector():
    grid = LearnedPositions2d(2, (2, 3))
    torch.nn.init.constant_(grid.embedding.weight, 1.5)
    assert_close(grid((5, 7))[0], torch.full((35, 2), 1.5))


def cubic(numbers: list[float], coordinate: float) -> float:
    """A cubic convolution by its formula, a = -0.75 (Keys 1981, eq. 4); the numbers are extended by the outermost."""
    total, a = 0.0, -0.75
    for index in range(math.floor(coordinate) - 1, math.floor(coordinate) + 3):
        gap = abs(coordinate - index)
        near = (a + 2) * gap**3 - (a + 3) * gap**2 + 1
        far = a * gap**3 - 5 * a * gap**2 + 8 * a * gap - 4 * a
        total += (near if gap <= 1 else far) * numbers[min(max(index, 0), len(numbers) - 1)]
    return total


def test_a_larger_image_interpolates_between_the_learned_vectors():
    """One column, so that it can be computed by hand: index i of n has the coordinate (i + 1/2) · 4 / n - 1/2."""
    grid = LearnedPositions2d(1, (4, 1))
    numbers = [3.0, -1.0, 4.0, 1.5]
    with torch.no_grad():
        grid.embedding.weight.copy_(torch.tensor(numbers)[:, None])
    for size in (2, 5, 8, 9):
        expected = [cubic(numbers, (index + 0.5) * 4 / size - 0.5) for index in range(size)]
        assert_close(grid((size, 1)).flatten(), torch.tensor(expected))


def test_rows_and_columns_are_not_swapped():
    grid = LearnedPositions2d(1, (2, 3))
    with torch.no_grad():
        grid.embedding.weight.copy_(torch.tensor([0.0, 0, 0, 10, 10, 10])[:, None])  # differs between rows only
    vectors = grid((4, 3)).view(4, 3)
    assert_close(vectors, vectors[:, :1].expand(4, 3))
    assert vectors[0, 0] < vectors[1, 0] < vectors[2, 0] < vectors[3, 0]


def test_learned_vectors_learn_from_images_of_another_size():
    grid = LearnedPositions2d(2, (2, 2))
    grid((3, 3)).sum().backward()
    assert_close(grid.embedding.weight.grad.sum(), torch.tensor(18.0))  # nine patches of two numbers


def test_no_positions_2d_add_nothing():
    vectors = torch.randn(2, 6, 4)
    assert torch.equal(vectors + NoPositions2d(4)((2, 3)), vectors)
    assert {"learned": LearnedPositions2d, "sinusoidal": SinusoidalPositions2d, "none": NoPositions2d} == POSITIONS_2D
    assert not NoPositions2d(4).state_dict()
    assert not SinusoidalPositions2d(4).state_dict()
