"""Embedders: the direction of a summary, as a vector of length 1."""

from __future__ import annotations

import pytest
import torch

from seq2see.core.batch import Batch, Sequences
from seq2see.models.build import fresh_model
from seq2see.models.settings import EmbeddingTarget, ModelSettings, Text
from tiny_models import transformer


@torch.no_grad()
@pytest.mark.parametrize("summary", ["mean", "first"])
def test_a_text_is_a_point_on_the_sphere_where_its_summary_points(pooling):
    settings = ModelSettings(source=Text(), target=EmbeddingTarget(pooling=pooling), encoder=transformer(dropout=0.0))
    model = fresh_model(settings, (23, 1), "xavier", 3).eval()
    source = Sequences.of([[1, 5, 6, 7, 2], [1, 8, 2]])
    found = model.hidden(Batch(source, None, source.values, torch.arange(2)))
    assert (found.values.shape, found.lengths.tolist()) == ((2, 1, 8), [1, 1])
    for row, length in enumerate((5, 3)):
        places = model.encode(source).values[row, :length]
        pointing = places.mean(0) if pooling == "mean" else places[0]
        torch.testing.assert_close(found.values[row, 0], pointing / pointing.square().sum().sqrt())
