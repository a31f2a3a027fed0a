"""Labels told apart: by hand, and what happens where there is nothing to divide by."""

from __future__ import annotations

import pytest

from seq2see.core.errors import UserError
from seq2see.metrics.classification import ConfusionMatrix

TRUTHS = ["a", "a", "a", "b", "b", "c"]
ANSWERS = ["a", "a", "b", "b", "a", "b"]


def test_rows_are_the_truth_and_columns_the_answers():
    found = ConfusionMatrix.of(["a", "b", "c"], TRUTHS, ANSWERS)
    assert found.counts == ((2, 1, 0), (1, 1, 0), (0, 1, 0))
    assert found.total == 6
    assert found.accuracy == pytest.approx(3 / 6)


def test_precision_recall_and_f1_by_hand():
    figures = ConfusionMatrix.of(["a", "b", "c"], TRUTHS, ANSWERS).scores
    assert figures["a"].precision == pytest.approx(2 / 3)
    assert figures["a"].recall == pytest.approx(2 / 3)
    assert figures["b"].precision == pytest.approx(1 / 3)
    assert figures["b"].recall == pytest.approx(1 / 2)
    assert figures["b"].f1 == pytest.approx(2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2))
    assert [each.count for each in figures.values()] == [3, 2, 1]


def test_a_label_that_is_never_answered_has_no_precision_and_counts_in_the_mean():
    found = ConfusionMatrix.of(["a", "b", "c"], TRUTHS, ANSWERS)
    assert (found.scores["c"].precision, found.scores["c"].recall, found.scores["c"].f1) == (0, 0, 0)
    assert found.macro_f1 == pytest.approx((2 / 3 + 0.4 + 0) / 3)


def test_a_label_that_does_not_occur_at_all_does_not_count_in_the_mean():
    assert ConfusionMatrix.of(["a", "z"], ["a"], ["a"]).macro_f1 == 1


def test_a_label_that_is_only_answered_counts_in_the_mean():
    assert ConfusionMatrix.of(["a", "z"], ["a", "a"], ["a", "z"]).macro_f1 == pytest.approx((2 / 3 + 0) / 2)


def test_a_strange_label_is_told():
    with pytest.raises(UserError, match="'x' is none"):
        ConfusionMatrix.of(["a"], ["a"], ["x"])
