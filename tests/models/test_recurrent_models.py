"""The recurrent decoder with all cells and attentions, and the options of the recurrent settings."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from seq2see.core.batch import Batch, Sequences, clone_state, pick_rows
from seq2see.core.errors import UserError
from seq2see.core.settings import read_tree
from seq2see.layers.gru_lstm import GRUCell, LSTMCell, ResetBeforeGRUCell
from seq2see.layers.recurrent_attention import (
    AdditiveAttention,
    BilinearAttention,
    DotAttention,
    ScaledDotAttention,
)
from seq2see.layers.recurrent_cells import BidirectionalRNN, ReluRNNCell, RNNCell, StackedRNN
from seq2see.models.build import fresh_model
from seq2see.models.decoder_attention import CopyBridge, NoAttention
from seq2see.models.encoder_model import EncoderOutput
from seq2see.models.recurrent import (
    ATTENTIONS,
    CELLS,
    RecurrentDecoder,
    RecurrentDecoderSettings,
    RecurrentEncoder,
    RecurrentEncoderSettings,
)
from seq2see.models.settings import ModelSettings, TextTarget, TokenEmbeddingSettings

WITH_ATTENTION = ["additive", "dot", "bilinear", "scaled-dot"]


def memory_for(attention: str, lengths: tuple[int, ...] = (4, 2, 3)) -> EncoderOutput:
    """Encoder output of another width than the decoder's, where the attention allows that, with NaN as padding."""
    width = 5 if "dot" in attention else 3
    values = torch.randn(len(lengths), max(lengths), width)
    memory = EncoderOutput(values, torch.tensor(lengths), torch.randn(len(lengths), width))
    values[~memory.valid] = float("nan")
    return memory


def decoder_for(attention: str, cell: str = "gru", depth: int = 2) -> RecurrentDecoder:
    """A decoder of width 5 that reads vectors of width 7."""
    settings = RecurrentDecoderSettings(width=5, depth=depth, cell=cell, attention=attention, dropout=0.3)
    return RecurrentDecoder.from_settings(settings, memory_for(attention).pooled.size(-1), input_width=7).eval()


def targets(lengths: tuple[int, ...] = (6, 4, 1)) -> Sequences:
    return Sequences(torch.randn(len(lengths), max(lengths), 7), torch.tensor(lengths))


# Every decoder


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_stepping_equals_reading_whole_at_every_split(attention, cell):
    decoder, memory = decoder_for(attention, cell), memory_for(attention)
    vectors = targets((6, 6, 6))
    whole = decoder(vectors, memory)
    assert whole.shape == (3, 6, 5)
    for split in range(1, 6):
        state = decoder.start(memory, rows=3, max_length=6)
        head, state = decoder.step(vectors.values[:, :split], state)
        tail, state = decoder.step(vectors.values[:, split:], state)
        assert_close(torch.cat([head, tail], dim=1), whole, rtol=0, atol=1e-6)
    state = decoder.start(memory, rows=3, max_length=6)
    for time in range(6):
        hidden, state = decoder.step(vectors.values[:, time : time + 1], state)
        assert_close(hidden[:, 0], whole[:, time], rtol=0, atol=1e-6)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_padding_of_source_and_target_changes_nothing(attention):
    decoder, memory, vectors = decoder_for(attention), memory_for(attention), targets()
    hidden = decoder(vectors, memory)
    longer = EncoderOutput(
        torch.cat([memory.values, torch.full((3, 2, memory.values.size(-1)), float("nan"))], dim=1),
        memory.lengths,
        memory.pooled,
    )
    dirty = vectors.values.masked_fill(~vectors.valid[..., None], float("nan")).requires_grad_()
    again = decoder(Sequences(dirty, vectors.lengths), longer)
    assert_close(again[vectors.valid], hidden[vectors.valid], rtol=0, atol=1e-6)
    assert again.isfinite().all()
    again[vectors.valid].sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in decoder.parameters())
    assert dirty.grad.isfinite().all()


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_the_future_never_changes_the_past(attention):
    decoder, memory = decoder_for(attention), memory_for(attention)
    values = torch.randn(3, 6, 7, requires_grad=True)
    hidden = decoder(Sequences(values, torch.tensor([6, 6, 6])), memory)
    (grad,) = torch.autograd.grad(hidden[:, 2].sum(), values)
    assert grad[:, 3:].count_nonzero() == 0
    assert (grad[:, :3].abs().sum(-1) > 0).all()


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_rows_of_a_state_can_be_picked_and_are_independent(attention, cell):
    decoder, memory = decoder_for(attention, cell), memory_for(attention)
    vectors, more = torch.randn(3, 2, 7), torch.randn(4, 2, 7)
    rows = torch.tensor([2, 0, 0, 1])
    _, state = decoder.step(vectors, decoder.start(memory, rows=3, max_length=4))
    copy = clone_state(state)
    picked, _ = decoder.step(more, pick_rows(state, rows))
    for index, row in enumerate(rows.tolist()):
        only = torch.tensor([row])
        alone, _ = decoder.step(more[index : index + 1], pick_rows(copy, only))
        assert_close(picked[index : index + 1], alone, rtol=0, atol=1e-6)
        fresh = decoder.start(pick_rows(memory, only), rows=1, max_length=4)
        _, fresh = decoder.step(vectors[only], fresh)
        assert_close(decoder.step(more[index : index + 1], fresh)[0], alone, rtol=0, atol=1e-6)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_every_attention_depends_on_the_source(attention):
    decoder, vectors = decoder_for(attention), targets((4, 4, 4))
    memory, other = memory_for(attention), memory_for(attention)
    assert not torch.allclose(decoder(vectors, memory), decoder(vectors, other))
    # Only attention reads the hidden state of each position; the others read the pooled vector alone.
    changed = EncoderOutput(other.values, memory.lengths, memory.pooled)
    same = torch.allclose(decoder(vectors, memory), decoder(vectors, changed))
    assert same == (attention not in WITH_ATTENTION)


