import pytest
import torch

from seq2see.decoding.samplers import GNMT, Average, NoPenalty

SUMS, LENGTHS = torch.tensor([-6.0, -6.0]), torch.tensor([1, 4])


def test_no_penalty_does_not_change_the_sum():
    assert NoPenalty()(SUMS, LENGTHS).tolist() == [-6, -6]


def test_average_divides_by_a_power_of_the_length():
    assert Average(alpha=1.0)(SUMS, LENGTHS).tolist() == [-6, -1.5]
    assert Average(alpha=0.5)(SUMS, LENGTHS).tolist() == [-6, -3]


def test_gnmt_divides_by_a_power_of_the_length_with_five_added():
    assert GNMT(alpha=1.0)(SUMS, LENGTHS).tolist() == [-6, -4]  # 6/6, 9/6
    assert GNMT(alpha=2.0)(SUMS, LENGTHS)[1].item() == pytest.approx(-6 / 2.25)


@pytest.mark.parametrize("length_penalty", [Average(alpha=0.0), GNMT(alpha=0.0)], ids=["average", "gnmt"])
def test_alpha_zero_is_no_penalty(length_penalty):
    assert length_penalty(SUMS, LENGTHS).tolist() == SUMS.tolist()


def test_a_length_may_be_an_int():
    assert Average()(SUMS, 3).tolist() == [-2, -2]
