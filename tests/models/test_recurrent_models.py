"""The recurrent decoder with all its cells and looks, and the words of the recurrent settings."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from seq2see.core.batch import Batch, Sequences
from seq2see.core.errors import UserError
from seq2see.core.rows import clone_state, pick_rows
from seq2see.core.settings import read_tree
from seq2see.layers.gru_lstm import GRUCell, LSTMCell, ResetBeforeGRUCell
from seq2see.layers.recurrent_attention import (
    AdditiveAttention,
    BilinearAttention,
    DotAttention,
    ScaledDotAttention,
)
from seq2see.layers.recurrent_cells import ReluRNNCell, RNNCell
from seq2see.layers.recurrent_stack import BidirectionalRNN, StackedRNN
from seq2see.models.build import fresh_model
from seq2see.models.decoder_attention import NoAttention
from seq2see.models.encoder_output import EncoderOutput
from seq2see.models.recurrent import (
    ATTENTIONS,
    CELLS,
    RecurrentDecoder,
    RecurrentDecoderSettings,
    RecurrentEncoder,
    RecurrentEncoderSettings,
)
from seq2see.models.recurrent_state import CopyBridge
from seq2see.models.settings import ModelSettings, TextTarget, TokenEmbeddingSettings

ATTENTIONS = ["additive", "dot", "bilinear", "scaled-dot"]


def memory_for(look: str, lengths: tuple[int, ...] = (4, 2, 3)) -> EncoderOutput:
    """A memory whose width is not the decoder's, where the look allows that, with NaN behind the data."""
    width = 5 if "dot" in look else 3
    values = torch.randn(len(lengths), max(lengths), width)
    memory = EncoderOutput(values, torch.tensor(lengths), torch.randn(len(lengths), width))
    values[~memory.real] = float("nan")
    return memory


def decoder_for(look: str, cell: str = "gru", depth: int = 2) -> RecurrentDecoder:
    """A decoder of width 5 that reads vectors of width 7."""
    chosen = RecurrentDecoderSettings(width=5, depth=depth, cell=cell, attention=look, dropout=0.3)
    return RecurrentDecoder.from_settings(chosen, memory_for(look).pooled.size(-1), input_width=7).eval()


def targets(lengths: tuple[int, ...] = (6, 4, 1)) -> Sequences:
    return Sequences(torch.randn(len(lengths), max(lengths), 7), torch.tensor(lengths))


# Every decoder


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("look", ATTENTIONS)
def test_stepping_equals_reading_whole_at_every_split(look, cell):
    decoder, memory = decoder_for(look, cell), memory_for(look)
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


@pytest.mark.parametrize("look", ATTENTIONS)
def test_padding_of_source_and_target_changes_nothing(look):
    decoder, memory, vectors = decoder_for(look), memory_for(look), targets()
    hidden = decoder(vectors, memory)
    longer = EncoderOutput(
        torch.cat([memory.values, torch.full((3, 2, memory.values.size(-1)), float("nan"))], dim=1),
        memory.lengths,
        memory.pooled,
    )
    dirty = vectors.values.masked_fill(~vectors.real[..., None], float("nan")).requires_grad_()
    again = decoder(Sequences(dirty, vectors.lengths), longer)
    assert_close(again[vectors.real], hidden[vectors.real], rtol=0, atol=1e-6)
    assert again.isfinite().all()
    again[vectors.real].sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in decoder.parameters())
    assert dirty.grad.isfinite().all()


