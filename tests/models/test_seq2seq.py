"""Embeddings, heads, and how a sequence-to-sequence model is composed of its parts."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from seq2see.core.batch import Batch, Sequences
from seq2see.layers.positions import SinusoidalPositions
from seq2see.models.embeddings_and_heads import (
    HEADS,
    SuppressTokensHead,
    TiedHead,
    TokenEmbedding,
    UnscaledTokenEmbedding,
    UntiedHead,
    UntiedNoBiasHead,
)
from tiny_models import (
    FAMILIES,
    TARGET_SIZE,
    WIDTH,
    full_logits,
    pairs,
    perturbed_model,
    seq2seq_settings,
    tiny_model,
    transformer,
)

TOKENS = torch.tensor([[3, 4, 5], [6, 7, 0]])


def test_an_embedding_is_the_tables_vector_times_the_root_of_the_width_plus_the_position():
    table = nn.Embedding(8, 4)
    embedding = TokenEmbedding(table, SinusoidalPositions(4), dropout=0.0)
    vectors = embedding(Sequences(TOKENS, torch.tensor([3, 2])))
    position = torch.tensor([math.sin(2), math.cos(2), math.sin(0.02), math.cos(0.02)])
    assert_close(vectors.values[0, 2], 2 * table.weight[5] + position)
    assert_close(vectors.values[1, 0], 2 * table.weight[6] + torch.tensor([0.0, 1, 0, 1]))
    assert vectors.lengths.tolist() == [3, 2]


def test_embed_at_adds_the_positions_of_the_position_ids():
    embedding = TokenEmbedding(nn.Embedding(8, 4), SinusoidalPositions(4), dropout=0.0)
    sequence = embedding(Sequences(TOKENS[:1], torch.tensor([3]))).values
    later = embedding.embed_at(torch.tensor([[5], [4]]), torch.tensor([[2], [1]]))
    assert_close(later[:, 0], sequence[0, [2, 1]])


def test_dropout_of_an_embedding_acts_on_the_sum_and_only_in_training():
    table = nn.Embedding(8, 100)
    embedding = TokenEmbedding(table, SinusoidalPositions(100), dropout=0.5)
    tokens = Sequences(TOKENS, torch.tensor([3, 2]))
    dropped = embedding(tokens).values
    embedding.eval()
    clean = embedding(tokens).values
    kept = dropped != 0
    assert_close(dropped[kept], 2 * clean[kept])
    assert 0.4 < kept.float().mean() < 0.6


def test_a_tied_head_multiplies_by_the_embedding_table():
    table = nn.Embedding(5, 3)
    hidden = torch.randn(2, 4, 3)
    head = TiedHead(table)
    assert_close(head(hidden)[1, 2, 4], hidden[1, 2] @ table.weight[4])
    assert [id(weight) for weight in head.parameters()] == [id(table.weight)]


def test_an_untied_head_has_its_own_matrix():
    table = nn.Embedding(5, 3)
    head, hidden = UntiedHead(table), torch.randn(2, 4, 3)
    assert head(hidden).shape == (2, 4, 5)
    assert id(table.weight) not in [id(weight) for weight in head.parameters()]
    assert_close(head(torch.zeros(1, 3)), head.project.bias[None])


def test_a_head_without_bias_adds_nothing():
    table = nn.Embedding(5, 3)
    head, hidden = UntiedNoBiasHead(table), torch.randn(2, 4, 3)
    assert_close(head(hidden), hidden @ head.project.weight.T)
    assert [name for name, _ in head.named_parameters()] == ["project.weight"]


@pytest.mark.parametrize("kind", HEADS)
def test_suppressed_tokens_take_no_probability_from_the_others(kind):
    table, hidden = nn.Embedding(6, 3), torch.randn(2, 4, 3)
    inner = HEADS[kind](table)
    head = SuppressTokensHead(inner, 6, (0, 3))
    probabilities, others = head(hidden).softmax(-1), [1, 2, 4, 5]
    assert_close(probabilities[..., others], inner(hidden)[..., others].softmax(-1))
    assert (probabilities[..., [0, 3]] == 0).all()
    weight, bias = head.weight_and_bias()
    assert_close(nn.functional.linear(hidden, weight, bias), head(hidden))


def test_unscaled_embeddings_are_added_to_their_positions():
    table, positions = nn.Embedding(5, 4), SinusoidalPositions(4)
    tokens, position_ids = torch.tensor([[3, 1]]), torch.tensor([[7, 8]])
    expected = table.weight[[3, 1]][None] + positions(position_ids)
    assert_close(UnscaledTokenEmbedding(table, positions, 0.0).embed_at(tokens, position_ids), expected)


# The whole model


@pytest.mark.parametrize("name", FAMILIES)
def test_the_logits_are_the_output_of_the_head_for_the_hidden_states(name):
    model, batch = tiny_model(name), pairs([3, 5, 1])
    hidden = model.hidden(batch)
    logits = model(batch)
    assert hidden.lengths.tolist() == batch.target.lengths.tolist()
    assert logits.shape == (3, int(batch.target.lengths.max()), TARGET_SIZE)
    assert torch.equal(logits, model.head(hidden.values))


def test_hidden_states_are_computed_by_the_four_parts_in_order():
    model, batch = tiny_model("transformer, pre-norm"), pairs([3, 5, 1])
    memory = model.encoder(model.source(batch.source))
    assert torch.equal(model.encode(batch.source).values, memory.values)
    expected = model.decoder(model.target(batch.target), memory)
    assert torch.equal(model.hidden(batch).values, expected)


def test_a_model_without_a_source_is_a_mistake_of_the_caller():
    batch = pairs([3])
    with pytest.raises(AssertionError, match="needs"):
        tiny_model("transformer, pre-norm")(Batch(None, batch.target, batch.labels, batch.indices))


def test_the_state_holds_the_position_of_every_row():
    model, batch = tiny_model("transformer, pre-norm"), pairs([3, 5, 1])
    state = model.start(batch.source, rows=3, max_length=5)
    assert state.position.tolist() == [0, 0, 0]
    _, state = model.step(batch.target.values[:, :2], state)
    assert state.position.tolist() == [2, 2, 2]
    assert state.decoder.cache_lengths.tolist() == [2, 2, 2]


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_a_step_continues_with_the_next_position_ids(positions):
    model = perturbed_model(seq2seq_settings(transformer(), transformer(), positions))
    source, tokens = pairs([3, 3]).source, torch.tensor([[1, 5, 5, 5, 5], [1, 6, 6, 6, 6]])
    expected = full_logits(model, source, tokens)
    state = model.start(source, rows=2, max_length=5)
    for first, last in ((0, 2), (2, 3), (3, 5)):
        logits, state = model.step(tokens[:, first:last], state)
        assert_close(logits, expected[:, first:last], rtol=0, atol=1e-5)


def test_without_positions_a_transformer_cannot_tell_the_order_of_its_source():
    without_positions = perturbed_model(seq2seq_settings(transformer(), transformer(), "none"))
    source = Sequences.of([[3, 4, 5], [5, 3, 4]])
    tokens = torch.tensor([[1, 7], [1, 7]])
    logits = full_logits(without_positions, source, tokens)
    assert_close(logits[0], logits[1], rtol=0, atol=1e-5)
    with_positions = full_logits(tiny_model("transformer, pre-norm"), source, tokens)
    assert (with_positions[0] - with_positions[1]).abs().max() > 1e-3


# Tied weights


def test_a_tied_head_shares_the_targets_table():
    model = tiny_model("transformer, pre-norm")
    assert model.head.table is model.target.table
    assert model.source.table is not model.target.table
    assert isinstance(tiny_model("recurrent, additive").head, UntiedHead)


def test_a_shared_vocabulary_ties_three_ways():
    settings = seq2seq_settings(transformer(), transformer()).with_(**{"target.vocabulary": "shared"})
    model = perturbed_model(settings)
    assert model.source.table.weight is model.target.table.weight is model.head.table.weight
    assert model.source.table.weight.shape == (TARGET_SIZE, WIDTH)
    names = [name for name, weight in model.named_parameters() if weight.shape == (TARGET_SIZE, WIDTH)]
    assert len(names) == 1
    # A change through one name changes all of them.
    with torch.no_grad():
        model.source.table.weight[4] = 7.0
    assert (model.head.table.weight[4] == 7.0).all()


def test_a_tied_table_gets_gradients_from_all_its_uses():
    settings = seq2seq_settings(transformer(), transformer()).with_(**{"target.vocabulary": "shared"})
    model = perturbed_model(settings)
    source, target = Sequences.of([[4, 5]]), Sequences.of([[1, 6]])
    batch = Batch(source, target, torch.tensor([[6, 2]]), torch.tensor([0]))
    model(batch)[0, 0, 9].backward()
    has_gradient = model.head.table.weight.grad.abs().sum(-1) > 0
    assert has_gradient.nonzero().flatten().tolist() == [1, 4, 5, 9]  # two source tokens, one target input, one label
