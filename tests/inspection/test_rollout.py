"""Rollout with other fusions: still shares, and the paper's where nothing is chosen otherwise."""

from __future__ import annotations

import numpy as np
import pytest

from seq2see.inspection.rollout import HEAD_FUSIONS, discard_smallest, rollout


def layers(count: int = 3, heads: int = 2, places: int = 5) -> list[np.ndarray]:
    drawn = np.random.default_rng(0).random((count, heads, places, places)).astype(np.float32)
    return list(drawn / drawn.sum(-1, keepdims=True))


@pytest.mark.parametrize("fusion", HEAD_FUSIONS)
@pytest.mark.parametrize("discard", [0.0, 0.5, 0.9])
def test_every_row_is_shares(head_fusion: str, discard_ratio: float):
    np.testing.assert_allclose(rollout(layers(), head_fusion, discard_ratio).sum(-1), 1, rtol=1e-5)


def test_the_mean_without_discarding_is_the_papers():
    expected = np.eye(5)
    for weights in layers():
        expected = (weights.mean(0) + np.eye(5)) / 2 @ expected
    np.testing.assert_allclose(rollout(layers()), expected, rtol=1e-5)


def test_smallest_and_largest_weights_are_those_of_all_heads():
    one = layers(count=1)[0]
    for head_fusion, find in (("min", np.min), ("max", np.max)):
        step = find(one, axis=0) + np.eye(5)
        np.testing.assert_allclose(rollout([one], head_fusion), step / step.sum(-1, keepdims=True), rtol=1e-5)


def test_the_smallest_weights_are_discarded_and_no_others():
    one = layers(count=1)[0].mean(0)
    kept = discard_smallest(one, 0.8)
    assert (kept > 0).sum() == 5
    assert kept[kept > 0].min() >= np.sort(one.flatten())[-5]
    np.testing.assert_array_equal(discard_smallest(one, 0.0), one)
    np.testing.assert_array_equal(one, layers(count=1)[0].mean(0))  # and it is left as it was


def test_what_is_discarded_is_left_out_of_the_whole_way():
    """The mean is (½ ½, ⅛ ⅞); a quarter of it, the ⅛, goes, and with the stream that runs past (1½ ½, 0 1⅞) is left."""
    heads = np.array([[[0.75, 0.25], [0.25, 0.75]], [[0.25, 0.75], [0.0, 1.0]]], np.float32)
    assert rollout([heads], "mean", 0.25).tolist() == [[0.75, 0.25], [0, 1]]
