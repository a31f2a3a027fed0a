"""Recurrent stacks, unidirectional and bidirectional: against torch on packed sequences, and padding."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from seq2see.core.batch import Sequences
from seq2see.layers.gru_lstm import GRUCell, LSTMCell, ResetBeforeGRUCell
from seq2see.layers.recurrent_cells import (
    BidirectionalRNN,
    ReluRNNCell,
    RNNCell,
    StackedRNN,
    UnidirectionalRNN,
    VariationalStackedRNN,
)

CELLS = [RNNCell, ReluRNNCell, GRUCell, LSTMCell, ResetBeforeGRUCell]
FUSED = [RNNCell, ReluRNNCell, GRUCell, LSTMCell]


def sequences(lengths: list[int], width: int, dtype: torch.dtype = torch.float32) -> Sequences:
    return Sequences(torch.randn(len(lengths), max(lengths), width, dtype=dtype), torch.tensor(lengths))


def encoders(cell_class, dropout: float = 0.0):
    unidirectional = UnidirectionalRNN([cell_class(3, 8), cell_class(8, 8)], dropout)
    bidirectional = BidirectionalRNN(
        [cell_class(3, 4), cell_class(8, 4)], [cell_class(3, 4), cell_class(8, 4)], dropout
    )
    return {"unidirectional": unidirectional, "bidirectional": bidirectional}


@pytest.mark.parametrize("direction", ["unidirectional", "bidirectional"])
@pytest.mark.parametrize("cell_class", FUSED)
def test_a_deep_encoder_agrees_with_torch_on_packed_sequences(cell_class, direction):
    encoder = encoders(cell_class)[direction]
    bidirectional = direction == "bidirectional"
    cells = (
        encoder.cells
        if not bidirectional
        else [encoder.forward_cells[0], encoder.backward_cells[0], encoder.forward_cells[1], encoder.backward_cells[1]]
    )
    shape = {"num_layers": 2, "bidirectional": bidirectional, "batch_first": True}
    reference = cell_class.rnn_class(3, cells[0].width, **shape, **cell_class.rnn_options)
    for target, cell in zip(reference.all_weights, cells, strict=True):
        for parameter, own in zip(target, cell.rnn.all_weights[0], strict=True):
            parameter.data.copy_(own)
    vectors = sequences([2, 7, 5], 3)
    output, final_state = encoder(vectors)
    packed = nn.utils.rnn.pack_padded_sequence(vectors.values, vectors.lengths, True, enforce_sorted=False)
    expected, last = reference(packed)
    last = last[0] if isinstance(last, tuple) else last
    assert_close(output.values, nn.utils.rnn.pad_packed_sequence(expected, batch_first=True)[0])
    assert_close(final_state, torch.cat(list(last[-2:]), dim=-1) if bidirectional else last[-1])


@pytest.mark.parametrize("direction", ["unidirectional", "bidirectional"])
@pytest.mark.parametrize("cell_class", CELLS)
def test_padding_and_its_content_change_nothing(cell_class, direction):
    encoder = encoders(cell_class)[direction]
    vectors = sequences([2, 5, 3], 3)
    output, final_state = encoder(vectors)
    longer = torch.cat([vectors.values, torch.zeros(3, 4, 3)], dim=1)
    dirty = longer.masked_fill(~Sequences(longer, vectors.lengths).valid[..., None], float("nan"))
    dirty.requires_grad_()
    padded_output, padded_final_state = encoder(Sequences(dirty, vectors.lengths))
    assert_close(padded_output.values[:, :5], output.values, rtol=0, atol=1e-6)
    assert padded_output.values[:, 5:].count_nonzero() == 0
    assert_close(padded_final_state, final_state, rtol=0, atol=1e-6)
    (padded_output.values.sum() + padded_final_state.sum()).backward()
    assert all(parameter.grad.isfinite().all() for parameter in encoder.parameters())
    assert dirty.grad.isfinite().all()


@pytest.mark.parametrize("direction", ["unidirectional", "bidirectional"])
def test_rows_are_independent(direction):
    encoder = encoders(GRUCell)[direction]
    vectors = sequences([2, 5, 3], 3)
    output, final_state = encoder(vectors)
    alone, alone_final_state = encoder(Sequences(vectors.values[2:, :3], vectors.lengths[2:]))
    assert_close(alone.values, output.values[2:, :3], rtol=0, atol=1e-6)
    assert_close(alone_final_state, final_state[2:], rtol=0, atol=1e-6)


def test_a_unidirectional_output_depends_on_the_past_and_a_bidirectional_on_both_sides():
    for direction, depends_on_future in [("unidirectional", False), ("bidirectional", True)]:
        values = torch.randn(1, 7, 3, requires_grad=True)
        output, _ = encoders(GRUCell)[direction](Sequences(values, torch.tensor([6])))
        (grad,) = torch.autograd.grad(output.values[0, 2].sum(), values)
        influence = grad[0].abs().sum(-1)
        assert (influence[:3] > 0).all()
        assert bool((influence[3:6] > 0).all()) == depends_on_future
        assert bool((influence[3:6] == 0).all()) == (not depends_on_future)
        assert influence[6] == 0


def test_a_row_without_data_has_zeros_as_output():
    for encoder in encoders(LSTMCell).values():
        output, final_state = encoder(Sequences(torch.randn(2, 3, 3), torch.tensor([0, 3])))
        assert output.values[0].count_nonzero() == 0
        assert final_state[0].count_nonzero() == 0
        assert final_state[1].count_nonzero() == 8


@pytest.mark.parametrize("cell_class", CELLS)
def test_a_stack_can_be_unrolled_in_parts(cell_class):
    stack = StackedRNN([cell_class(3, 5), cell_class(5, 5)])
    inputs = torch.randn(2, 7, 3)
    expected, last = stack.unroll(inputs, stack.initial_state(2, inputs))
    head, state = stack.unroll(inputs[:, :3], stack.initial_state(2, inputs))
    tail, state = stack.unroll(inputs[:, 3:], state)
    assert last.hidden.shape == (2, 2, 5)
    assert_close(torch.cat([head, tail], dim=1), expected, rtol=0, atol=1e-6)
    assert_close(state.hidden, last.hidden, rtol=0, atol=1e-6)


def test_dropout_acts_on_outputs_and_not_on_states():
    stack = StackedRNN([GRUCell(3, 64)], dropout=0.5)
    inputs = torch.randn(2, 7, 3)
    hidden, state = stack.unroll(inputs, stack.initial_state(2, inputs))
    assert 0.3 < (hidden == 0).float().mean() < 0.7
    assert (state.hidden != 0).all()
    eval_hidden, eval_state = stack.eval().unroll(inputs, stack.initial_state(2, inputs))
    assert (eval_hidden != 0).all()
    assert_close(state.hidden, eval_state.hidden)
    for encoder in encoders(GRUCell, dropout=0.5).values():
        output, final_state = encoder(sequences([7, 7], 3))
        assert (output.values == 0).any()
        assert (final_state != 0).all()
        output, _ = encoder.eval()(sequences([7, 7], 3))
        assert (output.values != 0).all()


def test_a_variational_stack_has_dropout_between_its_layers_and_not_at_its_output():
    class IdentityCell(RNNCell):
        """Returns its inputs, so that the masks are visible."""

        def unroll(self, inputs, state):
            return inputs, state

    stack = VariationalStackedRNN([IdentityCell(40, 40), IdentityCell(40, 40)], dropout=0.5)
    ones = torch.ones(3, 7, 40)
    output, _ = stack.unroll(ones, stack.initial_state(3, ones))
    assert torch.logical_or(output == 0, output == 2).all()
    assert (output == output[:, :1]).all()
    assert not torch.equal(output[0], output[1])
    alone = VariationalStackedRNN([IdentityCell(40, 40)], dropout=0.5)
    assert torch.equal(alone.unroll(ones, alone.initial_state(3, ones))[0], ones)


@pytest.mark.parametrize("direction", ["unidirectional", "bidirectional"])
def test_encoders_have_dropout_between_their_layers_and_not_before_the_first(direction):
    class RecordingCell(RNNCell):
        """Stores its inputs."""

        def unroll(self, inputs, state):
            self.inputs = inputs
            return super().unroll(inputs, state)

    encoder, vectors = encoders(RecordingCell, dropout=0.5)[direction], sequences([7, 7], 3)
    lower, upper = encoder.cells if direction == "unidirectional" else encoder.forward_cells
    encoder(vectors)
    assert torch.equal(lower.inputs, vectors.values)
    assert 0.3 < (upper.inputs == 0).float().mean() < 0.7
