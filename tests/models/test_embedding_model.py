"""Sentence embeddings: the pooled vector, normalized to length 1."""

from __future__ import annotations

import pytest
import torch

from seq2see.core.batch import Batch, Sequences
from seq2see.models.build import fresh_model
from seq2see.models.settings import EmbeddingTarget, ModelSettings, Text
from tiny_models import transformer


@torch.no_grad()
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_an_embedding_is_the_normalized_pooled_vector(pooling):
    settings = ModelSettings(source=Text(), target=EmbeddingTarget(pooling=pooling), encoder=transformer(dropout=0.0))
    model = fresh_model(settings, (23, 1), "xavier", 3).eval()
    source = Sequences.of([[1, 5, 6, 7, 2], [1, 8, 2]])
    embeddings = model.hidden(Batch(source, None, source.values, torch.arange(2)))
    assert (embeddings.values.shape, embeddings.lengths.tolist()) == ((2, 1, 8), [1, 1])
    for row, length in enumerate((5, 3)):
        states = model.encode(source).values[row, :length]
        pooled = states.mean(0) if pooling == "mean" else states[0]
        torch.testing.assert_close(embeddings.values[row, 0], pooled / pooled.square().sum().sqrt())
