"""Recurrent cells: numbers by hand, their fused kernels, and the properties of gates in the course notes."""

from __future__ import annotations

from math import atanh, log, tanh

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from seq2see.layers.gru_lstm import GRUCell, LSTMCell, ResetBeforeGRUCell
from seq2see.layers.recurrent_cells import CellState, ReluRNNCell, RNNCell

CELLS = [RNNCell, ReluRNNCell, GRUCell, LSTMCell, ResetBeforeGRUCell]
FUSED = [RNNCell, ReluRNNCell, GRUCell, LSTMCell]
OPEN_BIAS, CLOSED_BIAS = 1e3, -1e3  # biases whose sigmoid is exactly 1 and exactly 0


def filled_with(cell: nn.Module, number: float) -> nn.Module:
    for parameter in cell.parameters():
        nn.init.constant_(parameter, number)
    return cell


def set_values(tensor: Tensor, numbers: list) -> None:
    tensor.data.copy_(torch.tensor(numbers))


def random_state(cell, rows: int, dtype: torch.dtype = torch.float32) -> CellState:
    parts = torch.randn(cell.state_count, rows, cell.width, dtype=dtype, requires_grad=True)
    return CellState(*parts)


# Numbers by hand


def test_the_rnn_cell_is_the_tanh_of_a_sum():
    cell = RNNCell(1, 1)
    for parameter, number in zip(cell.parameters(), [1.0, 2.0, 0.25, 0.25], strict=True):
        nn.init.constant_(parameter, number)
    state = cell(torch.tensor([[0.5]]), CellState(torch.tensor([[-0.5]])))
    assert_close(state.hidden, torch.tensor([[0.0]]))  # 0.5 + 0.25 - 2 · 0.5 + 0.25 = 0
    state = cell(torch.tensor([[0.5]]), CellState(torch.tensor([[0.0]])))
    assert_close(state.hidden, torch.tensor([[tanh(1.0)]]))


def test_the_relu_cell_by_hand():
    cell = ReluRNNCell(1, 1)
    for parameter, number in zip(cell.parameters(), [1.0, 2.0, 0.25, 0.25], strict=True):
        nn.init.constant_(parameter, number)
    states = CellState(torch.tensor([[-0.5], [-1.0], [3.0]]))
    new_state = cell(torch.full((3, 1), 1.0), states)
    assert_close(new_state.hidden, torch.tensor([[0.5], [0.0], [7.5]]))  # max(0, 1 + 0.5 + 2 h)


def test_a_gradient_passes_a_relu_unchanged_and_the_state_is_unbounded():
    cell = ReluRNNCell(1, 1)
    for parameter, number in zip(cell.parameters(), [1.0, 1.0, 0.0, 0.0], strict=True):
        nn.init.constant_(parameter, number)
    first = torch.ones(1, 1, requires_grad=True)
    hidden, last = cell.unroll(torch.ones(1, 100, 1), CellState(first))
    assert hidden[0, :, 0].tolist() == list(range(2, 102))
    (grad,) = torch.autograd.grad(last.hidden.sum(), first)
    assert grad.item() == 1


@pytest.mark.parametrize("cell_class", [GRUCell, ResetBeforeGRUCell])
def test_a_gru_with_zero_weights_keeps_half_of_the_old_state(cell_class):
    cell = filled_with(cell_class(1, 1), 0.0)  # both gates are 1/2, the candidate is 0
    assert cell(torch.tensor([[5.0]]), CellState(torch.tensor([[2.0]]))).hidden.item() == 1.0


def test_an_lstm_with_zero_weights_keeps_half_of_the_cell_and_outputs_half():
    cell = filled_with(LSTMCell(1, 1), 0.0)
    state = cell(torch.tensor([[5.0]]), CellState(torch.tensor([[3.0]]), torch.tensor([[2.0]])))
    assert state.cell.item() == 1.0
    assert_close(state.hidden.item(), tanh(1.0) / 2)


def test_the_gates_of_an_lstm_by_hand():
    cell = filled_with(LSTMCell(1, 1), 0.0)
    _, _, bias, _ = cell.rnn.all_weights[0]
    set_values(bias, [log(3), 0.0, atanh(0.5), -log(3)])  # input 3/4, forget 1/2, candidate 1/2, output 1/4
    state = cell(torch.tensor([[0.0]]), CellState(torch.tensor([[0.0]]), torch.tensor([[4.0]])))
    assert_close(state.cell.item(), 2.375)  # 1/2 · 4 + 3/4 · 1/2
    assert_close(state.hidden.item(), tanh(2.375) / 4)


