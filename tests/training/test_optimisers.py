"""One step of each optimiser by hand, what decays and what does not, and clipping by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from seq2see.training.optimisers import SGD, Adam, AdamW, average_and_clip, set_rate


def weight(values: list, gradient: list) -> nn.Parameter:
    parameter = nn.Parameter(torch.tensor(values))
    parameter.grad = torch.tensor(gradient)
    return parameter


def test_two_steps_of_sgd_with_momentum_by_hand():
    one = weight([1.0], [2.0])
    optimiser = SGD(momentum=0.5).build([one], rate=0.1)
    optimiser.step()
    assert one.item() == pytest.approx(0.8)  # 1 - 0.1 · 2
    optimiser.step()
    assert one.item() == pytest.approx(0.5)  # velocity 2 + 0.5 · 2 = 3


def test_two_steps_of_adam_by_hand():
    one = weight([1.0], [2.0])
    optimiser = Adam().build([one], rate=0.1)
    optimiser.step()
    # Corrected for their start at 0, both averages are the gradient's own: 0.1 · 2 / √4.
    assert one.item() == pytest.approx(0.9, rel=1e-6)
    one.grad = torch.tensor([-1.0])
    optimiser.step()
    mean = (0.9 * 0.1 * 2 + 0.1 * -1) / (1 - 0.9**2)
    square = (0.98 * 0.02 * 4 + 0.02 * 1) / (1 - 0.98**2)
    assert one.item() == pytest.approx(0.9 - 0.1 * mean / math.sqrt(square), rel=1e-5)


def test_adamw_shrinks_matrices_and_nothing_else():
    matrix, bias = weight([[1.0]], [[0.0]]), weight([1.0], [0.0])
    stack = weight([[[1.0]]], [[[0.0]]])
    AdamW(decay=0.5).build(iter([matrix, bias, stack]), rate=0.1).step()
    assert matrix.item() == pytest.approx(0.95)  # 1 - 0.1 · 0.5
    assert stack.item() == pytest.approx(0.95)  # a convolution's kernels are matrices side by side
    assert bias.item() == 1.0


def test_one_step_of_adamw_by_hand():
    matrix, bias = weight([[2.0]], [[3.0]]), weight([2.0], [-3.0])
    AdamW(decay=0.5).build([matrix, bias], rate=0.1).step()
    assert matrix.item() == pytest.approx(2.0 * 0.95 - 0.1, rel=1e-6)
    assert bias.item() == pytest.approx(2.1, rel=1e-6)


def test_the_rate_of_the_next_step_can_be_changed_for_all_weights():
    matrix, bias = weight([[2.0]], [[3.0]]), weight([2.0], [3.0])
    optimiser = AdamW(decay=0.0).build([matrix, bias], rate=0.1)
    set_rate(optimiser, 0.5)
    optimiser.step()
    assert matrix.item() == pytest.approx(1.5, rel=1e-6)
    assert bias.item() == pytest.approx(1.5, rel=1e-6)


def test_clipping_by_hand():
    one, two = weight([0.0, 0.0], [3.0, 0.0]), weight([[0.0]], [[4.0]])
    norm = average_and_clip([one.grad, two.grad], torch.tensor(2), 0.5)
    assert float(norm) == pytest.approx(2.5)  # the length of (3, 0, 4) / 2, as it was
    assert one.grad.tolist() == pytest.approx([0.3, 0.0])
    assert two.grad.item() == pytest.approx(0.4)


def test_a_short_gradient_is_not_touched_and_zero_never_clips():
    one = weight([0.0, 0.0], [0.3, 0.4])
    assert float(average_and_clip([one.grad], torch.tensor(2), 1.0)) == pytest.approx(0.25)
    assert one.grad.tolist() == pytest.approx([0.15, 0.2])
    large = weight([0.0], [1e6])
    assert float(average_and_clip([large.grad], torch.tensor(1), 0.0)) == pytest.approx(1e6)
    assert large.grad.item() == 1e6
