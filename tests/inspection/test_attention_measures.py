"""Measures of attention maps, each compared with a case that is computed by hand."""

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


def test_entropy_is_the_logarithm_of_the_number_of_equal_keys():
    weights = np.array([[0.25, 0.25, 0.25, 0.25], [0, 1, 0, 0], [0.5, 0.25, 0.25, 0], [0, 0, 0, 0]])
    assert entropy(weights).tolist() == [2.0, 0.0, 1.5, 0.0]
    assert not np.signbit(entropy(weights)).any()  # no -0.0


def test_distance_is_in_positions_and_of_one_sequence_only():
    weights = np.array([[[0.5, 0, 0.5], [0, 1, 0], [1, 0, 0]]])
    assert distance(weights).tolist() == [[1.0, 0.0, 2.0]]
    with pytest.raises(ValueError, match="one sequence"):
        distance(np.ones((2, 3)) / 3)


def test_patch_distance_is_euclidean_and_excludes_the_class_token():
    """A class token and two rows of three patches; half of all attention goes to the class token."""
    weights = np.zeros((7, 7))
    weights[:, 0], weights[:, 6] = 0.5, 0.5
    assert patch_distance(weights, (2, 3)) == pytest.approx([5**0.5, 2**0.5, 1, 2, 1, 0])
    assert not patch_distance(np.zeros((7, 7)), (2, 3)).any()  # without attention the distance is 0


def test_similarity_of_heads_depends_on_the_weights_they_share():
    left, right, uniform = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]]), np.array([[0.5, 0.5]])
    found = similarity(np.stack([left, right, uniform]))
    assert np.diag(found) == pytest.approx(1)
    assert found[0, 1] == pytest.approx(0)
    # JS of (1, 0) and (½, ½): H(¾, ¼) - (0 + 1) / 2
    assert found[0, 2] == found[2, 1] == pytest.approx(1 - (0.8112781 - 0.5), abs=1e-6)
    half = similarity(np.stack([np.concatenate([left, left]), np.concatenate([left, right])]))
    assert half[0, 1] == pytest.approx(0.5)  # one of two queries has equal weights


def test_links_between_words_are_scored_against_the_gold_alignment():
    """The weights of two tokens of one source word add up: 0.3 + 0.3 > 0.4."""
    weights = np.array([[0.3, 0.3, 0.4], [0.1, 0.1, 0.8]])
    assert alignment_error(weights, [0, 0, 1], [0, 1], GoldAlignment.of([(0, 0), (1, 1)])) == 0
    assert alignment_error(weights, [0, 0, 1], [0, 1], GoldAlignment.of([(1, 0), (1, 1)])) == pytest.approx(0.5)


def test_max_pooling_keeps_the_maximum_of_every_block_and_does_not_change_a_small_map():
    weights = np.zeros((2, 5, 7))
    weights[1, 4, 6] = 1
    small = max_pooled_maps(weights, 3)
    assert small.shape == (2, 3, 3)
    assert small[1, 2, 2] == small.sum() == 1
    assert np.array_equal(max_pooled_maps(weights, 7), weights)
    assert max_pooled_maps(np.arange(12.0).reshape(1, 3, 4), 2).tolist() == [[[5, 7], [9, 11]]]


@pytest.mark.parametrize("name", ["transformer, pre-norm", "transformer, post-norm", "transformer, batch norm"])
@torch.no_grad()
def test_the_last_layer_of_the_logit_lens_is_the_prediction_of_the_model(name):
    model, batch = perturbed_model(FAMILIES[name]), pairs([3], [4])
    with trace(model, ("embedding", "stream")) as activations:
        expected = model(batch)[0].log_softmax(-1)
    lens = logit_lens(model, activations.to_record("x", {}))
    assert lens.shape == (3, 5, 13)
    assert lens[-1] == pytest.approx(expected.numpy(), abs=1e-5)
    assert np.abs(lens[0] - lens[-1]).max() > 0.1
    assert np.exp(lens).sum(-1) == pytest.approx(1)


@torch.no_grad()
def test_the_logit_lens_rejects_a_classifier_and_an_empty_record():
    settings = ModelSettings(source=Text(), encoder=transformer(), target=Label())
    classifier = perturbed_model(settings)
    with trace(classifier, ("embedding", "stream")) as activations:
        classifier(replace(pairs([3]), target=None))
    for model, record in (
        (classifier, activations.to_record("x", {})),
        (perturbed_model(FAMILIES["transformer, pre-norm"]), ActivationRecord("x", {})),
    ):
        with pytest.raises(UserError, match="prediction at every position"):
            logit_lens(model, record)


@torch.no_grad()
def test_the_logit_lens_rejects_a_model_without_blocks():
    model = perturbed_model(FAMILIES["recurrent, dot"])
    with trace(model, ("embedding", "stream")) as activations:
        model(pairs([3]))
    with pytest.raises(UserError, match="stack of blocks"):
        logit_lens(model, activations.to_record("x", {}))
