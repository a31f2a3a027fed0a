"""Verdicts: the three answers, the intervals, and their error rates over simulated experiments."""

from __future__ import annotations

import math

import numpy as np
import pytest

from seq2see.labs.verdicts import (
    AtLeast,
    AtMost,
    Effect,
    Equivalence,
    Share,
    Verdict,
    combine,
    confidence_for,
    mean_interval,
    normal_quantile,
    share_interval,
    student_quantile,
)

HOLDS, REFUTED, OPEN = Verdict.HOLDS, Verdict.DOES_NOT_HOLD, Verdict.UNDECIDED
TITLE = ("a difference", "差")
RUNS = 200


def verdicts(quantity, draw, seeds, confidence=0.95):
    """The verdicts of 200 simulated experiments."""
    rng = np.random.default_rng(7)
    intervals = [quantity.interval(draw(rng, seeds).tolist(), confidence) for _ in range(RUNS)]
    return [quantity.verdict(interval) for interval in intervals]


def normal(mean):
    return lambda rng, seeds: rng.normal(mean, 1.0, seeds)


def coins(share):
    return lambda rng, seeds: (rng.random(seeds) < share).astype(float)


class TestErrorRates:
    """A claim that is true at twice the smallest effect, and claims that are false, in 200 simulated experiments each.

    The chance of a wrong verdict is at most 2.5 % on each side: more than 12 of 200 have a probability of 0.1 %.
    """

    MOST_WRONG = 12

    @pytest.mark.parametrize("seeds", [5, 10, 40])
    def test_a_planted_null_is_not_found(self, seeds):
        found = verdicts(Effect("a", TITLE, 0.5), normal(0.0), seeds)
        assert found.count(HOLDS) <= self.MOST_WRONG

    @pytest.mark.parametrize("seeds", [5, 10, 40])
    def test_an_effect_exactly_at_the_threshold_is_decided_wrongly_in_few_runs(self, seeds):
        found = verdicts(Effect("a", TITLE, 0.5), normal(0.5), seeds)
        assert found.count(HOLDS) <= self.MOST_WRONG
        assert found.count(REFUTED) <= self.MOST_WRONG
        assert found.count(OPEN) >= RUNS - 2 * self.MOST_WRONG

    def test_a_planted_effect_is_found(self):
        found = verdicts(Effect("a", TITLE, 0.5), normal(2.0), 10)
        assert found.count(HOLDS) >= 190  # the power at this size is 99 %
        assert found.count(REFUTED) == 0

    def test_a_planted_null_is_refuted_by_a_large_experiment_and_open_in_a_small_one(self):
        assert verdicts(Effect("a", TITLE, 0.5), normal(0.0), 100).count(REFUTED) >= 190
        assert verdicts(Effect("a", TITLE, 0.5), normal(0.0), 3).count(OPEN) >= 150

    def test_equivalence_holds_for_a_null_and_not_for_an_effect(self):
        quantity = Equivalence("a", TITLE, 0.5)
        assert verdicts(quantity, normal(0.0), 100).count(HOLDS) >= 190
        assert verdicts(quantity, normal(1.0), 100).count(REFUTED) >= 190
        assert verdicts(quantity, normal(-1.0), 100).count(REFUTED) >= 190
        assert verdicts(quantity, normal(0.5), 20).count(HOLDS) <= self.MOST_WRONG

    def test_a_share_at_the_threshold_is_decided_wrongly_in_few_runs(self):
        quantity = Share("a", TITLE, 0.5)
        found = verdicts(quantity, coins(0.5), 20)
        assert found.count(HOLDS) <= 2 * self.MOST_WRONG  # Wilson's interval is approximate
        assert found.count(REFUTED) <= 2 * self.MOST_WRONG
        assert verdicts(quantity, coins(0.9), 20).count(HOLDS) >= 180

    def test_with_several_quantities_a_true_claim_is_refuted_in_few_runs(self):
        """Each of five quantities is exactly at its threshold: one of five intervals of 95 % would often be wrong."""
        rng, refuted, uncorrected = np.random.default_rng(3), 0, 0
        quantity = Effect("a", TITLE, 0.0)
        for _ in range(RUNS):
            values = rng.normal(0.0, 1.0, (5, 10)).tolist()
            one, all_five = (
                combine([quantity.verdict(quantity.interval(each, confidence_for(count))) for each in values])
                for count in (1, 5)
            )
            refuted, uncorrected = refuted + (all_five == REFUTED), uncorrected + (one == REFUTED)
        assert refuted <= self.MOST_WRONG < uncorrected


class TestIntervals:
    def test_the_mean_has_students_interval(self):
        interval = mean_interval([1.0, 2.0, 3.0], 0.95)
        assert interval.estimate == 2
        assert interval.high - 2 == pytest.approx(4.3027 / math.sqrt(3), rel=1e-4)  # s = 1, t of 2 degrees
        assert 2 - interval.low == pytest.approx(interval.high - 2)

    @pytest.mark.parametrize(
        ("probability", "degrees", "expected"),
        [(0.975, 1, 12.7062), (0.975, 4, 2.7764), (0.975, 9, 2.2622), (0.995, 9, 3.2498), (0.975, 199, 1.9720)],
    )
    def test_the_quantiles_are_those_of_the_tables(self, probability, degrees, expected):
        assert student_quantile(probability, degrees) == pytest.approx(expected, abs=1e-3)

    def test_the_normal_quantile_is_that_of_the_tables(self):
        assert normal_quantile(0.975) == pytest.approx(1.959964, abs=1e-5)

    def test_one_value_has_an_infinite_interval(self):
        assert mean_interval([3.0], 0.95).low == -math.inf

    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_a_value_that_is_no_number_leaves_the_verdict_open(self, value):
        quantity = Effect("a", TITLE, 0.5)
        assert quantity.verdict(quantity.interval([1.0, value, 2.0], 0.95)) == OPEN

    def test_ten_successes_of_ten_still_have_a_width(self):
        interval = share_interval(10, 10, 0.95)
        assert (interval.estimate, interval.high) == (1, 1)
        assert interval.low == pytest.approx(0.7225, abs=1e-3)  # Wilson (1927)

    def test_more_quantities_need_wider_intervals(self):
        assert [confidence_for(count) for count in (1, 2, 5)] == pytest.approx([0.95, 0.975, 0.99])


class TestExactClaims:
    def test_one_counterexample_refutes(self):
        quantity = AtMost("a", TITLE, 1e-6)
        for values, expected in (([0.0, 1e-6], HOLDS), ([0.0, 1e-5, 0.0], REFUTED), ([0.0, math.nan], REFUTED)):
            assert quantity.verdict(quantity.interval(values, 0.95)) == expected

    def test_the_smallest_value_counts_for_a_lower_bound(self):
        quantity = AtLeast("a", TITLE, 0.5)
        for values, expected in (([0.5, 9.0], HOLDS), ([9.0, 0.4], REFUTED), ([9.0, math.nan], REFUTED)):
            assert quantity.verdict(quantity.interval(values, 0.95)) == expected

    def test_a_worst_case_has_no_width(self):
        interval = AtMost("a", TITLE, 1.0).interval([0.2, 0.7, 0.1], 0.95)
        assert interval.low == interval.estimate == interval.high == 0.7


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([HOLDS, HOLDS], HOLDS),
        ([HOLDS, OPEN], OPEN),
        ([OPEN, REFUTED, HOLDS], REFUTED),
    ],
)
def test_a_claim_holds_if_all_its_quantities_do_and_one_refutes_it(parts, expected):
    assert combine(parts) == expected
