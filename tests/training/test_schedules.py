"""Learning-rate schedules: the paper's formula, and points that can be checked on paper."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2see.training.optimizers import Constant, Cosine, InverseSquareRoot


@given(st.integers(1, 100_000), st.integers(1, 10_000), st.sampled_from([8, 512, 1024]))
def test_the_inverse_square_root_is_the_papers_formula(step, warmup, width):
    paper = width**-0.5 * min(step**-0.5, step * warmup**-1.5)
    peak = (width * warmup) ** -0.5
    actual = peak * InverseSquareRoot(warmup=warmup).factor(step, steps=1)
    assert actual == pytest.approx(paper, rel=1e-12)


def test_the_inverse_square_root_by_hand():
    schedule = InverseSquareRoot(warmup=100)
    points = [schedule.factor(step, 9999) for step in (1, 50, 100, 400, 10_000)]
    assert points == pytest.approx([0.01, 0.5, 1.0, 0.5, 0.1])


def test_the_cosine_by_hand():
    schedule = Cosine(warmup=100)
    points = [schedule.factor(step, 1100) for step in (1, 50, 100, 350, 600, 1100)]
    # A quarter of the way down: (1 + cos 45°) / 2.
    assert points == pytest.approx([0.01, 0.5, 1.0, (1 + 0.5**0.5) / 2, 0.5, 0.0], abs=1e-12)


@given(st.integers(1, 50), st.integers(1, 200))
def test_the_cosine_rises_falls_and_ends_at_zero(warmup, more):
    steps = warmup + more
    factors = [Cosine(warmup=warmup).factor(step, steps) for step in range(1, steps + 1)]
    assert factors[warmup - 1] == max(factors) == 1.0
    assert factors[:warmup] == sorted(factors[:warmup])
    assert factors[warmup - 1 :] == sorted(factors[warmup - 1 :], reverse=True)
    assert factors[-1] == pytest.approx(0.0, abs=1e-12)
    assert Cosine(warmup=warmup).factor(steps + 7, steps) == pytest.approx(0.0, abs=1e-12)


def test_a_run_that_is_shorter_than_the_warmup_only_rises():
    assert [Cosine(warmup=10).factor(step, 5) for step in (1, 5)] == [0.1, 0.5]


def test_a_constant_is_constant():
    assert [Constant().factor(step, 10) for step in (1, 5, 10)] == [1.0, 1.0, 1.0]


def test_a_training_that_is_all_warmup_ends_at_the_peak():
    assert Cosine(warmup=5).factor(5, 5) == 1.0
