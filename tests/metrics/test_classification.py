"""Classification metrics by hand, and cases with a division by zero."""

from __future__ import annotations

import pytest

from seq2see.core.errors import UserError
from seq2see.metrics.classification import ConfusionMatrix

REFERENCES = ["a", "a", "a", "b", "b", "c"]
PREDICTIONS = ["a", "a", "b", "b", "a", "b"]


def test_rows_are_references_and_columns_are_predictions():
    matrix = ConfusionMatrix.of(["a", "b", "c"], REFERENCES, PREDICTIONS)
    assert matrix.counts == ((2, 1, 0), (1, 1, 0), (0, 1, 0))
    assert matrix.total == 6
    assert matrix.accuracy == pytest.approx(3 / 6)


def test_precision_recall_and_f1_by_hand():
    scores = ConfusionMatrix.of(["a", "b", "c"], REFERENCES, PREDICTIONS).scores
    assert scores["a"].precision == pytest.approx(2 / 3)
    assert scores["a"].recall == pytest.approx(2 / 3)
    assert scores["b"].precision == pytest.approx(1 / 3)
    assert scores["b"].recall == pytest.approx(1 / 2)
    assert scores["b"].f1 == pytest.approx(2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2))
    assert [each.support for each in scores.values()] == [3, 2, 1]


def test_a_label_that_is_never_predicted_has_precision_zero_and_counts_in_the_mean():
    matrix = ConfusionMatrix.of(["a", "b", "c"], REFERENCES, PREDICTIONS)
    assert (matrix.scores["c"].precision, matrix.scores["c"].recall, matrix.scores["c"].f1) == (0, 0, 0)
    assert matrix.macro_f1 == pytest.approx((2 / 3 + 0.4 + 0) / 3)


def test_a_label_that_does_not_occur_at_all_does_not_count_in_the_mean():
    assert ConfusionMatrix.of(["a", "z"], ["a"], ["a"]).macro_f1 == 1


def test_a_label_that_is_only_predicted_counts_in_the_mean():
    assert ConfusionMatrix.of(["a", "z"], ["a", "a"], ["a", "z"]).macro_f1 == pytest.approx((2 / 3 + 0) / 2)


def test_an_unknown_label_is_an_error():
    with pytest.raises(UserError, match="'x' is not one of the labels"):
        ConfusionMatrix.of(["a"], ["a"], ["x"])
