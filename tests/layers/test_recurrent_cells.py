"""Recurrent cells against numbers worked on paper, their fused kernels, and what the notes say of gates."""

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
OPEN, SHUT = 1e3, -1e3  # biases whose sigmoid is exactly 1 and exactly 0


def with_all(cell: nn.Module, number: float) -> nn.Module:
    for parameter in cell.parameters():
        nn.init.constant_(parameter, number)
    return cell


def put(tensor: Tensor, numbers: list) -> None:
    tensor.data.copy_(torch.tensor(numbers))


def random_state(cell, rows: int, dtype: torch.dtype = torch.float32) -> CellState:
    parts = torch.randn(cell.state_count, rows, cell.width, dtype=dtype, requires_grad=True)
    return CellState(*parts)


# Numbers that can be worked on paper


def test_the_elman_cell_squashes_a_sum():
    cell = RNNCell(1, 1)
    for parameter, number in zip(cell.parameters(), [1.0, 2.0, 0.25, 0.25], strict=True):
        nn.init.constant_(parameter, number)
    state = cell(torch.tensor([[0.5]]), CellState(torch.tensor([[-0.5]])))
    assert_close(state.hidden, torch.tensor([[0.0]]))  # 0.5 + 0.25 - 2 · 0.5 + 0.25 = 0
    state = cell(torch.tensor([[0.5]]), CellState(torch.tensor([[0.0]])))
    assert_close(state.hidden, torch.tensor([[tanh(1.0)]]))


def test_a_relu_cell_keeps_what_is_positive():
    cell = ReluRNNCell(1, 1)
    for parameter, number in zip(cell.parameters(), [1.0, 2.0, 0.25, 0.25], strict=True):
        nn.init.constant_(parameter, number)
    states = CellState(torch.tensor([[-0.5], [-1.0], [3.0]]))
    found = cell(torch.full((3, 1), 1.0), states)
    assert_close(found.hidden, torch.tensor([[0.5], [0.0], [7.5]]))  # 1 + 0.5 + 2 h, cut off at 0


def test_a_slope_passes_a_relu_unchanged_and_nothing_holds_a_state_back():
    cell = ReluRNNCell(1, 1)
    for parameter, number in zip(cell.parameters(), [1.0, 1.0, 0.0, 0.0], strict=True):
        nn.init.constant_(parameter, number)
    first = torch.ones(1, 1, requires_grad=True)
    hidden, last = cell.unroll(torch.ones(1, 100, 1), CellState(first))
    assert hidden[0, :, 0].tolist() == list(range(2, 102))
    (grad,) = torch.autograd.grad(last.hidden.sum(), first)
    assert grad.item() == 1


@pytest.mark.parametrize("cell_class", [GRUCell, ResetBeforeGRUCell])
def test_a_gru_of_zeros_keeps_half_of_the_old_state(cell_class):
    cell = with_all(cell_class(1, 1), 0.0)  # both gates are 1/2, the candidate is 0
    assert cell(torch.tensor([[5.0]]), CellState(torch.tensor([[2.0]]))).hidden.item() == 1.0


def test_an_lstm_of_zeros_keeps_half_of_the_old_cell_and_shows_half():
    cell = with_all(LSTMCell(1, 1), 0.0)
    state = cell(torch.tensor([[5.0]]), CellState(torch.tensor([[3.0]]), torch.tensor([[2.0]])))
    assert state.cell.item() == 1.0
    assert_close(state.hidden.item(), tanh(1.0) / 2)


def test_the_gates_of_an_lstm_by_hand():
    cell = with_all(LSTMCell(1, 1), 0.0)
    _, _, bias, _ = cell.rnn.all_weights[0]
    put(bias, [log(3), 0.0, atanh(0.5), -log(3)])  # input 3/4, forget 1/2, candidate 1/2, output 1/4
    state = cell(torch.tensor([[0.0]]), CellState(torch.tensor([[0.0]]), torch.tensor([[4.0]])))
    assert_close(state.cell.item(), 2.375)  # 1/2 · 4 + 3/4 · 1/2
    assert_close(state.hidden.item(), tanh(2.375) / 4)