def test_the_context_vector_is_an_input_of_every_step():
    decoder, memory = decoder_for("context-vector"), memory_for("context-vector")
    state = decoder.start(memory, rows=3, max_length=1)
    other = decoder.start(memory_for("context-vector"), rows=3, max_length=1).with_cells(state.cell_state)
    vector = torch.randn(3, 1, 7)
    assert not torch.allclose(decoder.step(vector, state)[0], decoder.step(vector, other)[0])


@pytest.mark.parametrize("attention", WITH_ATTENTION)
def test_a_hook_gets_one_record_of_all_times_and_changes_nothing(attention):
    decoder, memory, vectors = decoder_for(attention), memory_for(attention), targets()
    without_hook = decoder(vectors, memory)
    records = []
    decoder.cross_attention.attention.hook = records.append
    assert torch.equal(decoder(vectors, memory), without_hook)
    (record,) = records
    weights = record.weights
    assert weights.shape == (3, 1, 6, 4)
    assert_close(weights.sum(-1), torch.ones(3, 1, 6))
    assert (weights[1, :, :, 2:] == 0).all()


def test_the_query_of_additive_attention_is_the_previous_state_and_of_dot_attention_the_new_state():
    vector = torch.randn(3, 1, 7)
    for attention, previous in [("additive", True), ("dot", False)]:
        decoder, memory, records = decoder_for(attention), memory_for(attention), []
        decoder.cross_attention.attention.hook = records.append
        state = decoder.start(memory, rows=3, max_length=1)
        decoder.step(vector, state)
        decoder.step(vector + 1, state)
        assert torch.equal(records[0].weights, records[1].weights) == previous
        query = decoder.cross_attention.attention.project_query(state.hidden[:, -1:])
        assert torch.allclose(records[1].queries[:, 0], query, atol=1e-6) == previous


def test_the_query_of_additive_attention_is_the_state_of_the_top_layer():
    decoder, memory, records = decoder_for("additive"), memory_for("additive"), []
    decoder.cross_attention.attention.hook = records.append
    state = decoder.start(memory, rows=3, max_length=1)
    for layer in (0, 1):
        hidden = state.hidden.clone()
        hidden[:, layer] += 1
        decoder.step(torch.randn(3, 1, 7), replace(state, hidden=hidden))
    decoder.step(torch.randn(3, 1, 7), state)
    assert torch.equal(records[0].weights, records[2].weights)
    assert not torch.allclose(records[1].weights, records[2].weights)


def test_the_output_of_dot_attention_is_tanh_of_the_combined_context_and_state():
    decoder, memory = decoder_for("dot"), memory_for("dot")
    decoder.cross_attention.combine.weight.data.copy_(torch.cat([2 * torch.eye(5), 3 * torch.eye(5)], dim=1))
    vectors = targets((2, 2, 2))
    state = decoder.start(memory, rows=3, max_length=2)
    hidden, _ = decoder.stack.unroll(vectors.values, state.cell_state)
    weights = (hidden @ memory.values.nan_to_num().mT).masked_fill(~memory.valid[:, None], -1e9).softmax(-1)
    expected = torch.tanh(2 * weights @ memory.values.nan_to_num() + 3 * hidden)
    assert_close(decoder(vectors, memory), expected)


