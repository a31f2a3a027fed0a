"""Measures of attention, each against a case that can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from seq2see.core.errors import UserError
from seq2see.inspection.attention_measures import (
    alignment_error,
    distance,
    entropy,
    max_pooled_maps,
    patch_distance,
    similarity,
)
from seq2see.inspection.logit_lens import logit_lens
from seq2see.inspection.record import ActivationRecord
from seq2see.inspection.trace import trace
from seq2see.metrics.alignment import GoldAlignment
from seq2see.models.settings import Label, ModelSettings, Text
from tiny_models import FAMILIES, pairs, perturbed_model, transformer


def test_entropy_counts_the_keys_that_are_looked_at():
    weights = np.array([[0.25, 0.25, 0.25, 0.25], [0, 1, 0, 0], [0.5, 0.25, 0.25, 0], [0, 0, 0, 0]])
    assert entropy(weights).tolist() == [2.0, 0.0, 1.5, 0.0]
    assert not np.signbit(entropy(weights)).any()  # nothing is written as -0


def test_distance_is_in_places_and_of_one_sequence_only():
    weights = np.array([[[0.5, 0, 0.5], [0, 1, 0], [1, 0, 0]]])
    assert distance(weights).tolist() == [[1.0, 0.0, 2.0]]
    with pytest.raises(ValueError, match="one sequence"):
        distance(np.ones((2, 3)) / 3)


def test_patches_are_apart_as_the_crow_flies_and_the_class_token_is_nowhere():
    """Two rows of three patches behind a class token; half of every look goes to it."""
    weights = np.zeros((7, 7))
    weights[:, 0], weights[:, 6] = 0.5, 0.5
    assert patch_distance(weights, (2, 3)) == pytest.approx([5**0.5, 2**0.5, 1, 2, 1, 0])
    assert not patch_distance(np.zeros((7, 7)), (2, 3)).any()  # who looks at nothing looks nowhere


def test_heads_are_alike_by_what_they_share():
    left, right, even = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]]), np.array([[0.5, 0.5]])
    found = similarity(np.stack([left, right, even]))
    assert np.diag(found) == pytest.approx(1)
    assert found[0, 1] == pytest.approx(0)
    # JS of (1, 0) and (½, ½): H(¾, ¼) - (0 + 1) / 2
    assert found[0, 2] == found[2, 1] == pytest.approx(1 - (0.8112781 - 0.5), abs=1e-6)
    half = similarity(np.stack([np.concatenate([left, left]), np.concatenate([left, right])]))
    assert half[0, 1] == pytest.approx(0.5)  # of two queries one looks the same way


def test_links_between_words_are_scored_against_gold():
    """Two pieces of a source word add up: 0.3 + 0.3 beats 0.4."""
    weights = np.array([[0.3, 0.3, 0.4], [0.1, 0.1, 0.8]])
    assert alignment_error(weights, [0, 0, 1], [0, 1], GoldAlignment.of([(0, 0), (1, 1)])) == 0
    assert alignment_error(weights, [0, 0, 1], [0, 1], GoldAlignment.of([(1, 0), (1, 1)])) == pytest.approx(0.5)


def test_a_small_map_has_the_largest_of_every_block_and_a_smaller_one_is_left_alone():
    weights = np.zeros((2, 5, 7))
    weights[1, 4, 6] = 1
    small = max_pooled_maps(weights, 3)
    assert small.shape == (2, 3, 3)
    assert small[1, 2, 2] == small.sum() == 1
    assert np.array_equal(max_pooled_maps(weights, 7), weights)
    assert max_pooled_maps(np.arange(12.0).reshape(1, 3, 4), 2).tolist() == [[[5, 7], [9, 11]]]


@pytest.mark.parametrize("name", ["transformer, pre-norm", "transformer, post-norm", "transformer, batch norm"])
@torch.no_grad()
def test_the_last_layer_through_the_lens_is_what_the_model_says(name):
    model, read = perturbed_model(FAMILIES[name]), pairs([3], [4])
    with trace(model, ("embedding", "stream")) as seen:
        said = model(read)[0].log_softmax(-1)
    lens = logit_lens(model, seen.to_record("x", {}))
    assert lens.shape == (3, 5, 13)
    assert lens[-1] == pytest.approx(said.numpy(), abs=1e-5)
    assert np.abs(lens[0] - lens[-1]).max() > 0.1
    assert np.exp(lens).sum(-1) == pytest.approx(1)


@torch.no_grad()
def test_what_answers_once_or_was_not_seen_has_no_layers_to_read():
    whole = ModelSettings(source=Text(), encoder=transformer(), target=Label())
    model = perturbed_model(whole)
    with trace(model, ("embedding", "stream")) as seen:
        model(replace(pairs([3]), target=None))
    for asked, record in (
        (model, seen.to_record("x", {})),
        (perturbed_model(FAMILIES["transformer, pre-norm"]), ActivationRecord("x", {})),
    ):
        with pytest.raises(UserError, match="answers at every place"):
            logit_lens(asked, record)


@torch.no_grad()
def test_what_has_no_blocks_has_no_layers_to_read():
    model = perturbed_model(FAMILIES["recurrent, dot"])
    with trace(model, ("embedding", "stream")) as seen:
        model(pairs([3]))
    with pytest.raises(UserError, match="stack of blocks"):
        logit_lens(model, seen.to_record("x", {}))
