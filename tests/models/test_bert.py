"""BERT beside its neighbors: it is the Transformer's encoder, it looks both ways, and it answers two questions."""

from __future__ import annotations

import pytest
import torch

from seq2see.core.batch import NOT_ASKED, Batch, SequencePairs, Sequences
from seq2see.models.bert import BERT, BERTForPreTraining
from seq2see.models.build import build_model, fresh_model
from seq2see.models.named_tensors import named_tensors
from seq2see.models.settings import (
    BertEmbeddingSettings,
    MaskedTokensNSPTarget,
    MaskedTokensTarget,
    ModelSettings,
    Text,
)
from seq2see.models.token_embeddings import BertEmbedding
from seq2see.models.transformer import TransformerEncoder
from tiny_models import recurrent_encoder, transformer

SIZE = 23


def settings(target=None, encoder=None) -> ModelSettings:
    return ModelSettings(
        source=Text(frontend=BertEmbeddingSettings()),
        target=target or MaskedTokensTarget(),
        encoder=encoder or transformer(dropout=0.0),
    )


def model(target=None, encoder=None) -> BERT:
    found = fresh_model(settings(target, encoder), (SIZE, SIZE), "xavier", 3).eval()
    assert isinstance(found, BERT)
    return found


def batch(rows, sentences=None) -> Batch:
    source = Sequences.of(rows)
    if sentences is not None:
        source = SequencePairs(source.values, source.lengths, Sequences.of(sentences).values)
    return Batch(source, None, torch.full_like(source.values, NOT_ASKED), torch.arange(len(rows)))


def test_its_blocks_are_the_transformers_own():
    found = model()
    assert type(found.encoder) is TransformerEncoder
    assert isinstance(found.source, BertEmbedding)
    names = {name.split(".")[0] for name, _ in found.named_parameters()}
    assert names == {"source", "encoder", "head", "rethink"}


@torch.no_grad()
def test_it_looks_both_ways():
    found = model()
    one, other = found(batch([[1, 5, 6, 7, 2]])), found(batch([[1, 5, 6, 8, 2]]))
    assert not torch.allclose(one[0, 1], other[0, 1], atol=1e-4)  # what comes later is seen
    one, other = found(batch([[1, 9, 6, 7, 2]])), found(batch([[1, 5, 6, 7, 2]]))
    assert not torch.allclose(one[0, 3], other[0, 3], atol=1e-4)  # and what comes before


@torch.no_grad()
@pytest.mark.parametrize("encoder", [transformer(dropout=0.0), recurrent_encoder("gru")], ids=["transformer", "gru"])
def test_neighbors_and_padding_change_nothing(encoder):
    found = model(encoder=encoder)
    alone, together = found(batch([[1, 5, 6, 2]])), found(batch([[1, 7, 8, 9, 5, 6, 2], [1, 5, 6, 2]]))
    torch.testing.assert_close(together[1, :4], alone[0], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_sentences_are_told_apart_and_a_text_alone_is_the_first():
    found = model()
    rows = [[1, 5, 2, 6, 2]]
    alone, first = found(batch(rows)), found(batch(rows, [[0] * 5]))
    assert torch.equal(alone, first)
    assert not torch.allclose(found(batch(rows, [[0, 0, 0, 1, 1]])), alone, atol=1e-3)


@torch.no_grad()
def test_a_token_a_place_and_a_sentence_are_added_up_and_normalized():
    frontend = model().source
    (vectors,) = frontend(batch([[5, 6]], [[0, 1]]).source).values
    for place, (token, sentence) in enumerate([(5, 0), (6, 1)]):
        total = frontend.table.weight[token] + frontend.positions.table.weight[place]
        total += frontend.token_type_embedding.weight[sentence]
        expected = (total - total.mean()) / (total.var(unbiased=False) + 1e-5).sqrt()
        torch.testing.assert_close(vectors[place], expected, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_tokens_are_scored_by_their_own_vectors_and_by_how_common_they_are():
    found = model()
    found.head.bias += torch.arange(SIZE)
    read = batch([[1, 5, 2]])
    hidden = found.hidden(read).values
    torch.testing.assert_close(found(read), hidden @ found.source.table.weight.T + torch.arange(SIZE))
    weight, bias = found.head.weight_and_bias()  # what a loss in chunks takes instead
    torch.testing.assert_close(found(read), hidden @ weight.T + bias)
    assert "head.table.weight" not in named_tensors(found)  # one table, stored once


@torch.no_grad()
def test_the_first_place_of_a_pair_says_yes_or_no_and_the_others_name_tokens():
    found = model(MaskedTokensNSPTarget())
    assert isinstance(found, BERTForPreTraining)
    rows = batch([[1, 5, 2, 6, 2]], [[0, 0, 0, 1, 1]])
    logits, read = found(rows), found.encode(rows.source).values
    summed = (read[0, 0] @ found.pooler.weight.T + found.pooler.bias).tanh()
    answer = summed @ found.head.next_sentence.project.weight.T
    torch.testing.assert_close(logits[0, 0, :2], answer, atol=1e-5, rtol=1e-5)
    assert (logits[0, 0, 2:] == float("-inf")).all()
    assert logits[0, 1:].isfinite().all()
    torch.testing.assert_close(logits[0, 1:], found.head.tokens(found.transform(read[:, 1:]))[0])


def test_a_model_that_only_reads_has_no_decoder():
    assert not hasattr(build_model(settings(), SIZE, SIZE), "decoder")
