"""A Transformer computes the same for packed sequences as for padded rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from seq2see.core.batch import Batch, PackedSequences
from seq2see.data import packed
from seq2see.data.examples import Example
from seq2see.data.packed import PackedSampler
from seq2see.data.pair_dataset import PairDataset
from seq2see.data.tokenizers.tokenizer import Characters, train_tokenizer
from seq2see.models.build import fresh_model
from seq2see.models.seq2seq import Seq2Seq
from seq2see.models.settings import ModelSettings, Text, TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.training.objectives import NextToken, repeat_for_r_drop

TEXTS = ["abc", "ba", "cabbage", "a", "bcabca", "cc", "abacab"]
PAIRS = [Example(source, target) for source, target in zip(TEXTS, reversed(TEXTS), strict=True)]


@pytest.fixture
def pairs(monkeypatch) -> PairDataset:
    monkeypatch.setattr(packed, "ROW_LENGTH", 17)  # two or three texts in a row
    characters = train_tokenizer(Characters(), TEXTS)
    return PairDataset(PAIRS, characters, characters, max_tokens=20)


def model_for(pairs: PairDataset, positions: str = "sinusoidal", **changes: str) -> Seq2Seq:
    stack, embedding = (
        TransformerSettings(width=12, depth=2, heads=3, dropout=0.0, **changes),
        TokenEmbeddingSettings(positions=positions),
    )
    settings = ModelSettings(
        source=Text(embedding=embedding), encoder=stack, decoder=stack,
        target=TextTarget(embedding=embedding, vocabulary="shared"),
    )  # fmt: skip
    size = len(pairs.tokenizers["target"])
    return fresh_model(settings, (size, size), "xavier", seed=3).eval()


def hidden_of(example: int, batch: Batch, hidden: Tensor) -> Tensor:
    """The hidden states of one example in its packed row."""
    row, document = (batch.indices == example).nonzero()[0].tolist()
    assert isinstance(batch.target, PackedSequences)
    return hidden[row][batch.target.document_ids[row] == document + 1]


@pytest.mark.parametrize(
    "changes",
    [
        *({"norm_order": order, "norm": norm} for order in ("pre", "post") for norm in ("layer", "rms")),
        *({"positions": positions} for positions in ("learned", "rotary", "alibi")),
    ],
    ids=str,
)
def test_hidden_states_and_losses_are_those_of_padded_rows(pairs, changes):
    model = model_for(pairs, **changes)
    indices = np.arange(len(TEXTS))
    padded, packed_batch = pairs.batch(indices), PackedSampler(pairs.lengths, 51, seed=1).batch(pairs, indices)
    assert len(packed_batch.labels) == 3
    expected, actual = model.hidden(padded).values, model.hidden(packed_batch).values
    assert torch.isfinite(actual).all()
    for example, length in enumerate(pairs.sides["target"].lengths.tolist()):
        assert_close(hidden_of(example, packed_batch, actual), expected[example, :length], rtol=0, atol=1e-5)
    for r_drop in (0.0, 2.0):
        objective = NextToken(label_smoothing=0.1, r_drop=r_drop)
        batches = [repeat_for_r_drop(each) if objective.copies == 2 else each for each in (padded, packed_batch)]
        losses = [objective.loss(model.hidden(each), model.head, each.labels) for each in batches]
        assert_close(losses[0], losses[1], rtol=1e-5, atol=0)


def test_documents_of_a_row_do_not_affect_each_other(pairs):
    model, plan = model_for(pairs), PackedSampler(pairs.lengths, 51, seed=1)
    one, other = (plan.batch(pairs, np.array(some)) for some in ([0, 2, 4], [5, 0, 6, 3]))
    hidden = [hidden_of(0, each, model.hidden(each).values) for each in (one, other)]
    assert_close(*hidden, rtol=0, atol=1e-5)


def test_a_language_model_computes_the_same_for_packed_and_padded_rows(pairs):
    blocks, size = TransformerSettings(width=12, depth=2, heads=3, dropout=0.0), len(pairs.tokenizers["target"])
    model, indices = fresh_model(ModelSettings(decoder=blocks), (size, size), "xavier", seed=3), np.arange(len(TEXTS))
    padded, packed_batch = pairs.batch(indices), PackedSampler(pairs.lengths, 51, seed=1).batch(pairs, indices)
    expected, actual = model.hidden(padded).values, model.hidden(packed_batch).values
    for example, length in enumerate(pairs.sides["target"].lengths.tolist()):
        assert_close(hidden_of(example, packed_batch, actual), expected[example, :length], rtol=0, atol=1e-5)
