"""Positions that attention is told: numbers by hand, and that only distances count."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from seq2see.core.errors import UserError
from seq2see.layers.attention import (
    GroupedSelfAttention,
    SelfAttention,
    attention_weights,
    eager_attention,
    fused_attention,
    split_heads,
    with_attention_bias,
)
from seq2see.layers.masks import AttentionMask, cache_mask, causal_mask
from seq2see.layers.relative_positions import (
    AlibiPositions,
    RotaryFunction,
    RotaryPositions,
    build_relative_positions,
    rotate_half_pairs,
)


def at(*position_ids: int) -> torch.Tensor:
    return torch.tensor([position_ids])


def test_a_quarter_turn_by_hand():
    rotary = RotaryPositions(2)
    rotary.frequencies.fill_(math.pi / 2)
    head_vectors = torch.tensor([[3.0, 5.0]] * 3).view(1, 1, 3, 2)
    expected = torch.tensor([[3.0, 5.0], [-5.0, 3.0], [-3.0, -5.0]]).view(1, 1, 3, 2)
    assert_close(rotary.rotate(head_vectors, at(0, 1, 2)), expected)


def test_the_first_pair_turns_by_one_and_the_last_slowly():
    assert_close(RotaryPositions(8).frequencies, torch.tensor([1.0, 0.1, 0.01, 0.001]))


@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 500))
def test_a_turned_product_depends_on_the_distance_alone(query_time, key_time, shift):
    random = torch.Generator().manual_seed(1)
    query, key = torch.randn(2, 1, 1, 1, 6, generator=random, dtype=torch.float64)
    rotary = RotaryPositions(6).double()
    here = rotary.rotate(query, at(query_time)) @ rotary.rotate(key, at(key_time)).mT
    there = rotary.rotate(query, at(query_time + shift)) @ rotary.rotate(key, at(key_time + shift)).mT
    assert_close(here, there, rtol=0, atol=1e-9)


def test_turning_keeps_lengths_and_tells_neighbors_apart():
    head_vectors = torch.ones(1, 2, 5, 6)
    turned = RotaryPositions(6).rotate(head_vectors, torch.arange(5)[None])
    assert_close(turned.norm(dim=-1), head_vectors.norm(dim=-1))
    assert (turned[:, :, 1:] - turned[:, :, :-1]).norm(dim=-1).min() > 0.5


def angles_of(*position_ids: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    angles = at(*position_ids)[:, None, :, None] * RotaryPositions(6).frequencies
    return angles.cos().to(dtype), angles.sin().to(dtype)


def of_one_product(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Pieces as they come out of a product: only a part of what lies in a line, and heads beside each other."""
    random = torch.Generator().manual_seed(4)
    return torch.randn(2, 3, 40, generator=random).to(dtype)[..., :30].unflatten(-1, (5, 6)).transpose(1, 2)


def test_what_runs_is_the_plain_turn_forward_and_backward():
    head_vectors, angles = of_one_product().requires_grad_(), angles_of(0, 7, 500)
    grad_output = torch.randn(2, 5, 3, 6)
    plain, quick = rotate_half_pairs(head_vectors, *angles), RotaryFunction.apply(head_vectors, *angles, 1.0)
    assert_close(quick, plain, rtol=1e-6, atol=1e-6)
    by_plain, by_quick = (torch.autograd.grad(found, head_vectors, grad_output)[0] for found in (plain, quick))
    assert_close(by_quick, by_plain, rtol=1e-6, atol=1e-6)
    assert_close(RotaryFunction.apply(quick, *angles, -1.0), head_vectors)
    exact = of_one_product(torch.float64).requires_grad_()
    given = [exact, *angles_of(0, 7, 500, dtype=torch.float64), 1.0]
    assert torch.autograd.gradcheck(RotaryFunction.apply, given)
    assert torch.autograd.gradgradcheck(RotaryFunction.apply, given)


def test_turned_pieces_lie_in_memory_as_they_did():
    turned = RotaryPositions(6).rotate(of_one_product(), at(0, 1, 2))
    assert turned.transpose(1, 2).is_contiguous()  # to put heads side by side again costs nothing


def test_in_16_bits_it_is_no_less_exact_than_the_plain_turn():
    head_vectors, angles = of_one_product(torch.bfloat16), angles_of(3, 50, 500, dtype=torch.bfloat16)
    exact = rotate_half_pairs(head_vectors.double(), *(each.double() for each in angles))
    plain, quick = (
        (found - exact).abs()
        for found in (rotate_half_pairs(head_vectors, *angles), RotaryFunction.apply(head_vectors, *angles, 1.0))
    )
    assert quick.dtype == torch.float64
    assert quick.mean() <= plain.mean()
    assert quick.max() <= plain.max()