# For both forms of the GRU: no input, reset gate (1/2, 3/4), update gate (1/2, 1/4), old state (2, 4), and
# a matrix that takes it to (2 - 4, 4/2).
MATRIX, OLD = [[1.0, -1.0], [0.0, 0.5]], [[2.0, 4.0]]


def test_the_notes_gru_resets_before_the_product():
    cell = with_all(ResetBeforeGRUCell(1, 2), 0.0)
    put(cell.input_bias, [0.0, log(3), 0.0, -log(3), 0.0, 0.0])
    put(cell.candidate_weight, MATRIX)
    state = cell(torch.zeros(1, 1), CellState(torch.tensor(OLD)))
    # R ⊙ H = (1, 3), and times the matrix (1 - 3, 3/2)
    expected = [2 / 2 + tanh(-2) / 2, 4 / 4 + 3 * tanh(1.5) / 4]
    assert_close(state.hidden, torch.tensor([expected]))


def test_the_other_gru_resets_after_the_product():
    cell = with_all(GRUCell(1, 2), 0.0)
    _, weight, bias, _ = cell.rnn.all_weights[0]
    put(bias, [0.0, log(3), 0.0, -log(3), 0.0, 0.0])
    put(weight, [[0.0, 0.0]] * 4 + MATRIX)
    state = cell(torch.zeros(1, 1), CellState(torch.tensor(OLD)))
    # the matrix times H is (-2, 2), and r ⊙ that (-1, 3/2)
    expected = [2 / 2 + tanh(-1) / 2, 4 / 4 + 3 * tanh(1.5) / 4]
    assert_close(state.hidden, torch.tensor([expected]))


# What the notes say of the gates


def test_an_open_update_gate_carries_the_first_state_to_the_end_unchanged():
    cell = ResetBeforeGRUCell(3, 5)
    cell.input_bias.data[5:10] = OPEN
    first = random_state(cell, 2)
    hidden, last = cell.unroll(torch.randn(2, 50, 3), first)
    assert torch.equal(last.hidden, first.hidden)
    assert torch.equal(hidden, first.hidden[:, None].expand(-1, 50, -1))


def test_a_shut_reset_gate_forgets_the_state_only_if_the_update_gate_is_shut_too():
    cell = ResetBeforeGRUCell(3, 5)
    cell.input_bias.data[:5] = SHUT
    inputs, one, other = torch.randn(2, 3), random_state(cell, 2), random_state(cell, 2)
    assert not torch.allclose(cell(inputs, one).hidden, cell(inputs, other).hidden)
    cell.input_bias.data[5:10] = SHUT
    only_input = torch.tanh(cell.project_inputs(inputs)[:, 10:])
    assert_close(cell(inputs, one).hidden, only_input)
    assert_close(cell(inputs, other).hidden, only_input)


def test_an_open_reset_gate_and_a_shut_update_gate_make_an_elman_cell():
    cell, elman = ResetBeforeGRUCell(3, 5), RNNCell(3, 5)
    cell.input_bias.data[:5] = OPEN
    cell.input_bias.data[5:10] = SHUT
    weight, back, bias, bias_back = elman.rnn.all_weights[0]
    weight.data.copy_(cell.input_weight[10:])
    back.data.copy_(cell.candidate_weight)
    bias.data.copy_(cell.input_bias[10:])
    bias_back.data.zero_()
    inputs, state = torch.randn(2, 7, 3), random_state(cell, 2)
    assert_close(cell.unroll(inputs, state)[0], elman.unroll(inputs, state)[0])


# The plain equations and the kernels