# For both forms of the GRU: no input, reset gate (1/2, 3/4), update gate (1/2, 1/4), old state (2, 4), and
# a matrix whose product with it is (2 - 4, 4/2).
MATRIX, OLD_STATE = [[1.0, -1.0], [0.0, 0.5]], [[2.0, 4.0]]


def test_the_gru_of_the_notes_resets_before_the_matmul():
    cell = filled_with(ResetBeforeGRUCell(1, 2), 0.0)
    set_values(cell.input_bias, [0.0, log(3), 0.0, -log(3), 0.0, 0.0])
    set_values(cell.candidate_weight, MATRIX)
    state = cell(torch.zeros(1, 1), CellState(torch.tensor(OLD_STATE)))
    # R ⊙ H = (1, 3), and times the matrix (1 - 3, 3/2)
    expected = [2 / 2 + tanh(-2) / 2, 4 / 4 + 3 * tanh(1.5) / 4]
    assert_close(state.hidden, torch.tensor([expected]))


def test_the_gru_of_torch_resets_after_the_matmul():
    cell = filled_with(GRUCell(1, 2), 0.0)
    _, weight, bias, _ = cell.rnn.all_weights[0]
    set_values(bias, [0.0, log(3), 0.0, -log(3), 0.0, 0.0])
    set_values(weight, [[0.0, 0.0]] * 4 + MATRIX)
    state = cell(torch.zeros(1, 1), CellState(torch.tensor(OLD_STATE)))
    # the matrix times H is (-2, 2), and r ⊙ that (-1, 3/2)
    expected = [2 / 2 + tanh(-1) / 2, 4 / 4 + 3 * tanh(1.5) / 4]
    assert_close(state.hidden, torch.tensor([expected]))


# Properties of the gates in the course notes


def test_an_open_update_gate_copies_the_initial_state_to_the_end():
    cell = ResetBeforeGRUCell(3, 5)
    cell.input_bias.data[5:10] = OPEN_BIAS
    first = random_state(cell, 2)
    hidden, last = cell.unroll(torch.randn(2, 50, 3), first)
    assert torch.equal(last.hidden, first.hidden)
    assert torch.equal(hidden, first.hidden[:, None].expand(-1, 50, -1))


def test_a_closed_reset_gate_drops_the_state_only_if_the_update_gate_is_closed_too():
    cell = ResetBeforeGRUCell(3, 5)
    cell.input_bias.data[:5] = CLOSED_BIAS
    inputs, first, second = torch.randn(2, 3), random_state(cell, 2), random_state(cell, 2)
    assert not torch.allclose(cell(inputs, first).hidden, cell(inputs, second).hidden)
    cell.input_bias.data[5:10] = CLOSED_BIAS
    candidate = torch.tanh(cell.project_inputs(inputs)[:, 10:])
    assert_close(cell(inputs, first).hidden, candidate)
    assert_close(cell(inputs, second).hidden, candidate)


def test_an_open_reset_gate_and_a_closed_update_gate_make_an_rnn_cell():
    cell, rnn_cell = ResetBeforeGRUCell(3, 5), RNNCell(3, 5)
    cell.input_bias.data[:5] = OPEN_BIAS
    cell.input_bias.data[5:10] = CLOSED_BIAS
    weight, hidden_weight, bias, hidden_bias = rnn_cell.rnn.all_weights[0]
    weight.data.copy_(cell.input_weight[10:])
    hidden_weight.data.copy_(cell.candidate_weight)
    bias.data.copy_(cell.input_bias[10:])
    hidden_bias.data.zero_()
    inputs, state = torch.randn(2, 7, 3), random_state(cell, 2)
    assert_close(cell.unroll(inputs, state)[0], rnn_cell.unroll(inputs, state)[0])


# The equations and the fused kernels


