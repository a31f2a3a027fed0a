"""The vectors of reordered tokens, permuted back and compared with those of the original text."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from seq2see.core.batch import Sequences
from seq2see.inspection.position_encodings import (
    _relative_distance,
    remove_positions,
    residual_streams,
    stream_distances,
)
from tiny_models import FAMILIES, perturbed_model, seq2seq_settings, transformer

IDS, ORDER = [3, 4, 5, 6, 2], [2, 0, 1, 3, 4]


@pytest.mark.parametrize("name", FAMILIES)
def test_the_streams_are_the_embeddings_and_the_output_of_each_block(name: str):
    model = perturbed_model(FAMILIES[name])
    found = residual_streams(model, IDS)
    embeddings = model.source(Sequences.of([IDS])).values[0].detach()
    torch.testing.assert_close(next(iter(found.values())), embeddings)
    assert len(found) == 1 + (2 if hasattr(model.encoder, "blocks") else 1)


@pytest.mark.parametrize("name", FAMILIES)
def test_with_the_original_order_all_distances_are_zero(name: str):
    names, found = stream_distances(perturbed_model(FAMILIES[name]), IDS, range(5))
    assert found.shape == (len(names), 5)
    assert (found == 0).all()


def test_distances_are_relative_and_of_the_same_token():
    model = perturbed_model(seq2seq_settings(transformer(), transformer()))
    with torch.no_grad():
        before = model.source(Sequences.of([IDS])).values[0]
        after = model.source(Sequences.of([[IDS[index] for index in ORDER]])).values[0]
    _, found = stream_distances(model, IDS, ORDER)
    for index, token in enumerate(ORDER):
        first, second = before[token], after[index]
        expected = (first - second).norm() / ((first.norm() + second.norm()) / 2)
        np.testing.assert_allclose(found[0, token], expected, rtol=1e-5)
    assert (found[0, :3] > 0).all()
    assert (found[0, 3:] == 0).all()  # these two were not moved
    assert (found[1, 3:] > 0).all()  # but they attend to the moved ones


def test_the_distance_of_zero_vectors_is_zero():
    assert _relative_distance(torch.zeros(2, 3), torch.zeros(2, 3)).tolist() == [0, 0]


def test_without_positions_no_vector_of_an_encoder_changes():
    model = perturbed_model(seq2seq_settings(transformer(), transformer(), "learned"))
    assert stream_distances(model, IDS, ORDER)[1].max() > 0.01
    assert stream_distances(remove_positions(model), IDS, ORDER)[1].max() < 1e-5
