"""BERT: the Transformer's encoder with bidirectional attention, a masked-LM head and a next-sentence head."""

from __future__ import annotations

import pytest
import torch

from seq2see.core.batch import IGNORE_INDEX, Batch, SequencePairs, Sequences
from seq2see.models.bert import BERT, BERTForPreTraining
from seq2see.models.build import build_model, fresh_model, named_tensors
from seq2see.models.embeddings_and_heads import BertEmbedding
from seq2see.models.settings import (
    BertEmbeddingSettings,
    MaskedTokensNSPTarget,
    MaskedTokensTarget,
    ModelSettings,
    Text,
)
from seq2see.models.transformer import TransformerEncoder
from tiny_models import recurrent_encoder, transformer

SIZE = 23


def settings(target=None, encoder=None) -> ModelSettings:
    return ModelSettings(
        source=Text(embedding=BertEmbeddingSettings()),
        target=target or MaskedTokensTarget(),
        encoder=encoder or transformer(dropout=0.0),
    )


def model(target=None, encoder=None) -> BERT:
    built = fresh_model(settings(target, encoder), (SIZE, SIZE), "xavier", 3).eval()
    assert isinstance(built, BERT)
    return built


def batch(rows, token_type_ids=None) -> Batch:
    source = Sequences.of(rows)
    if token_type_ids is not None:
        source = SequencePairs(source.values, source.lengths, Sequences.of(token_type_ids).values)
    return Batch(source, None, torch.full_like(source.values, IGNORE_INDEX), torch.arange(len(rows)))


def test_its_blocks_are_the_transformers_own():
    bert = model()
    assert type(bert.encoder) is TransformerEncoder
    assert isinstance(bert.source, BertEmbedding)
    names = {name.split(".")[0] for name, _ in bert.named_parameters()}
    assert names == {"source", "encoder", "head", "transform"}


@torch.no_grad()
def test_attention_is_bidirectional():
    bert = model()
    one, other = bert(batch([[1, 5, 6, 7, 2]])), bert(batch([[1, 5, 6, 8, 2]]))
    assert not torch.allclose(one[0, 1], other[0, 1], atol=1e-4)  # later tokens matter
    one, other = bert(batch([[1, 9, 6, 7, 2]])), bert(batch([[1, 5, 6, 7, 2]]))
    assert not torch.allclose(one[0, 3], other[0, 3], atol=1e-4)  # and earlier ones


@torch.no_grad()
@pytest.mark.parametrize("encoder", [transformer(dropout=0.0), recurrent_encoder("gru")], ids=["transformer", "gru"])
def test_other_rows_and_padding_change_nothing(encoder):
    bert = model(encoder=encoder)
    alone, together = bert(batch([[1, 5, 6, 2]])), bert(batch([[1, 7, 8, 9, 5, 6, 2], [1, 5, 6, 2]]))
    torch.testing.assert_close(together[1, :4], alone[0], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_token_types_differ_and_a_single_text_has_type_0():
    bert = model()
    rows = [[1, 5, 2, 6, 2]]
    alone, first = bert(batch(rows)), bert(batch(rows, [[0] * 5]))
    assert torch.equal(alone, first)
    assert not torch.allclose(bert(batch(rows, [[0, 0, 0, 1, 1]])), alone, atol=1e-3)


@torch.no_grad()
def test_token_position_and_token_type_embeddings_are_summed_and_normalized():
    embedding = model().source
    (vectors,) = embedding(batch([[5, 6]], [[0, 1]]).source).values
    for position, (token, token_type) in enumerate([(5, 0), (6, 1)]):
        total = embedding.table.weight[token] + embedding.positions.embedding.weight[position]
        total += embedding.token_type_embedding.weight[token_type]
        expected = (total - total.mean()) / (total.var(unbiased=False) + 1e-5).sqrt()
        torch.testing.assert_close(vectors[position], expected, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_logits_are_tied_embeddings_plus_a_bias():
    bert = model()
    bert.head.bias += torch.arange(SIZE)
    inputs = batch([[1, 5, 2]])
    hidden = bert.hidden(inputs).values
    torch.testing.assert_close(bert(inputs), hidden @ bert.source.table.weight.T + torch.arange(SIZE))
    weight, bias = bert.head.weight_and_bias()  # used by the chunked cross-entropy
    torch.testing.assert_close(bert(inputs), hidden @ weight.T + bias)
    assert "head.table.weight" not in named_tensors(bert)  # one table, stored once


@torch.no_grad()
def test_the_first_position_of_a_pair_predicts_the_next_sentence_and_the_others_predict_tokens():
    bert = model(MaskedTokensNSPTarget())
    assert isinstance(bert, BERTForPreTraining)
    rows = batch([[1, 5, 2, 6, 2]], [[0, 0, 0, 1, 1]])
    logits, encoded = bert(rows), bert.encode(rows.source).values
    pooled = (encoded[0, 0] @ bert.pooler.weight.T + bert.pooler.bias).tanh()
    expected = pooled @ bert.head.next_sentence.project.weight.T
    torch.testing.assert_close(logits[0, 0, :2], expected, atol=1e-5, rtol=1e-5)
    assert (logits[0, 0, 2:] == float("-inf")).all()
    assert logits[0, 1:].isfinite().all()
    torch.testing.assert_close(logits[0, 1:], bert.head.tokens(bert.transform(encoded[:, 1:]))[0])


def test_an_encoder_model_has_no_decoder():
    assert not hasattr(build_model(settings(), SIZE, SIZE), "decoder")
