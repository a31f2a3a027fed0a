"""Autoregressive forecasts: each prediction is the next input."""

from __future__ import annotations

import torch

from seq2see.tasks.forecast import forecast


class SumOfAll:
    """Predicts that the next value is the sum of all previous ones; its state is that sum and the free capacity."""

    def start(self, source, rows, max_length):
        assert source is None
        return torch.zeros(rows, 1), max_length

    def step(self, values, state):
        total, max_length = state
        assert values.size(1) <= max_length, "more values than the maximum length"
        sums = total + values.cumsum(dim=1)
        return sums[:, :, None], (sums[:, -1:], max_length - values.size(1))


def test_each_prediction_is_the_next_input():
    observed = torch.tensor([[1.0, 2.0], [0.0, 1.0]])
    assert forecast(SumOfAll(), observed, 4).tolist() == [[3, 6, 12, 24], [1, 2, 4, 8]]


def test_one_value_gives_one_prediction():
    assert forecast(SumOfAll(), torch.tensor([[5.0]]), 1).tolist() == [[5.0]]