@pytest.mark.parametrize("look", ATTENTIONS)
def test_the_future_never_changes_the_past(look):
    decoder, memory = decoder_for(look), memory_for(look)
    values = torch.randn(3, 6, 7, requires_grad=True)
    hidden = decoder(Sequences(values, torch.tensor([6, 6, 6])), memory)
    (grad,) = torch.autograd.grad(hidden[:, 2].sum(), values)
    assert grad[:, 3:].count_nonzero() == 0
    assert (grad[:, :3].abs().sum(-1) > 0).all()


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("look", ATTENTIONS)
def test_rows_of_a_state_can_be_picked_and_do_not_talk(look, cell):
    decoder, memory = decoder_for(look, cell), memory_for(look)
    vectors, more = torch.randn(3, 2, 7), torch.randn(4, 2, 7)
    rows = torch.tensor([2, 0, 0, 1])
    _, state = decoder.step(vectors, decoder.start(memory, rows=3, max_length=4))
    kept = clone_state(state)
    picked, _ = decoder.step(more, pick_rows(state, rows))
    for place, row in enumerate(rows.tolist()):
        only = torch.tensor([row])
        alone, _ = decoder.step(more[place : place + 1], pick_rows(kept, only))
        assert_close(picked[place : place + 1], alone, rtol=0, atol=1e-6)
        begun = decoder.start(pick_rows(memory, only), rows=1, max_length=4)
        _, begun = decoder.step(vectors[only], begun)
        assert_close(decoder.step(more[place : place + 1], begun)[0], alone, rtol=0, atol=1e-6)


@pytest.mark.parametrize("look", ATTENTIONS)
def test_every_look_depends_on_the_source(look):
    decoder, vectors = decoder_for(look), targets((4, 4, 4))
    memory, other = memory_for(look), memory_for(look)
    assert not torch.allclose(decoder(vectors, memory), decoder(vectors, other))
    # Only attention sees the single places; the others see the summary alone.
    places = EncoderOutput(other.values, memory.lengths, memory.pooled)
    same = torch.allclose(decoder(vectors, memory), decoder(vectors, places))
    assert same == (look not in ATTENTIONS)


def test_a_summary_at_every_step_is_seen_beyond_the_first_state():
    decoder, memory = decoder_for("context-vector"), memory_for("context-vector")
    state = decoder.start(memory, rows=3, max_length=1)
    other = decoder.start(memory_for("context-vector"), rows=3, max_length=1).with_cells(state.cell_state)
    vector = torch.randn(3, 1, 7)
    assert not torch.allclose(decoder.step(vector, state)[0], decoder.step(vector, other)[0])


@pytest.mark.parametrize("look", ATTENTIONS)
def test_a_probe_sees_one_map_of_all_times_and_changes_nothing(look):
    decoder, memory, vectors = decoder_for(look), memory_for(look), targets()
    unwatched = decoder(vectors, memory)
    seen = []
    decoder.attention.attention.hook = seen.append
    assert torch.equal(decoder(vectors, memory), unwatched)
    (looked,) = seen
    weights = looked.weights
    assert weights.shape == (3, 1, 6, 4)
    assert_close(weights.sum(-1), torch.ones(3, 1, 6))
    assert (weights[1, :, :, 2:] == 0).all()


def test_additive_attention_asks_with_the_state_before_and_dot_attention_with_the_state_after():
    vector = torch.randn(3, 1, 7)
    for look, asks_before in [("additive", True), ("dot", False)]:
        decoder, memory, seen = decoder_for(look), memory_for(look), []
        decoder.attention.attention.hook = seen.append
        state = decoder.start(memory, rows=3, max_length=1)
        decoder.step(vector, state)
        decoder.step(vector + 1, state)
        assert torch.equal(seen[0].weights, seen[1].weights) == asks_before
        asked = decoder.attention.attention.project_query(state.hidden[:, -1:])
        assert torch.allclose(seen[1].queries[:, 0], asked, atol=1e-6) == asks_before  # shown is what was asked with


def test_additive_attention_asks_with_the_top_layer():
    decoder, memory, seen = decoder_for("additive"), memory_for("additive"), []
    decoder.attention.attention.hook = seen.append
    state = decoder.start(memory, rows=3, max_length=1)
    for layer in (0, 1):
        hidden = state.hidden.clone()
        hidden[:, layer] += 1
        decoder.step(torch.randn(3, 1, 7), replace(state, hidden=hidden))
    decoder.step(torch.randn(3, 1, 7), state)
    assert torch.equal(seen[0].weights, seen[2].weights)
    assert not torch.allclose(seen[1].weights, seen[2].weights)


