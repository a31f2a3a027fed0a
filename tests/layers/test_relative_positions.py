"""Relative positions: numbers by hand, and that only distances count."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from seq2see.acceleration.attention import fused_attention
from seq2see.acceleration.layers import RotaryFunction
from seq2see.core.errors import UserError
from seq2see.layers.attention import (
    GroupedSelfAttention,
    SelfAttention,
    attention_weights,
    eager_attention,
    split_heads,
    with_attention_bias,
)
from seq2see.layers.masks import AttentionMask, cache_mask, causal_mask
from seq2see.layers.positions import (
    AlibiPositions,
    RotaryPositions,
    build_relative_positions,
    rotate_half_pairs,
)
from ways import both_ways, fast


def positions_of(*position_ids: int) -> torch.Tensor:
    return torch.tensor([position_ids])


def test_a_rotation_by_a_right_angle_by_hand():
    rotary = RotaryPositions(2)
    rotary.frequencies.fill_(math.pi / 2)
    head_vectors = torch.tensor([[3.0, 5.0]] * 3).view(1, 1, 3, 2)
    expected = torch.tensor([[3.0, 5.0], [-5.0, 3.0], [-3.0, -5.0]]).view(1, 1, 3, 2)
    assert_close(rotary.rotate(head_vectors, positions_of(0, 1, 2)), expected)


def test_the_frequencies_go_from_one_to_slow():
    assert_close(RotaryPositions(8).frequencies, torch.tensor([1.0, 0.1, 0.01, 0.001]))


@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 500))
def test_a_rotated_dot_product_depends_on_the_distance_alone(query_time, key_time, shift):
    random = torch.Generator().manual_seed(1)
    query, key = torch.randn(2, 1, 1, 1, 6, generator=random, dtype=torch.float64)
    rotary = RotaryPositions(6).double()
    score = rotary.rotate(query, positions_of(query_time)) @ rotary.rotate(key, positions_of(key_time)).mT
    shifted_score = (
        rotary.rotate(query, positions_of(query_time + shift)) @ rotary.rotate(key, positions_of(key_time + shift)).mT
    )
    assert_close(score, shifted_score, rtol=0, atol=1e-9)


def test_rotation_keeps_norms_and_distinguishes_adjacent_positions():
    head_vectors = torch.ones(1, 2, 5, 6)
    rotated = RotaryPositions(6).rotate(head_vectors, torch.arange(5)[None])
    assert_close(rotated.norm(dim=-1), head_vectors.norm(dim=-1))
    assert (rotated[:, :, 1:] - rotated[:, :, :-1]).norm(dim=-1).min() > 0.5


def cosines_and_sines(*position_ids: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    angles = positions_of(*position_ids)[:, None, :, None] * RotaryPositions(6).frequencies
    return angles.cos().to(dtype), angles.sin().to(dtype)


def heads_of_a_projection(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Heads as a projection returns them: a slice of a wider tensor, with adjacent heads."""
    random = torch.Generator().manual_seed(4)
    return torch.randn(2, 3, 40, generator=random).to(dtype)[..., :30].unflatten(-1, (5, 6)).transpose(1, 2)


def test_the_autograd_function_is_the_definition_forward_and_backward():
    head_vectors, angles = heads_of_a_projection().requires_grad_(), cosines_and_sines(0, 7, 500)
    grad_output = torch.randn(2, 5, 3, 6)
    expected, output = rotate_half_pairs(head_vectors, *angles), RotaryFunction.apply(head_vectors, *angles, 1.0)
    assert_close(output, expected, rtol=1e-6, atol=1e-6)
    expected_grad, grad = (torch.autograd.grad(outputs, head_vectors, grad_output)[0] for outputs in (expected, output))
    assert_close(grad, expected_grad, rtol=1e-6, atol=1e-6)
    assert_close(RotaryFunction.apply(output, *angles, -1.0), head_vectors)
    exact = heads_of_a_projection(torch.float64).requires_grad_()
    inputs = [exact, *cosines_and_sines(0, 7, 500, dtype=torch.float64), 1.0]
    assert torch.autograd.gradcheck(RotaryFunction.apply, inputs)
    assert torch.autograd.gradgradcheck(RotaryFunction.apply, inputs)


def test_rotated_heads_keep_their_memory_layout():
    rotated = fast(RotaryPositions(6)).rotate(heads_of_a_projection(), positions_of(0, 1, 2))
    assert rotated.transpose(1, 2).is_contiguous()  # so merging the heads needs no copy


def test_in_16_bits_it_is_no_less_exact_than_the_definition():
    head_vectors, angles = heads_of_a_projection(torch.bfloat16), cosines_and_sines(3, 50, 500, dtype=torch.bfloat16)
    exact = rotate_half_pairs(head_vectors.double(), *(each.double() for each in angles))
    expected, output = (
        (outputs - exact).abs()
        for outputs in (rotate_half_pairs(head_vectors, *angles), RotaryFunction.apply(head_vectors, *angles, 1.0))
    )
    assert output.dtype == torch.float64
    assert output.mean() <= expected.mean()
    assert output.max() <= expected.max()


