"""Mixtures of experts: sums of z, and the cross-entropy method, which finds known coefficients."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from seq2see.adapters.adapt import adapt, adapters_of
from seq2see.adapters.mixing import (
    CANDIDATES,
    ROUNDS,
    cross_entropy_method,
    mix,
    scale_vectors,
    set_scale_vectors,
)
from seq2see.adapters.settings import SVF, LoRA, NormalizedSVF
from seq2see.core.errors import UserError

FIRST, SECOND = (
    {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([3.0])},
    {
        "a": torch.tensor([0.5, 0.0]),
        "b": torch.tensor([1.0]),
    },
)


def two_layers(kind) -> nn.Module:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 5, bias=False))
    adapt(model, kind(matrices=("*",)))
    return model


class TestMix:
    def test_one_coefficient_for_each_expert(self):
        mixed = mix([FIRST, SECOND], torch.tensor([[0.5], [1.0]]))
        assert mixed["a"].tolist() == [1.0, 1.0]
        assert mixed["b"].tolist() == [2.5]

    def test_one_coefficient_for_each_expert_and_matrix(self):
        mixed = mix([FIRST, SECOND], torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
        assert mixed["a"].tolist() == [1.0, 2.0]
        assert mixed["b"].tolist() == [2.0]

    def test_other_numbers_of_groups_are_an_error(self):
        with pytest.raises(ValueError, match="3 groups of coefficients for 2 matrices"):
            mix([FIRST, SECOND], torch.ones(2, 3))

    @pytest.mark.parametrize("kind", [SVF, NormalizedSVF])
    def test_a_mixture_of_one_expert_is_the_expert(self, kind):
        model = two_layers(kind)
        with torch.no_grad():
            for each in model.parameters():
                if each.requires_grad:
                    each.add_(torch.randn_like(each))
        inputs = torch.randn(2, 4)
        before, vectors = model(inputs), scale_vectors(model)
        set_scale_vectors(model, {name: torch.ones_like(each) * 0.3 for name, each in vectors.items()})
        assert not torch.allclose(model(inputs), before)
        set_scale_vectors(model, mix([vectors, vectors], torch.tensor([[1.0], [0.0]])))
        assert_close(model(inputs), before, rtol=1e-4, atol=1e-5)

    def test_a_sum_of_two_experts_scales_the_singular_values(self):
        model = two_layers(SVF)
        halves = [
            {name: torch.full_like(each, size) for name, each in scale_vectors(model).items()} for size in (1.5, 0.5)
        ]
        set_scale_vectors(model, mix(halves, torch.tensor([[1.0], [1.0]])))
        for adapter in adapters_of(model).values():
            assert_close(adapter.weight, 2 * adapter.base.weight)

    def test_a_normalized_mixture_can_have_a_z_above_one(self):
        model = two_layers(NormalizedSVF)
        vectors = scale_vectors(model)
        wanted = {name: adapter.matrix(3 * vectors[name]) for name, adapter in adapters_of(model).items()}
        set_scale_vectors(model, {name: 3 * each for name, each in vectors.items()})
        for name, adapter in adapters_of(model).items():
            assert_close(adapter.weight, wanted[name], rtol=1e-4, atol=1e-5)

    def test_experts_of_lora_cannot_be_mixed(self):
        model = two_layers(lambda matrices: LoRA(rank=2, matrices=matrices))
        with pytest.raises(UserError, match="Only experts of SVF can be mixed"):
            scale_vectors(model)


class TestCrossEntropyMethod:
    WANTED = torch.tensor([[0.9], [0.1], [0.4]], dtype=torch.float64)

    def score(self, coefficients) -> tuple[float, float]:
        distance = float((coefficients - self.WANTED).norm())
        return float(distance < 0.2), -distance

    def test_it_finds_the_best_coefficients(self):
        result = cross_entropy_method(self.score, 3)
        assert float((result.coefficients - self.WANTED).abs().max()) < 0.05
        assert result.score[0] == 1
        assert result.rounds < ROUNDS
        assert list(result.history) == sorted(result.history)

    def test_the_log_likelihood_decides_between_equals(self):
        """All answers are wrong, so only the log-likelihood leads to the best coefficients."""
        result = cross_entropy_method(lambda each: (0.0, self.score(each)[1]), 3)
        assert float((result.coefficients - self.WANTED).abs().max()) < 0.05

    def test_more_right_answers_are_better_than_any_log_likelihood(self):
        result = cross_entropy_method(lambda each: (float(each[0] > 0.7), -float(each[0])), 1)
        assert 0.7 < float(result.coefficients) < 0.75

    def test_candidates_begin_at_the_mean_of_the_experts_and_stay_between_0_and_1(self):
        seen = []
        cross_entropy_method(lambda each: seen.append(each) or (0.0, 0.0), 4, groups=2, rounds=2)
        assert seen[0].tolist() == [[0.25, 0.25]] * 4
        assert len(seen) == 1 + 2 * CANDIDATES
        first = torch.stack(seen[1 : 1 + CANDIDATES])
        assert float(first.min()) == 0
        assert float(first.max()) == 1
        # N(1/4, 1/2), limited to 0 .. 1: about 31 % of the numbers are 0, and 7 % are 1.
        assert 0.2 < float((first == 0).double().mean()) < 0.42
        assert 0.02 < float((first == 1).double().mean()) < 0.14

    def test_the_search_depends_on_its_seed_alone(self):
        first, again, other = (cross_entropy_method(self.score, 3, seed=seed, rounds=3) for seed in (1, 1, 2))
        assert torch.equal(first.coefficients, again.coefficients)
        assert not torch.equal(first.coefficients, other.coefficients)
