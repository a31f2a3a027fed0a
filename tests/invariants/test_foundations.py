"""The foundations in the course notes: gradients, linear regression, initialization, gradients over time."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.functional import jacobian
from torch.nn import functional as F
from torch.testing import assert_close

from seq2see.layers.gru_lstm import GRUCell, LSTMCell
from seq2see.layers.initialization import initialize
from seq2see.layers.norms_and_dropout import Dropout
from seq2see.layers.recurrent_cells import CellState, RNNCell
from seq2see.models.embeddings_and_heads import ClassificationHead
from seq2see.training.optimizers import SGD, Adam

OPEN_BIAS = 1e3  # a bias whose sigmoid is exactly 1


# Gradients


def test_a_detached_tensor_is_a_constant():
    x = torch.arange(4.0, requires_grad=True)
    (full_grad,) = torch.autograd.grad((x * x * x).sum(), x)
    (detached_grad,) = torch.autograd.grad(((x * x).detach() * x).sum(), x)
    assert full_grad.tolist() == [0, 3, 12, 27]  # 3 x²
    assert detached_grad.tolist() == [0, 1, 4, 9]  # x²


@pytest.mark.parametrize("function", [torch.abs, torch.relu])
def test_the_subgradient_at_a_kink_is_zero(function):
    x = torch.tensor([-1.0, 0.0, 1.0], requires_grad=True)
    (grad,) = torch.autograd.grad(function(x).sum(), x)
    assert grad.tolist() == [-1 if function is torch.abs else 0, 0, 1]


def test_the_four_shapes_of_a_derivative():
    number, vector = torch.tensor(2.0), torch.tensor([1.0, 2.0])
    matrix = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert jacobian(lambda x: x**2, number).item() == 4
    assert jacobian(lambda x: (x**2).sum(), vector).tolist() == [2, 4]  # a row: the direction of steepest ascent
    assert jacobian(lambda x: x * torch.tensor([2.0, 3.0]), number).tolist() == [2, 3]
    assert_close(jacobian(lambda x: matrix @ x, vector), matrix)


def test_forward_mode_needs_one_pass_for_each_input_and_reverse_mode_one_for_all():
    def forward_mode(value: Tensor, grad: Tensor) -> Tensor:
        """Forward mode through Σ exp(sin x): the value and its directional derivative; nothing is stored."""
        value, grad = value.sin(), value.cos() * grad
        return (value.exp() * grad).sum()

    inputs = torch.randn(5, requires_grad=True)
    (reverse_mode,) = torch.autograd.grad(inputs.sin().exp().sum(), inputs)
    assert_close(torch.stack([forward_mode(inputs, direction) for direction in torch.eye(5)]), reverse_mode)


# Linear regression


def regression() -> tuple[Tensor, Tensor, Tensor]:
    """Examples with a column of ones for the bias, their values, and the closed form (XᵀX)⁻¹ Xᵀ y."""
    examples = torch.cat([torch.randn(40, 3), torch.ones(40, 1)], dim=1)
    values = examples @ torch.tensor([2.0, -3.4, 0.5, 4.2]) + 0.01 * torch.randn(40)
    return examples, values, torch.linalg.inv(examples.T @ examples) @ examples.T @ values


def descend(
    examples: Tensor, values: Tensor, settings: SGD | Adam, learning_rate: float, mean: bool, steps: int
) -> Tensor:
    """The weights after gradient descent from zero on the squared error, summed or averaged."""
    weights = nn.Parameter(torch.zeros(4))
    optimizer, grad_scale, found_inf = settings.build({"w": weights}, learning_rate), torch.ones(()), torch.zeros(())
    for _ in range(steps):
        errors = (examples @ weights - values).square()
        weights.grad = torch.autograd.grad(errors.mean() if mean else errors.sum(), weights)[0]
        optimizer.step(grad_scale, found_inf)
    return weights.detach()


def test_the_gradient_of_the_squared_error():
    examples, values, best = regression()
    weights = torch.randn(4, requires_grad=True)
    (grad,) = torch.autograd.grad((values - examples @ weights).square().sum(), weights)
    assert_close(grad, 2 * (examples @ weights - values) @ examples)  # the notes have one minus sign too many
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
    head, vectors, labels = ClassificationHead(4, 3), torch.randn(2, 1, 4), torch.tensor([2, 0])
    logits = head(vectors)[:, 0]
    (grad,) = torch.autograd.grad(F.cross_entropy(logits, labels, reduction="sum"), logits)
    assert_close(grad, logits.softmax(-1) - F.one_hot(labels, 3))


def test_the_gradient_of_perplexity():
    logits, labels = torch.randn(6, 9, requires_grad=True), torch.arange(6)
    loss = F.cross_entropy(logits, labels)
    (grad,) = torch.autograd.grad(loss, logits, retain_graph=True)
    (perplexity_grad,) = torch.autograd.grad(loss.exp(), logits)
    # It has the same direction and minimum; but the worse the model, the larger the step.
    assert_close(perplexity_grad, loss.exp() * grad)


# Initialization, and two modes that are often confused


def test_from_all_zero_weights_only_the_last_bias_is_ever_updated():
    network = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    initialize(network, "zero")
    named = dict(network.named_parameters())
    optimizer, inputs, targets = SGD().build(named, 0.1), torch.randn(8, 3), torch.randn(8, 2)
    for _ in range(10):
        (network(inputs) - targets).square().sum().backward()
        optimizer.step(torch.ones(()), torch.zeros(()))
        optimizer.zero_grad()
    assert {name for name, weight in named.items() if weight.any()} == {"2.bias"}


def test_eval_disables_dropout_and_no_grad_disables_gradients_and_not_vice_versa():
    layer, inputs = nn.Sequential(nn.Linear(8, 64), Dropout(0.5)), torch.randn(2, 8)
    with torch.no_grad():
        outputs = layer(inputs)
    assert not outputs.requires_grad
    assert (outputs == 0).any()
    outputs = layer.eval()(inputs)
    assert outputs.requires_grad
    assert not (outputs == 0).any()


# Gradients over time


@pytest.mark.parametrize(("weight", "expected"), [(0.5, 0.5**20), (1.0, 1.0), (2.0, 2.0**20)])
def test_a_gradient_through_an_rnn_cell_vanishes_or_explodes_as_a_power(weight, expected):
    cell = RNNCell(1, 1).double()
    for parameter in cell.parameters():
        nn.init.zeros_(parameter)
    cell.rnn.weight_hh_l0.data.fill_(weight)
    first = torch.zeros(1, 1, dtype=torch.float64, requires_grad=True)  # where tanh is steepest
    _, last = cell.unroll(torch.zeros(1, 20, 1, dtype=torch.float64), CellState(first))
    (grad,) = torch.autograd.grad(last.hidden.sum(), first)
    assert grad.item() == pytest.approx(expected)


def test_a_gru_with_an_open_update_gate_passes_a_gradient_unchanged():
    cell, first = GRUCell(1, 1), torch.randn(1, 1, requires_grad=True)
    cell.rnn.bias_ih_l0.data[1] = OPEN_BIAS
    _, last = cell.unroll(torch.randn(1, 200, 1), CellState(first))
    (grad,) = torch.autograd.grad(last.hidden.sum(), first)
    assert grad.item() == 1


def test_an_open_forget_gate_preserves_the_gradient_along_the_cell_state():
    cell, initial_cell = LSTMCell(1, 1), torch.randn(1, 1, requires_grad=True)
    cell.rnn.bias_ih_l0.data[1] = OPEN_BIAS
    cell.rnn.weight_hh_l0.data.zero_()  # no path through the hidden state, only through the cell
    _, last = cell.unroll(torch.randn(1, 200, 1), CellState(torch.zeros(1, 1), initial_cell))
    (grad,) = torch.autograd.grad(last.cell.sum(), initial_cell)
    assert grad.item() == 1