def test_compiled_code_rotates_by_the_definition(monkeypatch):
    head_vectors, position_ids = heads_of_a_projection(), positions_of(0, 7, 500)
    rotary = fast(RotaryPositions(6))
    before = rotary.rotate(head_vectors, position_ids)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    monkeypatch.setattr(RotaryFunction, "apply", None)  # not called
    assert_close(rotary.rotate(head_vectors, position_ids), before, rtol=1e-6, atol=1e-6)


@both_ways
@pytest.mark.parametrize("kv_heads", [4, 2])
def test_queries_and_keys_are_rotated_and_values_are_not(kv_heads, way):
    torch.manual_seed(5)
    relative_positions, vectors, position_ids = RotaryPositions(6), torch.randn(2, 5, 24), torch.arange(5)[None]
    attention = (
        GroupedSelfAttention(24, 4, kv_heads, relative_positions)
        if kv_heads < 4
        else SelfAttention(24, 4, relative_positions)
    )
    qkv = way(attention).qkv_proj(vectors)
    queries, keys, values = (split_heads(each, each.size(-1) // 6)
                             for each in qkv.split((24, 6 * kv_heads, 6 * kv_heads), dim=-1))  # fmt: skip
    angles = position_ids[:, None, :, None] * relative_positions.frequencies
    rotated = [rotate_half_pairs(each, angles.cos(), angles.sin()) for each in (queries, keys)]
    if way is fast:
        for actual, expected in zip(
            outputs := attention.project_and_rotate(qkv, position_ids), [*rotated, values], strict=True
        ):
            assert_close(actual, expected, rtol=1e-6, atol=1e-6)
        strides = [each.stride() for each in outputs[:2]]  # of rows, heads, positions and numbers
        assert strides == [(5 * 6 * (4 + kv_heads), 6, 6 * (4 + kv_heads), 1)] * 2  # adjacent, as in the projection
    records = []
    attention.hook = records.append
    attention(vectors, causal_mask())
    repeated = [each.repeat_interleave(4 // kv_heads, dim=1) for each in (rotated[1], values)]
    for actual, expected in zip(
        (records[0].queries, records[0].keys, records[0].values), (rotated[0], *repeated), strict=True
    ):
        assert_close(actual, expected, rtol=1e-6, atol=1e-6)


def test_a_layer_rotates_in_few_operations():
    """On a GPU each is a kernel: two products and four sums of large tensors, in both passes together."""
    attention, vectors = fast(SelfAttention(24, 4, RotaryPositions(6))), torch.randn(2, 5, 24)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        attention(vectors, causal_mask()).sum().backward()
    calls = Counter(event.name for event in profiler.events())
    counts = {name: calls[f"aten::{name}"] for name in ("mul", "addcmul_", "cos", "sin", "neg", "sub", "cat")}
    # One product is positions times frequencies; one of the two cats is in the backward pass of any projection.
    assert counts == {"mul": 3, "addcmul_": 4, "cos": 1, "sin": 1, "neg": 0, "sub": 0, "cat": 2}


def test_an_odd_head_size_is_refused():
    with pytest.raises(UserError, match="head size 5 is odd"):
        RotaryPositions(5)


def test_slopes_and_biases_by_hand():
    bias = AlibiPositions(4)
    assert bias.slopes.tolist() == [2**-2, 2**-4, 2**-6, 2**-8]
    attention_bias = bias.attention_bias(positions_of(2, 3), positions_of(0, 1, 2, 3))
    assert attention_bias.shape == (1, 4, 2, 4)
    assert attention_bias[0, 0].tolist() == [[-0.5, -0.25, 0.0, -0.25], [-0.75, -0.5, -0.25, 0.0]]


def test_an_attention_bias_is_equal_in_eager_and_fused_attention():
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


@both_ways
@pytest.mark.parametrize("positions", ["rotary", "alibi"])
def test_the_forward_pass_and_the_steps_have_the_same_positions(positions, way):
    attention = way(SelfAttention(12, 2, build_relative_positions(positions, 12, 2)))
    vectors, cache = torch.randn(3, 4, 12), attention.empty_cache(3, 4)
    expected = attention(vectors, causal_mask())
    steps = [attention.step(vectors[:, time : time + 1], cache, torch.full((3, 1), time)) for time in range(4)]
    assert_close(torch.cat(steps, dim=1), expected)
    attention.relative_positions = None
    assert not torch.allclose(attention(vectors, causal_mask()), expected, atol=1e-3)


@pytest.mark.parametrize("positions", ["rotary", "alibi"])
def test_only_distances_count_in_a_cache(positions):
    torch.manual_seed(3)
    attention = SelfAttention(12, 2, build_relative_positions(positions, 12, 2)).eval()
    vectors = torch.randn(1, 4, 12)
    cache, longer_cache = attention.empty_cache(1, 4), attention.empty_cache(1, 9)
    position_ids = torch.arange(4)[None]
    expected = attention.step(vectors, cache, position_ids)
    mask = cache_mask(position_ids + 5, 9)
    mask = AttentionMask(mask.mask & (torch.arange(9) >= 5))
    assert_close(attention.step(vectors, longer_cache, position_ids + 5, mask), expected, rtol=1e-4, atol=1e-5)


def test_names_and_their_classes():
    assert isinstance(build_relative_positions("rotary", 8, 2), RotaryPositions)
    assert isinstance(build_relative_positions("alibi", 8, 2), AlibiPositions)
    assert build_relative_positions("sinusoidal", 8, 2) is None
