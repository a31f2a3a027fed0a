"""Zipf's law: the slope of frequency over rank."""

from __future__ import annotations

import math

import numpy as np
import pytest

from seq2see.metrics.zipf import rank_ranges, zipf_slope


@pytest.mark.parametrize("slope", [-1.0, -0.5, -1.7])
def test_the_slope_of_an_exact_law_is_found(slope):
    counts = 1e6 * np.arange(1, 500) ** slope
    assert zipf_slope(counts, [1] * len(counts)) == pytest.approx(slope)


def test_equal_counts_share_their_ranks():
    first, last = rank_ranges([5, 2, 1], [1, 3, 4])
    assert first.tolist() == [1, 2, 5]
    assert last.tolist() == [1, 4, 8]
    assert zipf_slope([3], [10]) == pytest.approx(0, abs=1e-12)


def test_head_and_tail_have_different_slopes():
    counts = [*range(1000, 900, -1), *([1] * 1)]
    multiplicities = [*([1] * 100), 9900]
    assert zipf_slope(counts, multiplicities, 1, 100) > -0.1
    assert zipf_slope(counts, multiplicities, 101) == pytest.approx(0, abs=1e-12)
    assert zipf_slope(counts, multiplicities) < -1


def test_the_maximum_rank_is_limited_to_the_last_rank():
    assert zipf_slope([9, 4, 1], [1, 2, 3], 1, 1000) == zipf_slope([9, 4, 1], [1, 2, 3])


def test_a_single_rank_has_no_slope():
    assert math.isnan(zipf_slope([7], [1]))
