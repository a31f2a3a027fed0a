"""What the course notes begin with: slopes, linear regression, first weights, gradients over time."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.functional import jacobian
from torch.nn import functional as F
from torch.testing import assert_close

from seq2see.layers.dropout import Dropout
from seq2see.layers.gru_lstm import GRUCell, LSTMCell
from seq2see.layers.initialization import initialize
from seq2see.layers.recurrent_cells import CellState, RNNCell
from seq2see.models.heads import ClassificationHead
from seq2see.training.optimizer_settings import SGD, Adam

OPEN = 1e3  # a bias whose sigmoid is exactly 1


# Slopes


def test_what_is_detached_counts_as_a_constant():
    x = torch.arange(4.0, requires_grad=True)
    (through,) = torch.autograd.grad((x * x * x).sum(), x)
    (around,) = torch.autograd.grad(((x * x).detach() * x).sum(), x)
    assert through.tolist() == [0, 3, 12, 27]  # 3 x²
    assert around.tolist() == [0, 1, 4, 9]  # x²


@pytest.mark.parametrize("function", [torch.abs, torch.relu])
def test_the_subgradient_at_a_kink_is_zero(function):
    x = torch.tensor([-1.0, 0.0, 1.0], requires_grad=True)
    (slope,) = torch.autograd.grad(function(x).sum(), x)
    assert slope.tolist() == [-1 if function is torch.abs else 0, 0, 1]


def test_the_four_shapes_of_a_derivative():
    number, vector = torch.tensor(2.0), torch.tensor([1.0, 2.0])
    matrix = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert jacobian(lambda x: x**2, number).item() == 4
    assert jacobian(lambda x: (x**2).sum(), vector).tolist() == [2, 4]  # a row, along which the value grows fastest
    assert jacobian(lambda x: x * torch.tensor([2.0, 3.0]), number).tolist() == [2, 3]
    assert_close(jacobian(lambda x: matrix @ x, vector), matrix)


def test_forwards_takes_a_pass_for_each_input_backwards_one_for_all_of_them():
    def forwards(value: Tensor, slope: Tensor) -> Tensor:
        """Along Σ exp(sin x) a value and its slope in one direction travel together: nothing else is kept."""
        value, slope = value.sin(), value.cos() * slope
        return (value.exp() * slope).sum()

    inputs = torch.randn(5, requires_grad=True)
    (backwards,) = torch.autograd.grad(inputs.sin().exp().sum(), inputs)
    assert_close(torch.stack([forwards(inputs, direction) for direction in torch.eye(5)]), backwards)


# Linear regression


def regression() -> tuple[Tensor, Tensor, Tensor]:
    """Examples with a column of ones for the bias, their values, and the closed form (XᵀX)⁻¹ Xᵀ y."""
    examples = torch.cat([torch.randn(40, 3), torch.ones(40, 1)], dim=1)
    values = examples @ torch.tensor([2.0, -3.4, 0.5, 4.2]) + 0.01 * torch.randn(40)
    return examples, values, torch.linalg.inv(examples.T @ examples) @ examples.T @ values


def descend(
    examples: Tensor, values: Tensor, settings: SGD | Adam, learning_rate: float, mean: bool, steps: int
) -> Tensor:
    """The weights after some steps from zero against the slope of the squared error, summed up or averaged."""
    weights = nn.Parameter(torch.zeros(4))
    optimizer, one, whole = settings.build({"w": weights}, learning_rate), torch.ones(()), torch.zeros(())
    for _ in range(steps):
        errors = (examples @ weights - values).square()
        weights.grad = torch.autograd.grad(errors.mean() if mean else errors.sum(), weights)[0]
        optimizer.step(one, whole)
    return weights.detach()


def test_the_gradient_of_the_squared_error():
    examples, values, best = regression()
    weights = torch.randn(4, requires_grad=True)
    (slope,) = torch.autograd.grad((values - examples @ weights).square().sum(), weights)
    assert_close(slope, 2 * (examples @ weights - values) @ examples)  # the notes have a minus too many
    assert_close((examples @ best - values) @ examples, torch.zeros(4), atol=1e-3, rtol=0)


def test_gradient_descent_from_zeros_reaches_the_closed_form():
    examples, values, best = regression()
    assert_close(descend(examples, values, SGD(), 0.1, mean=True, steps=300), best, atol=1e-4, rtol=0)


def test_a_mean_loss_needs_a_larger_learning_rate_except_with_adam():
    examples, values, _ = regression()
    averaged, summed = (
        descend(examples, values, SGD(), learning_rate, mean, 20)
        for learning_rate, mean in ((0.1, True), (0.0025, False))
    )
    assert_close(averaged, summed)
    averaged, summed = (descend(examples, values, Adam(), 0.1, mean, 20) for mean in (True, False))
    assert_close(averaged, summed, atol=1e-4, rtol=1e-4)


# Softmax regression


def test_the_gradient_of_softmax_cross_entropy():
    head, vectors, truth = ClassificationHead(4, 3), torch.randn(2, 1, 4), torch.tensor([2, 0])
    scores = head(vectors)[:, 0]
    (slope,) = torch.autograd.grad(F.cross_entropy(scores, truth, reduction="sum"), scores)
    assert_close(slope, scores.softmax(-1) - F.one_hot(truth, 3))


def test_the_gradient_of_perplexity():
    scores, truth = torch.randn(6, 9, requires_grad=True), torch.arange(6)
    loss = F.cross_entropy(scores, truth)
    (slope,) = torch.autograd.grad(loss, scores, retain_graph=True)
    (other,) = torch.autograd.grad(loss.exp(), scores)
    # It leads the same way, so to the same end; but the worse the model, the longer the step.
    assert_close(other, loss.exp() * slope)


# First weights, and two modes that are often mixed up


def test_from_all_zero_weights_only_the_last_bias_ever_moves():
    network = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    initialize(network, "zero")
    named = dict(network.named_parameters())
    optimizer, inputs, wanted = SGD().build(named, 0.1), torch.randn(8, 3), torch.randn(8, 2)
    for _ in range(10):
        (network(inputs) - wanted).square().sum().backward()
        optimizer.step(torch.ones(()), torch.zeros(()))
        optimizer.zero_grad()
    assert {name for name, weight in named.items() if weight.any()} == {"2.bias"}


def test_eval_stops_dropout_and_no_grad_stops_gradients_and_neither_does_the_others_work():
    layer, inputs = nn.Sequential(nn.Linear(8, 64), Dropout(0.5)), torch.randn(2, 8)
    with torch.no_grad():
        given = layer(inputs)
    assert not given.requires_grad
    assert (given == 0).any()
    given = layer.eval()(inputs)
    assert given.requires_grad
    assert not (given == 0).any()


# Gradients over time


@pytest.mark.parametrize(("weight", "left"), [(0.5, 0.5**20), (1.0, 1.0), (2.0, 2.0**20)])
def test_a_gradient_through_a_plain_cell_vanishes_or_explodes_as_a_power(weight, left):
    cell = RNNCell(1, 1).double()
    for parameter in cell.parameters():
        nn.init.zeros_(parameter)
    cell.kernel.weight_hh_l0.data.fill_(weight)
    first = torch.zeros(1, 1, dtype=torch.float64, requires_grad=True)  # where tanh is steepest
    _, last = cell.unroll(torch.zeros(1, 20, 1, dtype=torch.float64), CellState(first))
    (slope,) = torch.autograd.grad(last.hidden.sum(), first)
    assert slope.item() == pytest.approx(left)


def test_a_gru_whose_update_gate_is_open_hands_a_gradient_on_unchanged_however_long_the_way():
    cell, first = GRUCell(1, 1), torch.randn(1, 1, requires_grad=True)
    cell.kernel.bias_ih_l0.data[1] = OPEN
    _, last = cell.unroll(torch.randn(1, 200, 1), CellState(first))
    (slope,) = torch.autograd.grad(last.hidden.sum(), first)
    assert slope.item() == 1


def test_an_open_forget_gate_preserves_the_gradient_along_the_cell_state():
    cell, kept = LSTMCell(1, 1), torch.randn(1, 1, requires_grad=True)
    cell.kernel.bias_ih_l0.data[1] = OPEN
    cell.kernel.weight_hh_l0.data.zero_()  # what it shows has no say, so there is no other way than this
    _, last = cell.unroll(torch.randn(1, 200, 1), CellState(torch.zeros(1, 1), kept))
    (slope,) = torch.autograd.grad(last.cell.sum(), kept)
    assert slope.item() == 1
