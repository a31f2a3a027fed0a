"""Stacks of cells, and reading in one direction or in both: against torch on packed sequences; padding."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from seq2see.core.batch import Sequences
from seq2see.layers.gru_lstm import GRUCell, LSTMCell, ResetBeforeGRUCell
from seq2see.layers.recurrent_cells import ReluRNNCell, RNNCell
from seq2see.layers.recurrent_stack import BidirectionalRNN, StackedRNN, UnidirectionalRNN, VariationalStackedRNN

CELLS = [RNNCell, ReluRNNCell, GRUCell, LSTMCell, ResetBeforeGRUCell]
FUSED = [RNNCell, ReluRNNCell, GRUCell, LSTMCell]


def sequences(lengths: list[int], width: int, dtype: torch.dtype = torch.float32) -> Sequences:
    return Sequences(torch.randn(len(lengths), max(lengths), width, dtype=dtype), torch.tensor(lengths))


def readers(cell_class, dropout: float = 0.0):
    forwards = UnidirectionalRNN([cell_class(3, 8), cell_class(8, 8)], dropout)
    both = BidirectionalRNN([cell_class(3, 4), cell_class(8, 4)], [cell_class(3, 4), cell_class(8, 4)], dropout)
    return {"forwards": forwards, "both": both}


@pytest.mark.parametrize("direction", ["forwards", "both"])
@pytest.mark.parametrize("cell_class", FUSED)
def test_a_deep_reader_agrees_with_torch_on_packed_sequences(cell_class, direction):
    reader = readers(cell_class)[direction]
    both = direction == "both"
    cells = (
        reader.cells
        if not both
        else [reader.forward_cells[0], reader.backward_cells[0], reader.forward_cells[1], reader.backward_cells[1]]
    )
    shape = {"num_layers": 2, "bidirectional": both, "batch_first": True}
    reference = cell_class.rnn_class(3, cells[0].width, **shape, **cell_class.rnn_options)
    for target, cell in zip(reference.all_weights, cells, strict=True):
        for parameter, own in zip(target, cell.rnn.all_weights[0], strict=True):
            parameter.data.copy_(own)
    vectors = sequences([2, 7, 5], 3)
    read, summary = reader(vectors)
    packed = nn.utils.rnn.pack_padded_sequence(vectors.values, vectors.lengths, True, enforce_sorted=False)
    expected, last = reference(packed)
    last = last[0] if isinstance(last, tuple) else last
    assert_close(read.values, nn.utils.rnn.pad_packed_sequence(expected, batch_first=True)[0])
    assert_close(summary, torch.cat(list(last[-2:]), dim=-1) if both else last[-1])


@pytest.mark.parametrize("direction", ["forwards", "both"])
@pytest.mark.parametrize("cell_class", CELLS)
def test_padding_and_its_content_change_nothing(cell_class, direction):
    reader = readers(cell_class)[direction]
    vectors = sequences([2, 5, 3], 3)
    read, summary = reader(vectors)
    more = torch.cat([vectors.values, torch.zeros(3, 4, 3)], dim=1)
    dirty = more.masked_fill(~Sequences(more, vectors.lengths).real[..., None], float("nan"))
    dirty.requires_grad_()
    again, same_summary = reader(Sequences(dirty, vectors.lengths))
    assert_close(again.values[:, :5], read.values, rtol=0, atol=1e-6)
    assert again.values[:, 5:].count_nonzero() == 0
    assert_close(same_summary, summary, rtol=0, atol=1e-6)
    (again.values.sum() + same_summary.sum()).backward()
    assert all(parameter.grad.isfinite().all() for parameter in reader.parameters())
    assert dirty.grad.isfinite().all()


@pytest.mark.parametrize("direction", ["forwards", "both"])
def test_rows_do_not_talk(direction):
    reader = readers(GRUCell)[direction]
    vectors = sequences([2, 5, 3], 3)
    read, summary = reader(vectors)
    alone, its_summary = reader(Sequences(vectors.values[2:, :3], vectors.lengths[2:]))
    assert_close(alone.values, read.values[2:, :3], rtol=0, atol=1e-6)
    assert_close(its_summary, summary[2:], rtol=0, atol=1e-6)


def test_forwards_sees_only_what_came_before_and_both_ways_sees_both_sides():
    for direction, sees_later in [("forwards", False), ("both", True)]:
        values = torch.randn(1, 7, 3, requires_grad=True)
        read, _ = readers(GRUCell)[direction](Sequences(values, torch.tensor([6])))
        (grad,) = torch.autograd.grad(read.values[0, 2].sum(), values)
        influence = grad[0].abs().sum(-1)
        assert (influence[:3] > 0).all()
        assert bool((influence[3:6] > 0).all()) == sees_later
        assert bool((influence[3:6] == 0).all()) == (not sees_later)
        assert influence[6] == 0


def test_a_row_without_data_is_read_as_zeros():
    for reader in readers(LSTMCell).values():
        read, summary = reader(Sequences(torch.randn(2, 3, 3), torch.tensor([0, 3])))
        assert read.values[0].count_nonzero() == 0
        assert summary[0].count_nonzero() == 0
        assert summary[1].count_nonzero() == 8


@pytest.mark.parametrize("cell_class", CELLS)
def test_a_stack_can_be_read_in_pieces(cell_class):
    stack = StackedRNN([cell_class(3, 5), cell_class(5, 5)])
    inputs = torch.randn(2, 7, 3)
    whole, last = stack.unroll(inputs, stack.initial_state(2, inputs))
    head, state = stack.unroll(inputs[:, :3], stack.initial_state(2, inputs))
    tail, state = stack.unroll(inputs[:, 3:], state)
    assert last.hidden.shape == (2, 2, 5)
    assert_close(torch.cat([head, tail], dim=1), whole, rtol=0, atol=1e-6)
    assert_close(state.hidden, last.hidden, rtol=0, atol=1e-6)


def test_dropout_acts_on_what_layers_say_but_not_on_what_they_remember():
    stack = StackedRNN([GRUCell(3, 64)], dropout=0.5)
    inputs = torch.randn(2, 7, 3)
    hidden, state = stack.unroll(inputs, stack.initial_state(2, inputs))
    assert 0.3 < (hidden == 0).float().mean() < 0.7
    assert (state.hidden != 0).all()
    calm, calm_state = stack.eval().unroll(inputs, stack.initial_state(2, inputs))
    assert (calm != 0).all()
    assert_close(state.hidden, calm_state.hidden)
    for reader in readers(GRUCell, dropout=0.5).values():
        read, summary = reader(sequences([7, 7], 3))
        assert (read.values == 0).any()
        assert (summary != 0).all()
        read, _ = reader.eval()(sequences([7, 7], 3))
        assert (read.values != 0).all()


def test_a_locked_stack_drops_between_its_layers_and_never_at_its_end():
    class Echo(RNNCell):
        """Says what it is told, so that masks can be seen."""

        def unroll(self, inputs, state):
            return inputs, state

    stack = VariationalStackedRNN([Echo(40, 40), Echo(40, 40)], dropout=0.5)
    ones = torch.ones(3, 7, 40)
    said, _ = stack.unroll(ones, stack.initial_state(3, ones))
    assert torch.logical_or(said == 0, said == 2).all()
    assert (said == said[:, :1]).all()
    assert not torch.equal(said[0], said[1])
    alone = VariationalStackedRNN([Echo(40, 40)], dropout=0.5)
    assert torch.equal(alone.unroll(ones, alone.initial_state(3, ones))[0], ones)


@pytest.mark.parametrize("direction", ["forwards", "both"])
def test_readers_drop_between_their_layers_and_never_before_the_first(direction):
    class Listener(RNNCell):
        """Remembers what it was told."""

        def unroll(self, inputs, state):
            self.told = inputs
            return super().unroll(inputs, state)

    reader, vectors = readers(Listener, dropout=0.5)[direction], sequences([7, 7], 3)
    lower, upper = reader.cells if direction == "forwards" else reader.forward_cells
    reader(vectors)
    assert torch.equal(lower.told, vectors.values)
    assert 0.3 < (upper.told == 0).float().mean() < 0.7
