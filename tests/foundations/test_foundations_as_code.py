"""The foundations, compared with torch and with results that can be computed by hand."""

from __future__ import annotations

import math
from itertools import islice

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from seq2see.foundations.counted_floats import FloatCounter
from seq2see.foundations.forward_mode import Dual, forward_gradient
from seq2see.foundations.gradient_clipping import clip_gradient
from seq2see.foundations.kernel_regression import fit_kernel_width, kernel_regression, kernel_weights
from seq2see.foundations.least_squares import closed_form, kernel_ridge, minibatch_sgd, random_regression, ridge
from seq2see.foundations.normalization import batch_norm, layer_norm, sentence_norm
from seq2see.foundations.reverse_mode import Tape, reverse_gradient
from seq2see.foundations.signal_by_depth import signal_by_depth
from seq2see.foundations.softmax_regression import (
    cross_entropy_and_gradient,
    perplexity_and_gradient,
    random_classification,
)


def rng(seed=3):
    return torch.Generator().manual_seed(seed)


# Automatic differentiation


def product_of_waves(inputs):
    """sin(x y) + exp(y) · z."""
    x, y, z = inputs
    return (x * y).sin() + y.exp() * z


@pytest.mark.parametrize("gradient", [forward_gradient, reverse_gradient])
def test_both_modes_have_the_gradient_of_torch(gradient):
    numbers = [0.3, -0.7, 2.0]
    expected = torch.autograd.functional.jacobian(
        lambda x: (x[0] * x[1]).sin() + x[1].exp() * x[2], torch.tensor(numbers, dtype=torch.float64)
    )
    assert gradient(product_of_waves, numbers, FloatCounter()) == pytest.approx(expected.tolist())


def test_a_variable_that_is_used_twice_has_the_sum_of_both_derivatives():
    assert reverse_gradient(lambda x: x[0] * x[0] * x[0], [2.0], FloatCounter()) == [12.0]
    assert forward_gradient(lambda x: x[0] * x[0] * x[0], [2.0], FloatCounter()) == [12.0]


def chain(length):
    def compute(inputs):
        value = inputs[0]
        for _ in range(length):
            value = value.sin()
        return value

    return compute


@pytest.mark.parametrize("length", [1, 7, 50])
def test_a_chain_needs_four_numbers_in_forward_mode_and_a_tape_in_reverse_mode(length):
    forward, reverse = FloatCounter(), FloatCounter()
    forward_gradient(chain(length), [0.5], forward)
    reverse_gradient(chain(length), [0.5], reverse)
    # Forward: the input, which the caller holds, and the old and the new value of the chain.
    assert forward.peak == (4 if length == 1 else 6)
    assert forward.stored == 0
    assert reverse.peak == 1 + 2 * length + (1 + length)  # values and derivatives, then a gradient for each node
    assert (forward.operations, reverse.operations) == (length, length)


def test_a_tape_stores_the_inputs_of_each_operation():
    tape = Tape(FloatCounter())
    x, y = tape.variable(2.0), tape.variable(5.0)
    product = x * y
    assert tape.nodes == [(), (), ((0, 5.0), (1, 2.0))]
    assert tape.backward(product) == [5.0, 2.0, 1.0]


def test_a_dual_number_carries_its_derivative():
    counter = FloatCounter()
    x = Dual(0.0, 1.0, counter)
    assert ((x * x).derivative, x.exp().derivative, x.sin().derivative, (x + x).derivative) == (0, 1, 1, 2)


# Linear models


def test_the_closed_form_is_that_of_torch():
    data = random_regression(50, 4, 10.0, 0.1, rng())
    expected = torch.linalg.lstsq(data.examples, data.targets[:, None]).solution[:, 0]
    assert_close(closed_form(data.examples, data.targets), expected)
    assert_close(ridge(data.examples, data.targets, 0.0), expected)


def test_ridge_and_kernel_ridge_with_a_linear_kernel_predict_the_same():
    data = random_regression(20, 3, 1.0, 0.1, rng())
    weights = ridge(data.examples, data.targets, 0.5)
    dual_weights = kernel_ridge(data.examples @ data.examples.T, data.targets, 0.5)
    assert_close(data.examples.T @ dual_weights, weights)


def test_a_ridge_penalty_shrinks_one_weight_by_hand():
    examples, targets = torch.tensor([[1.0], [2.0]]), torch.tensor([1.0, 2.0])
    assert ridge(examples, targets, 5.0).tolist() == [0.5]  # 5 / (5 + 5)


@pytest.mark.parametrize("condition", [1.0, 100.0, 10_000.0])
def test_the_condition_number_is_about_the_requested_one(condition):
    data = random_regression(4_000, 3, condition, 0.0, rng())
    assert torch.linalg.cond(data.examples.T @ data.examples).item() == pytest.approx(condition, rel=0.15)
    assert_close(closed_form(data.examples, data.targets), data.weights)


