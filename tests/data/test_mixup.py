"""Mixup and CutMix: by hand, and the weights by statistics."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from seq2see.core.seeds import CounterRng, generator
from seq2see.data.augmentation import CutMix, Mixup, MixupOrCutMix, beta_quantiles

ROWS = 3000
RNG = CounterRng(1, 3, torch.arange(ROWS))


def plain(*levels: int, size: int = 4) -> torch.Tensor:
    """Images of one level each."""
    return torch.tensor(levels, dtype=torch.uint8).view(-1, 1, 1, 1).repeat(1, 3, size, size)


@pytest.mark.parametrize("alpha", [0.2, 0.8, 1.0, 3.0])
def test_quantiles_are_those_of_many_samples(alpha):
    found = beta_quantiles(alpha).double().numpy()
    samples = np.sort(generator(1, "beta").beta(alpha, alpha, 400_000))
    expected = np.quantile(samples, np.linspace(0, 1, len(found)))
    assert np.abs(found - expected)[1:-1].max() < 0.006  # the very ends are never sampled
    assert np.all(np.diff(found) >= 0)


def test_quantiles_on_paper():
    """Beta(1, 1) is uniform; Beta(1/2, 1/2) has the quantiles sin²(π p / 2)."""
    steps = torch.linspace(0, 1, 1025)
    assert_close(beta_quantiles(1.0), steps, rtol=0, atol=1e-6)
    assert_close(beta_quantiles(0.5), (math.pi / 2 * steps).sin() ** 2, rtol=0, atol=1e-5)


def test_mixup_by_hand():
    mixup = Mixup(1.0)
    pixels = plain(0, 100, 200)
    mixed, label_weights = mixup(pixels, CounterRng(1, 1, torch.arange(3)))
    previous = torch.tensor([200.0, 0.0, 100.0])  # the one before the first is the last
    expected = label_weights * torch.tensor([0.0, 100, 200]) + (1 - label_weights) * previous
    assert_close(mixed[:, 0, 0, 0].float(), expected.round())
    assert torch.equal(mixed, mixed[:, :1, :1, :1].expand_as(mixed))


@pytest.mark.parametrize("alpha", [0.2, 0.8])
def test_weights_have_the_variance_of_their_distribution(alpha):
    label_weights = Mixup(alpha).label_weights("any", RNG).double()
    assert abs(label_weights.mean() - 0.5) < 0.04
    variance = 1 / (4 * (2 * alpha + 1))  # of Beta(α, α)
    assert label_weights.var().item() == pytest.approx(variance, rel=0.07)
    assert len(label_weights.unique()) > 0.8 * ROWS


def test_a_pasted_patch_is_a_rectangle_and_counts_by_its_pixels():
    pixels = plain(10, 20, size=16).repeat(ROWS // 2, 1, 1, 1)
    mixed, label_weights = CutMix(1.0)(pixels, RNG)
    foreign = mixed[:, 0] != pixels[:, 0]
    assert_close(1 - foreign.float().mean((1, 2)), label_weights)
    rectangles = foreign.any(2)[:, :, None] & foreign.any(1)[:, None]
    assert torch.equal(rectangles, foreign)
    assert torch.equal(mixed[:, 0], mixed[:, 2])
    assert set(mixed.unique().tolist()) == {10, 20}


def test_a_patch_has_the_sampled_size_unless_it_is_clipped():
    pixels = plain(10, 20, size=64).repeat(ROWS // 2, 1, 1, 1)
    sampled = CutMix(1.0).label_weights("cutmix", RNG)
    _, label_weights = CutMix(1.0)(pixels, RNG)
    assert (label_weights >= sampled - 0.05).all()  # a patch that is clipped leaves more of the image
    inside = (RNG.uniform("piece", 2) - 0.5).abs().amax(1) + (1 - sampled).sqrt() / 2 < 0.5
    assert inside.sum() > 100
    assert_close(label_weights[inside], sampled[inside], rtol=0, atol=0.04)


def test_half_of_the_steps_use_mixup_and_half_of_them_cutmix():
    pixels, either = plain(10, 200), MixupOrCutMix(Mixup(1.0), CutMix(1.0))
    indices = torch.arange(2)
    cutmix_steps = 0
    for step in range(200):
        rng = CounterRng(1, step, indices)
        mixed, label_weights = either(pixels, rng)
        is_cutmix = set(mixed.unique().tolist()) <= {10, 200}
        expected, expected_weights = (CutMix(1.0) if is_cutmix else Mixup(1.0))(pixels, rng)
        cutmix_steps += is_cutmix
        assert torch.equal(mixed, expected)
        assert torch.equal(label_weights, expected_weights)
    assert 70 < cutmix_steps < 130


def test_mixtures_depend_on_the_step_and_the_examples_alone():
    pixels = torch.randint(0, 256, (50, 3, 6, 6), dtype=torch.uint8)
    for mix in (Mixup(0.8), CutMix(1.0)):
        rng = CounterRng(1, 1, torch.arange(50))
        once, again, later = mix(pixels, rng), mix(pixels, rng), mix(pixels, CounterRng(1, 2, torch.arange(50)))
        assert torch.equal(once[0], again[0])
        assert torch.equal(once[1], again[1])
        assert not torch.equal(once[0], later[0])
        assert once[0].dtype == torch.uint8
