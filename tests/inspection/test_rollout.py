"""Attention rollout: rows sum to 1 with every fusion, and the defaults are those of the paper."""

from __future__ import annotations

import numpy as np
import pytest

from seq2see.inspection.attention_measures import HEAD_FUSIONS, discard_smallest, rollout


def layers(count: int = 3, heads: int = 2, length: int = 5) -> list[np.ndarray]:
    weights = np.random.default_rng(0).random((count, heads, length, length)).astype(np.float32)
    return list(weights / weights.sum(-1, keepdims=True))


@pytest.mark.parametrize("head_fusion", HEAD_FUSIONS)
@pytest.mark.parametrize("discard_ratio", [0.0, 0.5, 0.9])
def test_every_row_sums_to_one(head_fusion: str, discard_ratio: float):
    np.testing.assert_allclose(rollout(layers(), head_fusion, discard_ratio).sum(-1), 1, rtol=1e-5)


def test_the_mean_without_discarding_is_the_rollout_of_the_paper():
    expected = np.eye(5)
    for weights in layers():
        expected = (weights.mean(0) + np.eye(5)) / 2 @ expected
    np.testing.assert_allclose(rollout(layers()), expected, rtol=1e-5)


def test_minimum_and_maximum_are_those_of_all_heads():
    weights = layers(count=1)[0]
    for head_fusion, reduce in (("min", np.min), ("max", np.max)):
        step = reduce(weights, axis=0) + np.eye(5)
        np.testing.assert_allclose(rollout([weights], head_fusion), step / step.sum(-1, keepdims=True), rtol=1e-5)


def test_only_the_smallest_weights_are_discarded():
    weights = layers(count=1)[0].mean(0)
    result = discard_smallest(weights, 0.8)
    assert (result > 0).sum() == 5
    assert result[result > 0].min() >= np.sort(weights.flatten())[-5]
    np.testing.assert_array_equal(discard_smallest(weights, 0.0), weights)
    np.testing.assert_array_equal(weights, layers(count=1)[0].mean(0))  # the argument does not change


def test_discarded_weights_are_not_part_of_the_rollout():
    """The mean is (½ ½, ⅛ ⅞); a quarter of it, the ⅛, is discarded; with the residual connection it is (1½ ½, 0 1⅞)."""
    heads = np.array([[[0.75, 0.25], [0.25, 0.75]], [[0.25, 0.75], [0.0, 1.0]]], np.float32)
    assert rollout([heads], "mean", 0.25).tolist() == [[0.75, 0.25], [0, 1]]