def test_sgd_follows_the_gradient_of_the_mean_squared_error():
    data = random_regression(200, 3, 1.0, 0.0, rng())
    first = next(minibatch_sgd(data, 0.1, 200, rng(1)))
    rows = torch.randint(200, (200,), generator=rng(1))
    weights = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(F.mse_loss(data.examples[rows] @ weights, data.targets[rows]), weights)
    assert_close(first, -0.1 * gradient)
    *_, last = islice(minibatch_sgd(data, 0.1, 10, rng(1)), 400)
    assert_close(last, data.weights, atol=1e-6, rtol=0)


def test_the_gradient_of_softmax_regression_is_that_of_torch():
    inputs, labels = random_classification(12, 5, 3, rng())
    weights = torch.randn(5, 3, dtype=torch.float64, generator=rng(), requires_grad=True)
    loss = F.cross_entropy(inputs @ weights, labels)
    for function, expected in ((cross_entropy_and_gradient, loss), (perplexity_and_gradient, loss.exp())):
        value, gradient = function(inputs, labels, weights.detach())
        assert_close(value, expected.detach())
        assert_close(gradient, torch.autograd.grad(expected, weights, retain_graph=True)[0])


def test_large_logits_do_not_overflow():
    loss, gradient = cross_entropy_and_gradient(torch.tensor([[1.0]]), torch.tensor([0]), torch.tensor([[1000.0, 0.0]]))
    assert (loss.item(), gradient.tolist()) == (0, [[0, 0]])


# Deep networks


def test_xavier_leaves_the_variance_of_a_linear_signal_about_constant_and_small_weights_do_not():
    activations, gradients = signal_by_depth("tanh", "Xavier", 5, 128, rng())
    small, _ = signal_by_depth("tanh", "small", 5, 128, rng())
    assert len(activations) == len(gradients) == 5
    assert activations[-1] > 0.3
    assert small[0] == pytest.approx(0.01 * math.sqrt(128), rel=0.1)
    assert small[-1] < 1e-3


def test_he_is_the_gain_for_relu():
    he, xavier = (signal_by_depth("ReLU", name, 12, 256, rng())[0] for name in ("He", "Xavier"))
    assert he[-1] == pytest.approx(he[0], rel=0.5)
    assert xavier[-1] / he[-1] == pytest.approx(2**-6, rel=0.01)  # (1/√2)¹² with the same random numbers


def test_clipping_shortens_a_long_gradient_and_leaves_a_short_one():
    gradients = [torch.tensor([3.0]), torch.tensor([[4.0]])]
    assert [each.item() for each in clip_gradient(gradients, 1.0)] == pytest.approx([0.6, 0.8])
    assert [each.item() for each in clip_gradient(gradients, 10.0)] == [3.0, 4.0]
    parameters = [torch.zeros_like(each, requires_grad=True) for each in gradients]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.clone()
    torch.nn.utils.clip_grad_norm_(parameters, 2.0)
    assert_close([each.grad for each in parameters], clip_gradient(gradients, 2.0))


# Kernel regression and norms


def test_a_kernel_of_width_zero_is_average_pooling_and_a_wide_one_selects_the_nearest_key():
    keys, values = torch.tensor([0.0, 1.0, 3.0]), torch.tensor([6.0, 0.0, 3.0])
    assert kernel_regression(torch.tensor([2.9]), keys, values, 0.0).tolist() == [3.0]
    assert kernel_regression(torch.tensor([2.9]), keys, values, 50.0).tolist() == [3.0]
    assert kernel_regression(torch.tensor([0.1]), keys, values, 50.0).tolist() == [6.0]
    assert_close(kernel_weights(torch.tensor([0.0]), keys, 1.0), torch.tensor([[0.0, -0.5, -4.5]]).softmax(-1))


def test_a_learned_kernel_is_better_than_average_pooling():
    keys = torch.linspace(0, 5, 40, dtype=torch.float64)
    values = torch.sin(2 * keys)
    queries = keys[:-1] + 0.06
    width = fit_kernel_width(keys, values, 200)
    errors = [
        (kernel_regression(queries, keys, values, each) - torch.sin(2 * queries)).square().mean() for each in (0, width)
    ]
    assert errors[1] < errors[0] / 10


def test_the_norms_have_the_axes_of_the_notes():
    rows, texts = torch.randn(5, 7, generator=rng()), torch.randn(2, 3, 7, generator=rng())
    assert_close(layer_norm(rows), F.layer_norm(rows, (7,)))
    assert_close(layer_norm(texts), F.layer_norm(texts, (7,)))
    assert_close(sentence_norm(texts), F.layer_norm(texts, (3, 7)))
    assert_close(batch_norm(rows), F.batch_norm(rows, None, None, training=True))
    assert_close(batch_norm(texts), F.batch_norm(texts.mT, None, None, training=True).mT)