@pytest.mark.parametrize("cell_class", FUSED)
def test_the_fused_kernel_computes_the_equations_and_their_gradients(cell_class):
    cell = cell_class(3, 5).double()
    inputs = torch.randn(2, 7, 3, dtype=torch.float64, requires_grad=True)
    state = random_state(cell, 2, torch.float64)
    grad_output = torch.randn(2, 7, 5, dtype=torch.float64)
    leaves = [inputs, *cell.parameters()]
    results = []
    for unroll in (cell.unroll, cell.unroll_eagerly):
        hidden, last = unroll(inputs, state)
        assert torch.equal(hidden[:, -1], last.hidden)
        total = (hidden * grad_output).sum() + last.hidden.sum()
        results.append([hidden, *torch.autograd.grad(total, leaves, retain_graph=True)])
    assert_close(results[0], results[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("cell_class", CELLS)
def test_unrolling_equals_steps(cell_class):
    cell = cell_class(3, 5)
    inputs, state = torch.randn(2, 7, 3), random_state(cell, 2)
    hidden, last = cell.unroll(inputs, state)
    for time in range(7):
        state = cell(inputs[:, time], state)
        assert_close(hidden[:, time], state.hidden, rtol=0, atol=1e-6)
    assert_close(last.hidden, state.hidden, rtol=0, atol=1e-6)
    if last.cell is not None:
        assert_close(last.cell, state.cell, rtol=0, atol=1e-6)


@pytest.mark.parametrize("cell_class", CELLS)
def test_gradients_of_a_step_are_right(cell_class):
    cell = cell_class(3, 2).double()
    inputs = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    parts = [torch.randn(2, 2, dtype=torch.float64, requires_grad=True) for _ in range(cell.state_count)]
    assert torch.autograd.gradcheck(lambda x, *parts: cell(x, CellState(*parts)).hidden, (inputs, *parts))


GATES = {
    RNNCell: {"candidate"},
    ReluRNNCell: {"candidate"},
    GRUCell: {"reset", "update", "candidate"},
    ResetBeforeGRUCell: {"reset", "update", "candidate"},
    LSTMCell: {"input", "forget", "output", "candidate"},
}


@pytest.mark.parametrize("cell_class", CELLS)
def test_a_hook_records_the_gates_and_changes_nothing(cell_class):
    cell = cell_class(3, 5)
    inputs, state = torch.randn(2, 7, 3), random_state(cell, 2)
    expected, _ = cell.unroll(inputs, state)
    records = []
    cell.hook = records.append
    hidden, _ = cell.unroll(inputs, state)
    assert torch.equal(hidden, expected)
    assert len(records) == 1
    gates = records[0].gates
    assert gates.keys() == GATES[cell_class]
    assert all(gate.shape == (2, 7, 5) and not gate.requires_grad for gate in gates.values())
    assert torch.equal(records[0].hidden, hidden)
    # The recorded gates are those of the output: `next_state` of them gives the hidden states.
    recomputed = state
    for time in range(7):
        recomputed = cell.next_state({name: gate[:, time] for name, gate in gates.items()}, recomputed)
        assert_close(recomputed.hidden, hidden[:, time])
        if recomputed.cell is not None:
            assert_close(recomputed.cell, records[0].cell[:, time])
    cell(inputs[:, 0], state)
    assert_close(records[1].gates, {name: gate[:, :1] for name, gate in gates.items()})


# Weight dropout


@pytest.mark.parametrize("cell_class", FUSED)
def test_a_sequence_is_unrolled_with_the_masked_weights(cell_class):
    """The mask is drawn once: the output is that of a cell whose W_h has zeros at the same elements."""
    dropped, plain = cell_class(3, 5, weight_dropout=0.5), cell_class(3, 5)
    plain.load_state_dict(dropped.state_dict())
    inputs, state = torch.randn(2, 7, 3), random_state(dropped, 2)
    hidden_weight = plain.rnn.all_weights[0][1]
    torch.manual_seed(4)
    mask = dropped.weight_dropout(torch.ones_like(hidden_weight))
    assert 0 < (mask == 0).float().mean() < 1
    hidden_weight.data.mul_(mask)
    expected, last = plain.unroll_eagerly(inputs, state)
    torch.manual_seed(4)
    output, state_after = dropped.unroll(inputs, state)
    assert_close(output, expected)
    assert_close(state_after.hidden, last.hidden)
    grad, plain_grad = (
        torch.autograd.grad(each.square().sum(), cell.rnn.all_weights[0][1], retain_graph=True)[0]
        for each, cell in ((output, dropped), (expected, plain))
    )
    assert_close(grad, plain_grad * mask)  # dropped weights have no gradient


@pytest.mark.parametrize("cell_class", FUSED)
def test_weight_dropout_is_drawn_for_each_sequence_and_never_in_evaluation(cell_class):
    cell = cell_class(3, 5, weight_dropout=0.5)
    inputs, state = torch.randn(2, 7, 3), random_state(cell, 2)
    assert not torch.equal(cell.unroll(inputs, state)[0], cell.unroll(inputs, state)[0])
    cell.eval()
    assert torch.equal(cell.unroll(inputs, state)[0], cell.unroll(inputs, state)[0])
    assert_close(cell.unroll(inputs, state)[0], cell.unroll_eagerly(inputs, state)[0])


@pytest.mark.parametrize("cell_class", CELLS)
def test_all_cells_have_the_same_initial_distribution(cell_class):
    """Uniform between -1 / √width and 1 / √width for every cell, so that they can be compared."""
    numbers = torch.cat([parameter.detach().flatten() for parameter in cell_class(64, 64).parameters()])
    assert 0.12 < numbers.abs().max() <= 64**-0.5
    assert numbers.std().item() == pytest.approx(64**-0.5 / 3**0.5, rel=0.05)
