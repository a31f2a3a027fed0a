"""Positions that attention is told: numbers by hand, and that only distances count."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from seq2see.core.errors import UserError
from seq2see.layers.attention import SelfAttention, attention_weights, fused_attention, leaning, plain_attention
from seq2see.layers.masks import MayLook, causal, so_far
from seq2see.layers.relative_positions import LinearBias, Rotary, places_of


def at(*times: int) -> torch.Tensor:
    return torch.tensor([times])


def test_a_quarter_turn_by_hand():
    rotary = Rotary(2)
    rotary.frequencies.fill_(math.pi / 2)
    pieces = torch.tensor([[3.0, 5.0]] * 3).view(1, 1, 3, 2)
    expected = torch.tensor([[3.0, 5.0], [-5.0, 3.0], [-3.0, -5.0]]).view(1, 1, 3, 2)
    assert_close(rotary.turn(pieces, at(0, 1, 2)), expected)


def test_the_first_pair_turns_by_one_and_the_last_slowly():
    assert_close(Rotary(8).frequencies, torch.tensor([1.0, 0.1, 0.01, 0.001]))


@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 500))
def test_a_turned_product_depends_on_the_distance_alone(query_time, key_time, shift):
    random = torch.Generator().manual_seed(1)
    query, key = torch.randn(2, 1, 1, 1, 6, generator=random, dtype=torch.float64)
    rotary = Rotary(6).double()
    here = rotary.turn(query, at(query_time)) @ rotary.turn(key, at(key_time)).mT
    there = rotary.turn(query, at(query_time + shift)) @ rotary.turn(key, at(key_time + shift)).mT
    assert_close(here, there, rtol=0, atol=1e-9)


def test_turning_keeps_lengths_and_tells_neighbours_apart():
    pieces = torch.ones(1, 2, 5, 6)
    turned = Rotary(6).turn(pieces, torch.arange(5)[None])
    assert_close(turned.norm(dim=-1), pieces.norm(dim=-1))
    assert (turned[:, :, 1:] - turned[:, :, :-1]).norm(dim=-1).min() > 0.5


def test_heads_that_cannot_be_paired_are_refused():
    with pytest.raises(UserError, match="in pairs"):
        Rotary(5)


def test_slopes_and_biases_by_hand():
    bias = LinearBias(4)
    assert bias.slopes.tolist() == [2**-2, 2**-4, 2**-6, 2**-8]
    lean = bias.lean(at(2, 3), at(0, 1, 2, 3))
    assert lean.shape == (1, 4, 2, 4)
    assert lean[0, 0].tolist() == [[-0.5, -0.25, 0.0, -0.25], [-0.75, -0.5, -0.25, 0.0]]


def test_leaning_is_plain_and_fused_alike():
    random = torch.Generator().manual_seed(2)
    queries, keys, values = torch.randn(3, 2, 4, 5, 6, generator=random)
    times = torch.arange(5)[None]
    may_look = leaning(causal(), LinearBias(4), times, times)
    assert_close(fused_attention(queries, keys, values, may_look), plain_attention(queries, keys, values, may_look))
    weights = attention_weights(torch.zeros_like(queries), keys, may_look)
    assert_close(weights[0, 0, 1, 0] / weights[0, 0, 1, 1], torch.tensor(2.0**-2).exp().reciprocal())
    assert (weights.triu(1) == 0).all()


@pytest.mark.parametrize("positions", ["rotary", "alibi"])
def test_later_times_see_the_same_if_all_stand_later(positions):
    torch.manual_seed(3)
    attention = SelfAttention(12, 2, places_of(positions, 12, 2)).eval()
    vectors = torch.randn(1, 4, 12)
    cache, late = attention.room(1, 4), attention.room(1, 9)
    times = torch.arange(4)[None]
    early = attention.step(vectors, cache, times)
    mask = so_far(times + 5, 9)
    mask = MayLook(mask.allowed & (torch.arange(9) >= 5))
    assert_close(attention.step(vectors, late, times + 5, mask), early, rtol=1e-4, atol=1e-5)


def test_words_and_what_they_mean():
    assert isinstance(places_of("rotary", 8, 2), Rotary)
    assert isinstance(places_of("alibi", 8, 2), LinearBias)
    assert places_of("sinusoidal", 8, 2) is None
