"""Two images in one: by hand, and how much of each, by statistics."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from seq2see.core.seeds import generator
from seq2see.sequences.counter_rng import CounterRng
from seq2see.sequences.mixup import CutMix, Mixup, MixupOrCutMix, beta_quantiles

ROWS = 3000
DRAWS = CounterRng(1, 3, torch.arange(ROWS))


def plain(*levels: int, side: int = 4) -> torch.Tensor:
    """Images of one level each."""
    return torch.tensor(levels, dtype=torch.uint8).view(-1, 1, 1, 1).repeat(1, 3, side, side)


@pytest.mark.parametrize("alpha", [0.2, 0.8, 1.0, 3.0])
def test_quantiles_are_those_of_many_draws(alpha):
    found = beta_quantiles(alpha).double().numpy()
    drawn = np.sort(generator(1, "beta").beta(alpha, alpha, 400_000))
    expected = np.quantile(drawn, np.linspace(0, 1, len(found)))
    assert np.abs(found - expected)[1:-1].max() < 0.006  # the very ends are never drawn
    assert np.all(np.diff(found) >= 0)


def test_quantiles_on_paper():
    """Beta(1, 1) is uniform; Beta(1/2, 1/2) has the quantiles sin²(π p / 2)."""
    steps = torch.linspace(0, 1, 1025)
    assert_close(beta_quantiles(1.0), steps, rtol=0, atol=1e-6)
    assert_close(beta_quantiles(0.5), (math.pi / 2 * steps).sin() ** 2, rtol=0, atol=1e-5)


def test_mixed_up_by_hand():
    mixup = Mixup(1.0)
    pixels = plain(0, 100, 200)
    mixed, label_weights = mixup(pixels, CounterRng(1, 1, torch.arange(3)))
    before = torch.tensor([200.0, 0.0, 100.0])  # the one before the first is the last
    expected = label_weights * torch.tensor([0.0, 100, 200]) + (1 - label_weights) * before
    assert_close(mixed[:, 0, 0, 0].float(), expected.round())
    assert torch.equal(mixed, mixed[:, :1, :1, :1].expand_as(mixed))


@pytest.mark.parametrize("alpha", [0.2, 0.8])
def test_shares_have_the_spread_of_their_distribution(alpha):
    label_weights = Mixup(alpha).label_weights("any", DRAWS).double()
    assert abs(label_weights.mean() - 0.5) < 0.04
    assert label_weights.var().item() == pytest.approx(
        1 / (4 * (2 * alpha + 1)), rel=0.07
    )  # the variance of Beta(α, α)
    assert len(label_weights.unique()) > 0.8 * ROWS


def test_a_glued_piece_is_a_rectangle_and_counts_by_its_pixels():
    pixels = plain(10, 20, side=16).repeat(ROWS // 2, 1, 1, 1)
    mixed, label_weights = CutMix(1.0)(pixels, DRAWS)
    foreign = mixed[:, 0] != pixels[:, 0]
    assert_close(1 - foreign.float().mean((1, 2)), label_weights)
    rectangles = foreign.any(2)[:, :, None] & foreign.any(1)[:, None]
    assert torch.equal(rectangles, foreign)
    assert torch.equal(mixed[:, 0], mixed[:, 2])
    assert set(mixed.unique().tolist()) == {10, 20}


def test_a_piece_is_of_the_drawn_size_where_it_does_not_stick_out():
    pixels = plain(10, 20, side=64).repeat(ROWS // 2, 1, 1, 1)
    drawn = CutMix(1.0).label_weights("cutmix", DRAWS)
    _, label_weights = CutMix(1.0)(pixels, DRAWS)
    assert (label_weights >= drawn - 0.05).all()  # a piece that sticks out leaves more of the image its own
    whole = (DRAWS.uniform("piece", 2) - 0.5).abs().amax(1) + (1 - drawn).sqrt() / 2 < 0.5
    assert whole.sum() > 100
    assert_close(label_weights[whole], drawn[whole], rtol=0, atol=0.04)


def test_at_half_of_the_steps_one_and_at_half_the_other():
    pixels, either = plain(10, 200), MixupOrCutMix(Mixup(1.0), CutMix(1.0))
    indices = torch.arange(2)
    glued = 0
    for step in range(200):
        rng = CounterRng(1, step, indices)
        mixed, label_weights = either(pixels, rng)
        expected, its_shares = (CutMix(1.0) if set(mixed.unique().tolist()) <= {10, 200} else Mixup(1.0))(pixels, rng)
        glued += set(mixed.unique().tolist()) <= {10, 200}
        assert torch.equal(mixed, expected)
        assert torch.equal(label_weights, its_shares)
    assert 70 < glued < 130


def test_what_is_mixed_depends_on_the_step_and_the_examples_alone():
    pixels = torch.randint(0, 256, (50, 3, 6, 6), dtype=torch.uint8)
    for mix in (Mixup(0.8), CutMix(1.0)):
        rng = CounterRng(1, 1, torch.arange(50))
        once, again, later = mix(pixels, rng), mix(pixels, rng), mix(pixels, CounterRng(1, 2, torch.arange(50)))
        assert torch.equal(once[0], again[0])
        assert torch.equal(once[1], again[1])
        assert not torch.equal(once[0], later[0])
        assert once[0].dtype == torch.uint8
