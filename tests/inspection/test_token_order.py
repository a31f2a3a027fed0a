"""Vectors of reordered tokens, permuted back: what the order has changed, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from seq2see.core.batch import Sequences
from seq2see.inspection.position_encodings import remove_positions
from seq2see.inspection.token_order import _far, residual_streams, stream_distances
from tiny_models import FAMILIES, perturbed_model, seq2seq_settings, transformer

IDS, ORDER = [3, 4, 5, 6, 2], [2, 0, 1, 3, 4]


@pytest.mark.parametrize("name", FAMILIES)
def test_stations_are_what_enters_and_what_leaves_each_block(name: str):
    model = perturbed_model(FAMILIES[name])
    found = residual_streams(model, IDS)
    entering = model.source(Sequences.of([IDS])).values[0].detach()
    torch.testing.assert_close(next(iter(found.values())), entering)
    assert len(found) == 1 + (2 if hasattr(model.encoder, "blocks") else 1)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_same_order_moves_nothing(name: str):
    names, found = stream_distances(perturbed_model(FAMILIES[name]), IDS, range(5))
    assert found.shape == (len(names), 5)
    assert (found == 0).all()


def test_distances_are_of_the_same_token_as_a_share_of_the_vectors_length():
    model = perturbed_model(seq2seq_settings(transformer(), transformer()))
    with torch.no_grad():
        before = model.source(Sequences.of([IDS])).values[0]
        after = model.source(Sequences.of([[IDS[place] for place in ORDER]])).values[0]
    _, found = stream_distances(model, IDS, ORDER)
    for place, token in enumerate(ORDER):
        one, other = before[token], after[place]
        expected = (one - other).norm() / ((one.norm() + other.norm()) / 2)
        np.testing.assert_allclose(found[0, token], expected, rtol=1e-5)
    assert (found[0, :3] > 0).all()
    assert (found[0, 3:] == 0).all()  # these two have not been moved
    assert (found[1, 3:] > 0).all()  # but they look at those that were


def test_a_vector_of_nothing_is_not_moved():
    assert _far(torch.zeros(2, 3), torch.zeros(2, 3)).tolist() == [0, 0]


def test_without_positions_nothing_moves_in_an_encoder():
    model = perturbed_model(seq2seq_settings(transformer(), transformer(), "learned"))
    assert stream_distances(model, IDS, ORDER)[1].max() > 0.01
    assert stream_distances(remove_positions(model), IDS, ORDER)[1].max() < 1e-5
