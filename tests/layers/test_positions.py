"""Positions: the sinusoidal table by its formula, what makes it special, and the alternatives."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from seq2see.core.errors import UserError
from seq2see.layers.positions import POSITIONS, LearnedPositions, NoPositions, SinusoidalPositions


def at(times: list[int], width: int) -> torch.Tensor:
    return SinusoidalPositions(width)(torch.tensor([times]))[0]


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
    positions = LearnedPositions(4, longest=7)
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
