"""Ensembles: probabilities are averaged, and an ensemble of equal members equals its members."""

from __future__ import annotations

import math

import pytest
import torch

from seq2see.decoding.beam import BeamSampler
from seq2see.decoding.engine import GenerativeModel, Limits, decode
from seq2see.decoding.ensemble import Ensemble, log_mean_probability
from seq2see.decoding.samplers import GreedySampler
from tiny_models import sources, tiny_model
from toy_decoders import HistoryModel, random_source

LIMITS = Limits(7)


def logits(*probabilities):
    """Logits of one row and one time step, plus a constant, which a softmax ignores."""
    return torch.tensor(probabilities).log()[None, None] + 3.7


def answers(model, source, sampler):
    results = decode(model, source, sampler, LIMITS)
    return [[(each.tokens, round(each.log_probability, 4)) for each in row] for row in results]


def test_the_mean_of_two_probabilities_by_hand():
    mean = log_mean_probability([logits(0.5, 0.25, 0.25), logits(0.1, 0.6, 0.3)]).exp()
    torch.testing.assert_close(mean, torch.tensor([[[0.3, 0.425, 0.275]]]))


def test_members_in_bf16_are_averaged_in_float32():
    members = [torch.randn(2, 1, 9).bfloat16() for _ in range(3)]
    assert torch.equal(log_mean_probability(members), log_mean_probability([each.float() for each in members]))


def test_probabilities_are_averaged_and_not_logits():
    # With the mean of the logits the first two tokens would be nearly equal; with the mean of the probabilities the
    # member that is more certain decides.
    mean = log_mean_probability([logits(0.98, 0.01, 0.01), logits(0.3, 0.69, 0.01)]).exp()
    torch.testing.assert_close(mean, torch.tensor([[[0.64, 0.35, 0.01]]]))


def test_a_tiny_probability_does_not_become_zero():
    certain = torch.tensor([[[0.0, -300.0]]])  # e^-300 underflows to 0 in float32
    assert log_mean_probability([certain, certain])[0, 0, 1] == -300
    unsure = torch.zeros(1, 1, 2)
    assert log_mean_probability([certain, unsure])[0, 0, 1].item() == pytest.approx(math.log(1 / 4))


@pytest.mark.parametrize("sampler", [GreedySampler(), BeamSampler(3)], ids=["greedy", "beam"])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("family", ["transformer, pre-norm", "recurrent, additive"])
def test_an_ensemble_of_equal_members_is_that_member(family, count, sampler):
    model, source = tiny_model(family), sources([4, 2, 5], seed=3)
    assert answers(Ensemble([model] * count), source, sampler) == answers(model, source, sampler)


def test_members_of_different_families_all_have_an_effect():
    source = sources([4, 2, 5], seed=3)
    names = ["transformer, pre-norm", "recurrent, additive"]
    both = Ensemble([tiny_model(name) for name in names])
    assert isinstance(both, GenerativeModel)
    scores = [answers(model, source, GreedySampler()) for model in (both, *map(tiny_model, names))]
    assert scores[0] not in scores[1:]
    assert answers(Ensemble([tiny_model(name) for name in names[::-1]]), source, GreedySampler()) == scores[0]


def test_members_need_not_be_modules():
    both = Ensemble([HistoryModel(seed=0), HistoryModel(seed=1)])
    assert not list(both.parameters())
    source = random_source(3, seed=2)
    assert answers(both, source, BeamSampler(2)) != answers(HistoryModel(seed=0), source, BeamSampler(2))


def test_an_empty_ensemble_is_an_error():
    with pytest.raises(ValueError, match="at least one member"):
        Ensemble([])
