"""Averages of weights, by hand."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from seq2see.training.optimizers import NTASGD, average_weights, decay_at, update_average


def moved(average: float, weight: float, decay: float, step: int) -> float:
    tensor = torch.tensor([average])
    lerp_weight = torch.tensor(1 - decay_at(step, decay))
    update_average([tensor], [nn.Parameter(torch.tensor([weight]))], lerp_weight)
    return tensor.item()


def test_a_moving_average_by_hand():
    # Long after the start the decay counts: 0.9 · 10 + 0.1 · 20.
    assert moved(10.0, 20.0, decay=0.9, step=1000) == pytest.approx(11.0)


def test_early_on_the_average_follows_faster():
    # Step 1 has a decay of 2/11; step 8 one of a half.
    assert moved(0.0, 11.0, decay=0.999, step=1) == pytest.approx(9.0)
    assert moved(0.0, 10.0, decay=0.999, step=8) == pytest.approx(5.0)
    assert moved(0.0, 11.0, decay=0.1, step=1) == pytest.approx(9.9)  # never more than the decay


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=20))
def test_many_steps_equal_the_recurrence(values):
    average, expected = torch.tensor([1.0]), 1.0
    weight = nn.Parameter(torch.zeros(1))
    for step, value in enumerate(values, start=1):
        with torch.no_grad():
            weight.fill_(value)
        update_average([average], [weight], torch.tensor(1 - decay_at(step, 0.6)))
        decay = min(0.6, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * value
        assert average.item() == pytest.approx(expected, rel=1e-4, abs=1e-4)
    assert weight.item() == pytest.approx(values[-1])


def test_the_average_changes_in_place_and_has_no_gradient():
    average, weight = torch.zeros(3), nn.Parameter(torch.ones(3))
    update_average([average], [weight], torch.tensor(0.5))
    assert average.tolist() == [0.5] * 3
    assert not average.requires_grad


def test_a_mean_of_checkpoints_by_hand():
    models = [
        {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor(3.0)},
        {"a": torch.tensor([3.0, 6.0]), "b": torch.tensor(0.0)},
    ]
    mean = average_weights(models)
    assert mean["a"].tolist() == [2.0, 4.0]
    assert mean["b"].item() == 1.5
    assert mean["a"].dtype == torch.float32
    assert models[0]["a"].tolist() == [1.0, 2.0]


def test_a_mean_is_summed_in_double_precision():
    # In float32, 2²⁴ + 1 is 2²⁴: the small numbers would vanish.
    models = [{"a": torch.tensor([value])} for value in (2.0**24, 1.0, 1.0, 2.0)]
    assert average_weights(models)["a"].item() == (2**24 + 4) / 4


def test_nt_asgd_begins_when_a_loss_is_worse_than_one_six_evaluations_ago_or_more():
    """Merity et al. 2018, algorithm 1, with n = 5."""
    is_triggered = NTASGD().is_triggered
    assert not is_triggered([9.0])
    assert not is_triggered([5, 6, 6, 6, 6, 6])  # too few evaluations
    assert is_triggered([5, 6, 6, 6, 6, 6, 5.1])
    assert not is_triggered([5, 6, 6, 6, 6, 6, 4.9])
    assert not is_triggered([5, 6, 6, 6, 6, 6, 5])  # an equal loss is not worse
    assert not is_triggered([7, 5, 6, 6, 6, 6, 6.9])  # worse than the 5, but that is only five evaluations ago
    assert is_triggered([7, 5, 6, 6, 6, 6, 6.9, 5.1])


def test_nt_asgd_by_hand():
    """The weights until step 3, then the arithmetic mean of those from step 3 on."""
    rule, average, weight = NTASGD(), torch.tensor([0.0]), nn.Parameter(torch.zeros(1))
    values = []
    for step, value in enumerate([8.0, 6.0, 1.0, 3.0, 8.0], start=1):
        with torch.no_grad():
            weight.fill_(value)
        update_average([average], [weight], torch.tensor(rule.lerp_weight(step, start=3)))
        values.append(average.item())
    assert values == pytest.approx([8.0, 6.0, 1.0, 2.0, 4.0])
    assert rule.lerp_weight(1000, start=0) == 1.0  # never triggered