def test_what_is_compiled_turns_alike(monkeypatch):
    head_vectors, position_ids = of_one_product(), at(0, 7, 500)
    before = RotaryPositions(6).rotate(head_vectors, position_ids)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    monkeypatch.setattr(RotaryFunction, "apply", None)  # not called
    assert_close(RotaryPositions(6).rotate(head_vectors, position_ids), before, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("key_heads", [4, 2])
def test_queries_and_keys_are_turned_and_values_are_not(kv_heads):
    torch.manual_seed(5)
    places, vectors, position_ids = RotaryPositions(6), torch.randn(2, 5, 24), torch.arange(5)[None]
    attention = GroupedSelfAttention(24, 4, kv_heads, places) if kv_heads < 4 else SelfAttention(24, 4, places)
    together = attention.qkv_proj(vectors)
    queries, keys, values = (split_heads(each, each.size(-1) // 6)
                             for each in together.split((24, 6 * kv_heads, 6 * kv_heads), dim=-1))  # fmt: skip
    angles = position_ids[:, None, :, None] * places.frequencies
    turned = [rotate_half_pairs(each, angles.cos(), angles.sin()) for each in (queries, keys)]
    for mine, expected in zip(
        found := attention.turned(places, together, position_ids), [*turned, values], strict=True
    ):
        assert_close(mine, expected, rtol=1e-6, atol=1e-6)
    steps = [each.stride() for each in found[:2]]  # from row to row, head to head, time to time, number to number
    assert steps == [(5 * 6 * (4 + kv_heads), 6, 6 * (4 + kv_heads), 1)] * 2  # side by side, as they came
    seen = []
    attention.hook = seen.append
    attention(vectors, causal_mask())
    assert_close(seen[0].queries, turned[0], rtol=1e-6, atol=1e-6)


def test_a_layer_turns_in_few_walks():
    """On a GPU each of them is a kernel: what is large is multiplied twice and added to four times, there and back."""
    attention, vectors = SelfAttention(24, 4, RotaryPositions(6)), torch.randn(2, 5, 24)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        attention(vectors, causal_mask()).sum().backward()
    called = Counter(event.name for event in profiler.events())
    counted = {name: called[f"aten::{name}"] for name in ("mul", "addcmul_", "cos", "sin", "neg", "sub", "cat")}
    # One product of times and frequencies; of the two cats one belongs to queries, keys and values of any layer.
    assert counted == {"mul": 3, "addcmul_": 4, "cos": 1, "sin": 1, "neg": 0, "sub": 0, "cat": 2}


def test_heads_that_cannot_be_paired_are_refused():
    with pytest.raises(UserError, match="in pairs"):
        RotaryPositions(5)


def test_slopes_and_biases_by_hand():
    bias = AlibiPositions(4)
    assert bias.slopes.tolist() == [2**-2, 2**-4, 2**-6, 2**-8]
    attention_bias = bias.attention_bias(at(2, 3), at(0, 1, 2, 3))
    assert attention_bias.shape == (1, 4, 2, 4)
    assert attention_bias[0, 0].tolist() == [[-0.5, -0.25, 0.0, -0.25], [-0.75, -0.5, -0.25, 0.0]]


def test_leaning_is_plain_and_fused_alike():
    random = torch.Generator().manual_seed(2)
    queries, keys, values = torch.randn(3, 2, 4, 5, 6, generator=random)
    position_ids = torch.arange(5)[None]
    attention_mask = with_attention_bias(causal_mask(), AlibiPositions(4), position_ids, position_ids)
    assert_close(
        fused_attention(queries, keys, values, attention_mask), eager_attention(queries, keys, values, attention_mask)
    )
    weights = attention_weights(torch.zeros_like(queries), keys, attention_mask)
    assert_close(weights[0, 0, 1, 0] / weights[0, 0, 1, 1], torch.tensor(2.0**-2).exp().reciprocal())
    assert (weights.triu(1) == 0).all()


@pytest.mark.parametrize("positions", ["rotary", "alibi"])
def test_who_looks_at_all_times_at_once_is_told_what_who_steps_is_told(positions):
    attention = SelfAttention(12, 2, build_relative_positions(positions, 12, 2))
    vectors, cache = torch.randn(3, 4, 12), attention.empty_cache(3, 4)
    whole = attention(vectors, causal_mask())
    steps = [attention.step(vectors[:, time : time + 1], cache, torch.full((3, 1), time)) for time in range(4)]
    assert_close(torch.cat(steps, dim=1), whole)
    attention.relative_positions = None
    assert not torch.allclose(attention(vectors, causal_mask()), whole, atol=1e-3)


@pytest.mark.parametrize("positions", ["rotary", "alibi"])
def test_later_times_see_the_same_if_all_stand_later(positions):
    torch.manual_seed(3)
    attention = SelfAttention(12, 2, build_relative_positions(positions, 12, 2)).eval()
    vectors = torch.randn(1, 4, 12)
    cache, late = attention.empty_cache(1, 4), attention.empty_cache(1, 9)
    position_ids = torch.arange(4)[None]
    early = attention.step(vectors, cache, position_ids)
    mask = cache_mask(position_ids + 5, 9)
    mask = AttentionMask(mask.mask & (torch.arange(9) >= 5))
    assert_close(attention.step(vectors, late, position_ids + 5, mask), early, rtol=1e-4, atol=1e-5)


def test_words_and_what_they_mean():
    assert isinstance(build_relative_positions("rotary", 8, 2), RotaryPositions)
    assert isinstance(build_relative_positions("alibi", 8, 2), AlibiPositions)
    assert build_relative_positions("sinusoidal", 8, 2) is None