def test_the_output_of_dot_attention_is_a_squashed_join_of_context_and_state():
    decoder, memory = decoder_for("dot"), memory_for("dot")
    decoder.attention.join.weight.data.copy_(torch.cat([2 * torch.eye(5), 3 * torch.eye(5)], dim=1))
    vectors = targets((2, 2, 2))
    state = decoder.start(memory, rows=3, max_length=2)
    hidden, _ = decoder.stack.read(vectors.values, state.cell_state)
    shares = (hidden @ memory.values.nan_to_num().mT).masked_fill(~memory.real[:, None], -1e9).softmax(-1)
    expected = torch.tanh(2 * shares @ memory.values.nan_to_num() + 3 * hidden)
    assert_close(decoder(vectors, memory), expected)


# The first state


def test_the_first_state_is_a_squashed_projection_of_the_summary():
    decoder, memory = decoder_for("none", "lstm"), memory_for("none")
    state = decoder.start(memory, rows=3, max_length=1)
    expected = torch.tanh(decoder.bridge.project(memory.pooled)).view(3, 2, 2, 5)
    assert_close(state.hidden, expected[:, 0])
    assert_close(state.cell, expected[:, 1])


def test_the_summary_can_be_handed_over_unchanged():
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
    with pytest.raises(UserError, match="none"):
        RecurrentDecoder.from_settings(RecurrentDecoderSettings(), memory_width=None)


# Pairs


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("look", ATTENTIONS)
def test_a_pair_trains_and_steps_in_bf16(look, cell):
    encoder = RecurrentEncoder.from_settings(RecurrentEncoderSettings(width=8, cell=cell))
    decoder = RecurrentDecoder.from_settings(RecurrentDecoderSettings(width=8, depth=2, cell=cell, attention=look), 8)
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


def test_each_word_means_its_class():
    cells = {
        "rnn": RNNCell,
        "rnn-relu": ReluRNNCell,
        "gru": GRUCell,
        "lstm": LSTMCell,
        "gru-reset-before": ResetBeforeGRUCell,
    }
    for word, cell_class in cells.items():
        encoder = RecurrentEncoder.from_settings(RecurrentEncoderSettings(width=4, cell=word, bidirectional=False))
        assert type(encoder.stack.cells[0]) is cell_class
        assert type(decoder_for("dot", word).stack.cells[0]) is cell_class
    looks = {
        "additive": AdditiveAttention,
        "dot": DotAttention,
        "bilinear": BilinearAttention,
        "scaled-dot": ScaledDotAttention,
    }
    for word, attention_class in looks.items():
        assert type(decoder_for(word).look.attention) is attention_class


def test_two_directions_have_weights_of_their_own():
    reader = RecurrentEncoder.from_settings(RecurrentEncoderSettings(width=4)).stack
    assert isinstance(reader, BidirectionalRNN)
    assert len(list(reader.parameters())) == 8  # two weights and two biases for each direction


def test_a_word_that_does_not_exist_is_answered_with_those_that_do():
    with pytest.raises(UserError, match="gru-reset-before"):
        read_tree(RecurrentEncoderSettings, {"cell": "gruu"})
    with pytest.raises(UserError, match="additive"):
        RecurrentDecoderSettings().with_(attention="aditive")
    with pytest.raises(UserError, match="dropout"):
        read_tree(RecurrentDecoderSettings, {"dropout": 1.0})


# A decoder of language models: locked masks, weights that fall out, vectors narrower than the state


def writer(**changes):
    awd = {"words": 0.3, "inputs": 0.3, "weights": 0.3, "outputs": 0.3}
    decoder = RecurrentDecoderSettings(
        **{"cell": "lstm", "attention": "none", "width": 24, "depth": 2, "embedding_width": 20, "awd": awd} | changes
    )
    settings = ModelSettings(target=TextTarget(embedding=TokenEmbeddingSettings(positions="none")), decoder=decoder)
    return fresh_model(settings, (13, 13), "xavier", seed=1)