@pytest.mark.parametrize("cell_class", FUSED)
def test_the_fused_kernel_computes_the_plain_equations_and_their_gradients(cell_class):
    cell = cell_class(3, 5).double()
    inputs = torch.randn(2, 7, 3, dtype=torch.float64, requires_grad=True)
    state = random_state(cell, 2, torch.float64)
    grading = torch.randn(2, 7, 5, dtype=torch.float64)
    given = [inputs, *cell.parameters()]
    found = []
    for read in (cell.unroll, cell.unroll_eagerly):
        hidden, last = read(inputs, state)
        assert torch.equal(hidden[:, -1], last.hidden)
        total = (hidden * grading).sum() + last.hidden.sum()
        found.append([hidden, *torch.autograd.grad(total, given, retain_graph=True)])
    assert_close(found[0], found[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("cell_class", CELLS)
def test_reading_is_stepping(cell_class):
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
def test_a_probe_sees_the_gates_and_changes_nothing(cell_class):
    cell = cell_class(3, 5)
    inputs, state = torch.randn(2, 7, 3), random_state(cell, 2)
    unwatched, _ = cell.unroll(inputs, state)
    seen = []
    cell.hook = seen.append
    watched, _ = cell.unroll(inputs, state)
    assert torch.equal(watched, unwatched)
    assert len(seen) == 1
    gates = seen[0].gates
    assert gates.keys() == GATES[cell_class]
    assert all(gate.shape == (2, 7, 5) and not gate.requires_grad for gate in gates.values())
    assert torch.equal(seen[0].hidden, watched)
    # The gates shown are those used: mixing them again gives the hidden states.
    mixed = state
    for time in range(7):
        mixed = cell.next_state({name: gate[:, time] for name, gate in gates.items()}, mixed)
        assert_close(mixed.hidden, watched[:, time])
        if mixed.cell is not None:
            assert_close(mixed.cell, seen[0].cell[:, time])
    cell(inputs[:, 0], state)
    assert_close(seen[1].gates, {name: gate[:, :1] for name, gate in gates.items()})


# Weights that fall out


@pytest.mark.parametrize("cell_class", FUSED)
def test_a_sequence_is_read_with_the_weights_that_are_left(cell_class):
    """The mask is drawn once: reading equals that of a cell whose W_h has lost the same numbers for good."""
    thinned, plain = cell_class(3, 5, weight_dropout=0.5), cell_class(3, 5)
    plain.load_state_dict(thinned.state_dict())
    inputs, state = torch.randn(2, 7, 3), random_state(thinned, 2)
    back = plain.rnn.all_weights[0][1]
    torch.manual_seed(4)
    stays = thinned.weight_dropout(torch.ones_like(back))
    assert 0 < (stays == 0).float().mean() < 1
    back.data.mul_(stays)
    expected, last = plain.unroll_eagerly(inputs, state)
    torch.manual_seed(4)
    found, state_after = thinned.unroll(inputs, state)
    assert_close(found, expected)
    assert_close(state_after.hidden, last.hidden)
    gradient, whole = (
        torch.autograd.grad(each.square().sum(), cell.rnn.all_weights[0][1], retain_graph=True)[0]
        for each, cell in ((found, thinned), (expected, plain))
    )
    assert_close(gradient, whole * stays)  # what fell out learns nothing


@pytest.mark.parametrize("cell_class", FUSED)
def test_weights_fall_out_anew_for_each_sequence_and_never_in_use(cell_class):
    cell = cell_class(3, 5, weight_dropout=0.5)
    inputs, state = torch.randn(2, 7, 3), random_state(cell, 2)
    assert not torch.equal(cell.unroll(inputs, state)[0], cell.unroll(inputs, state)[0])
    cell.eval()
    assert torch.equal(cell.unroll(inputs, state)[0], cell.unroll(inputs, state)[0])
    assert_close(cell.unroll(inputs, state)[0], cell.unroll_eagerly(inputs, state)[0])


@pytest.mark.parametrize("cell_class", CELLS)
def test_all_cells_begin_with_weights_of_the_same_size(cell_class):
    """Uniform between -1 / √width and 1 / √width, whichever cell it is: so that they can be compared."""
    numbers = torch.cat([parameter.detach().flatten() for parameter in cell_class(64, 64).parameters()])
    assert 0.12 < numbers.abs().max() <= 64**-0.5
    assert numbers.std().item() == pytest.approx(64**-0.5 / 3**0.5, rel=0.05)