# The first state


def test_the_first_state_is_tanh_of_a_projection_of_the_pooled_vector():
    decoder, memory = decoder_for("none", "lstm"), memory_for("none")
    state = decoder.start(memory, rows=3, max_length=1)
    expected = torch.tanh(decoder.bridge.project(memory.pooled)).view(3, 2, 2, 5)
    assert_close(state.hidden, expected[:, 0])
    assert_close(state.cell, expected[:, 1])


def test_the_pooled_vector_can_be_the_first_state():
    memory = memory_for("dot")
    for cell in (GRUCell, LSTMCell):
        decoder = RecurrentDecoder(StackedRNN([cell(7, 5), cell(5, 5)]), CopyBridge(), NoAttention())
        state = decoder.start(memory, rows=3, max_length=1)
        assert torch.equal(state.hidden[:, 0], memory.pooled)
        assert torch.equal(state.hidden[:, 1], memory.pooled)
        assert (state.cell is None) == (cell is GRUCell)
        assert state.cell is None or state.cell.count_nonzero() == 0


def test_without_an_encoder_a_decoder_is_a_language_model():
    settings = RecurrentDecoderSettings(width=5, attention="none", cell="lstm")
    decoder = RecurrentDecoder.from_settings(settings, memory_width=None).eval()
    state = decoder.start(None, rows=2, max_length=3)
    assert state.hidden.count_nonzero() == 0
    vectors = torch.randn(2, 3, 5)
    hidden, _ = decoder.step(vectors, state)
    assert_close(decoder(Sequences(vectors, torch.tensor([3, 3])), None), hidden)
    with pytest.raises(UserError, match="needs an encoder"):
        RecurrentDecoder.from_settings(RecurrentDecoderSettings(), memory_width=None)


# Pairs


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_a_pair_trains_and_steps_in_bf16(attention, cell):
    encoder = RecurrentEncoder.from_settings(RecurrentEncoderSettings(width=8, cell=cell))
    decoder = RecurrentDecoder.from_settings(
        RecurrentDecoderSettings(width=8, depth=2, cell=cell, attention=attention), 8
    )
    vectors = Sequences(torch.randn(3, 4, 8), torch.tensor([4, 2, 3]))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        memory = encoder(vectors)
        hidden = decoder(vectors, memory)
        state = decoder.start(memory, rows=3, max_length=2)
        for _ in range(2):
            _, state = decoder.step(torch.randn(3, 1, 8), state)
    hidden.float().sum().backward()
    assert all(parameter.grad is not None for parameter in decoder.parameters())
    assert all(parameter.grad is not None for parameter in encoder.parameters())


# Settings


def test_each_option_builds_its_class():
    cells = {
        "rnn": RNNCell,
        "rnn-relu": ReluRNNCell,
        "gru": GRUCell,
        "lstm": LSTMCell,
        "gru-reset-before": ResetBeforeGRUCell,
    }
    for name, cell_class in cells.items():
        encoder = RecurrentEncoder.from_settings(RecurrentEncoderSettings(width=4, cell=name, bidirectional=False))
        assert type(encoder.stack.cells[0]) is cell_class
        assert type(decoder_for("dot", name).stack.cells[0]) is cell_class
    attentions = {
        "additive": AdditiveAttention,
        "dot": DotAttention,
        "bilinear": BilinearAttention,
        "scaled-dot": ScaledDotAttention,
    }
    for name, attention_class in attentions.items():
        assert type(decoder_for(name).cross_attention.attention) is attention_class


def test_each_direction_has_its_own_weights():
    stack = RecurrentEncoder.from_settings(RecurrentEncoderSettings(width=4)).stack
    assert isinstance(stack, BidirectionalRNN)
    assert len(list(stack.parameters())) == 8  # two weights and two biases for each direction


def test_an_unknown_option_is_answered_with_the_known_ones():
    with pytest.raises(UserError, match="gru-reset-before"):
        read_tree(RecurrentEncoderSettings, {"cell": "gruu"})
    with pytest.raises(UserError, match="additive"):
        RecurrentDecoderSettings().with_(attention="aditive")
    with pytest.raises(UserError, match="dropout"):
        read_tree(RecurrentDecoderSettings, {"dropout": 1.0})