def a_text(rows: int = 3, times: int = 7) -> Batch:
    ids = torch.randint(3, 13, (rows, times))
    return Batch(None, Sequences(ids, torch.full((rows,), times)), ids, torch.arange(rows))


def test_a_head_shares_a_table_that_is_narrower_than_the_state():
    model, text = writer().eval(), a_text()
    assert model.head.table is model.target.table
    assert model.target.table.weight.shape == (13, 20)
    assert model.decoder.start(None, 3, 0).hidden.shape == (3, 2, 24)
    assert model.hidden(text).values.shape == (3, 7, 20)
    assert [name for name, _ in model.decoder.output_projection.named_parameters()] == [
        "0.weight"
    ]  # a product, nothing is added
    logits, _ = model.step(text.target.values, model.start(None, 3, 0))
    assert_close(logits, model(text))


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_a_last_layer_can_be_as_narrow_as_a_tokens_vector(cell):
    model, text = writer(cell=cell, embedding_width=7, depth=3, projection="last-layer").eval(), a_text()
    assert [each.width for each in model.decoder.stack.cells] == [24, 24, 7]
    assert not [name for name, _ in model.decoder.output_projection.named_parameters()]
    hidden = model.hidden(text).values
    assert hidden.shape == (3, 7, 7)
    assert hidden.abs().max() < 1  # cells give nothing larger
    state, found = model.start(None, 3, 0), []
    for tokens in text.target.values.split([3, 1, 3], dim=1):
        logits, state = model.step(tokens, state)
        found.append(logits)
        assert (state.decoder.hidden[:, 2, 7:] == 0).all()  # as wide as the others, but nothing is there
        assert (state.decoder.hidden[:, 2, :7] != 0).all()
    assert_close(torch.cat(found, dim=1), model(text))


def test_a_narrow_last_layer_is_for_language_models():
    settings = RecurrentDecoderSettings(width=8, embedding_width=4, projection="last-layer")
    with pytest.raises(UserError, match=r"decoder\.projection=linear"):
        RecurrentDecoder.from_settings(settings, memory_width=8)


@pytest.mark.parametrize("part", ["words", "inputs", "weights", "outputs", "between"])
def test_each_dropout_acts_in_training_and_only_there(part):
    others = dict.fromkeys(("words", "inputs", "weights", "outputs"), 0.0)
    awd = others if part == "between" else others | {part: 0.5}
    model, text = writer(awd=awd, dropout=0.5 if part == "between" else 0.0), a_text()
    calm = model.eval()(text)
    model.train()
    torch.manual_seed(1)
    first, second = model(text), model(text)
    assert not torch.allclose(first, calm, atol=1e-4)
    assert not torch.allclose(first, second, atol=1e-4)
    assert torch.equal(model.eval()(text), calm)


def test_without_any_share_nothing_falls_out():
    model, text = writer(awd={}, dropout=0.0), a_text()
    assert torch.equal(model.train()(text), model.eval()(text))


def test_what_the_head_sees_misses_the_same_numbers_at_all_times():
    model = writer(awd={"outputs": 0.5}, dropout=0.0).train()
    gone = model.hidden(a_text()).values == 0
    assert gone.any()
    assert (gone == gone[:, :1]).all()
    assert not torch.equal(gone[0], gone[1])


def test_weights_that_no_kernel_reads_with_cannot_fall_out():
    with pytest.raises(UserError, match="weights of 'gru-reset-before' cannot be dropped"):
        writer(cell="gru-reset-before")


def test_locked_masks_are_for_language_models():
    settings = RecurrentDecoderSettings(width=8, awd={"inputs": 0.1})
    with pytest.raises(UserError, match="for language models"):
        RecurrentDecoder.from_settings(settings, memory_width=8)
