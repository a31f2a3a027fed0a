"""A Transformer reads texts end to end as it reads them padded."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from seq2see.core.batch import Batch, PackedSequences
from seq2see.models.build import fresh_model
from seq2see.models.seq2seq import Seq2Seq
from seq2see.models.settings import ModelSettings, Text, TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.sequences import packed
from seq2see.sequences.packed import PackedSampler
from seq2see.sequences.pair_dataset import PairDataset
from seq2see.sequences.tokenizer_training import train_tokenizer
from seq2see.sequences.tokenizers import Characters
from seq2see.sources.examples import Example
from seq2see.training.objectives import NextToken, repeat_for_r_drop

TEXTS = ["abc", "ba", "cabbage", "a", "bcabca", "cc", "abacab"]
PAIRS = [Example(source, target) for source, target in zip(TEXTS, reversed(TEXTS), strict=True)]


@pytest.fixture
def pairs(monkeypatch) -> PairDataset:
    monkeypatch.setattr(packed, "LINE", 17)  # two or three texts on a line
    letters = train_tokenizer(Characters(), TEXTS)
    return PairDataset(PAIRS, letters, letters, max_tokens=20)


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
    """The hidden states of one example on its line."""
    line, place = (batch.indices == example).nonzero()[0].tolist()
    assert isinstance(batch.target, PackedSequences)
    return hidden[line][batch.target.document_ids[line] == place + 1]


@pytest.mark.parametrize(
    "changes",
    [
        *({"order": order, "norm": norm} for order in ("pre", "post") for norm in ("layer", "rms")),
        *({"positions": positions} for positions in ("learned", "rotary", "alibi")),
    ],
    ids=str,
)
def test_hidden_states_and_losses_are_those_of_padded_rows(pairs, changes):
    model = model_for(pairs, **changes)
    everybody = np.arange(len(TEXTS))
    padded, strung = pairs.batch(everybody), PackedSampler(pairs.lengths, 51, seed=1).batch(pairs, everybody)
    assert len(strung.labels) == 3
    apart, together = model.hidden(padded).values, model.hidden(strung).values
    assert torch.isfinite(together).all()
    for example, length in enumerate(pairs.sides["target"].lengths.tolist()):
        assert_close(hidden_of(example, strung, together), apart[example, :length], rtol=0, atol=1e-5)
    for r_drop in (0.0, 2.0):
        objective = NextToken(label_smoothing=0.1, r_drop=r_drop)
        batches = [repeat_for_r_drop(each) if objective.copies == 2 else each for each in (padded, strung)]
        losses = [objective.loss(model.hidden(each), model.head, each.labels) for each in batches]
        assert_close(losses[0], losses[1], rtol=1e-5, atol=0)


def test_nothing_flows_between_texts_of_a_line(pairs):
    model, plan = model_for(pairs), PackedSampler(pairs.lengths, 51, seed=1)
    one, other = (plan.batch(pairs, np.array(some)) for some in ([0, 2, 4], [5, 0, 6, 3]))
    together = [hidden_of(0, each, model.hidden(each).values) for each in (one, other)]
    assert_close(*together, rtol=0, atol=1e-5)


def test_a_language_model_reads_its_lines_as_it_reads_rows(pairs):
    blocks, size = TransformerSettings(width=12, depth=2, heads=3, dropout=0.0), len(pairs.tokenizers["target"])
    model, everybody = fresh_model(ModelSettings(decoder=blocks), (size, size), "xavier", seed=3), np.arange(len(TEXTS))
    padded, strung = pairs.batch(everybody), PackedSampler(pairs.lengths, 51, seed=1).batch(pairs, everybody)
    apart, together = model.hidden(padded).values, model.hidden(strung).values
    for example, length in enumerate(pairs.sides["target"].lengths.tolist()):
        assert_close(hidden_of(example, strung, together), apart[example, :length], rtol=0, atol=1e-5)