# A decoder of language models: variational dropout, weight dropout, embeddings narrower than the state


AWD_RATES = ("embedding_dropout", "input_dropout", "weight_dropout", "output_dropout")


def language_model(**changes):
    awd = dict.fromkeys(AWD_RATES, 0.3)
    decoder = RecurrentDecoderSettings(
        **{"cell": "lstm", "attention": "none", "width": 24, "depth": 2, "embedding_width": 20, "awd": awd} | changes
    )
    settings = ModelSettings(target=TextTarget(embedding=TokenEmbeddingSettings(positions="none")), decoder=decoder)
    return fresh_model(settings, (13, 13), "xavier", seed=1)


def text_batch(rows: int = 3, times: int = 7) -> Batch:
    ids = torch.randint(3, 13, (rows, times))
    return Batch(None, Sequences(ids, torch.full((rows,), times)), ids, torch.arange(rows))


def test_a_tied_head_shares_a_table_narrower_than_the_state():
    model, text = language_model().eval(), text_batch()
    assert model.head.table is model.target.table
    assert model.target.table.weight.shape == (13, 20)
    assert model.decoder.start(None, 3, 0).hidden.shape == (3, 2, 24)
    assert model.hidden(text).values.shape == (3, 7, 20)
    assert [name for name, _ in model.decoder.output_projection.named_parameters()] == ["0.weight"]  # without bias
    logits, _ = model.step(text.target.values, model.start(None, 3, 0))
    assert_close(logits, model(text))


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_the_last_layer_can_have_the_width_of_the_embeddings(cell):
    model, text = language_model(cell=cell, embedding_width=7, depth=3, projection="last-layer").eval(), text_batch()
    assert [each.width for each in model.decoder.stack.cells] == [24, 24, 7]
    assert not [name for name, _ in model.decoder.output_projection.named_parameters()]
    hidden = model.hidden(text).values
    assert hidden.shape == (3, 7, 7)
    assert hidden.abs().max() < 1  # the range of an RNN's state
    state, steps = model.start(None, 3, 0), []
    for tokens in text.target.values.split([3, 1, 3], dim=1):
        logits, state = model.step(tokens, state)
        steps.append(logits)
        assert (state.decoder.hidden[:, 2, 7:] == 0).all()  # zero-padded to the width of the others
        assert (state.decoder.hidden[:, 2, :7] != 0).all()
    assert_close(torch.cat(steps, dim=1), model(text))


def test_a_narrow_last_layer_is_for_language_models():
    settings = RecurrentDecoderSettings(width=8, embedding_width=4, projection="last-layer")
    with pytest.raises(UserError, match=r"decoder\.projection=linear"):
        RecurrentDecoder.from_settings(settings, memory_width=8)


@pytest.mark.parametrize("part", [*AWD_RATES, "between layers"])
def test_each_dropout_acts_in_training_and_only_there(part):
    awd = dict.fromkeys(AWD_RATES, 0.0) | ({} if part == "between layers" else {part: 0.5})
    model, text = language_model(awd=awd, dropout=0.5 if part == "between layers" else 0.0), text_batch()
    expected = model.eval()(text)
    model.train()
    torch.manual_seed(1)
    first, second = model(text), model(text)
    assert not torch.allclose(first, expected, atol=1e-4)
    assert not torch.allclose(first, second, atol=1e-4)
    assert torch.equal(model.eval()(text), expected)


def test_with_all_rates_zero_nothing_is_dropped():
    model, text = language_model(awd={}, dropout=0.0), text_batch()
    assert torch.equal(model.train()(text), model.eval()(text))


def test_output_dropout_has_one_mask_for_all_times():
    model = language_model(awd={"output_dropout": 0.5}, dropout=0.0).train()
    dropped = model.hidden(text_batch()).values == 0
    assert dropped.any()
    assert (dropped == dropped[:, :1]).all()
    assert not torch.equal(dropped[0], dropped[1])


def test_weight_dropout_needs_a_fused_cell():
    with pytest.raises(UserError, match="Weight dropout is not possible for 'gru-reset-before'"):
        language_model(cell="gru-reset-before")


def test_variational_dropout_is_for_language_models():
    settings = RecurrentDecoderSettings(width=8, awd={"input_dropout": 0.1})
    with pytest.raises(UserError, match="for language models"):
        RecurrentDecoder.from_settings(settings, memory_width=8)
