"""Feed-forward layers, by hand."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from torch.testing import assert_close

from seq2see.acceleration.layers import SwiGLUFunction
from seq2see.layers.feed_forward import (
    FEED_FORWARDS,
    FeedForward,
    GatedFeedForward,
    GeluFeedForward,
    GeluTanhFeedForward,
    swiglu,
)
from ways import both_ways, fast


def test_feed_forward_by_hand():
    layer = FeedForward(width=1, hidden=2)
    with torch.no_grad():
        layer.up_proj.weight.copy_(torch.tensor([[1.0], [-2.0]]))
        layer.up_proj.bias.copy_(torch.tensor([1.0, 0.0]))
        layer.down_proj.weight.copy_(torch.tensor([[10.0, 100.0]]))
        layer.down_proj.bias.copy_(torch.tensor([0.5]))
    vectors = torch.tensor([2.0, -3.0]).view(1, 2, 1)
    # 2: (3, -4) → (3, 0) → 30.5;  -3: (-2, 6) → (0, 6) → 600.5
    assert layer(vectors).flatten().tolist() == [30.5, 600.5]


def test_exact_gelu_by_hand():
    layer = GeluFeedForward(width=1, hidden=1)
    with torch.no_grad():
        layer.up_proj.weight.fill_(1)
        layer.down_proj.weight.fill_(1)
        layer.up_proj.bias.zero_()
        layer.down_proj.bias.fill_(0.5)
    cdf = 0.5 * (1 + math.erf(2 / math.sqrt(2)))  # the normal distribution function at 2
    expected = torch.tensor([2 * cdf + 0.5, 0.5], dtype=torch.float64)
    assert_close(layer.double()(torch.tensor([2.0, 0.0]).double().view(1, 2, 1)).flatten(), expected)


def test_gelu_by_hand():
    layer = GeluTanhFeedForward(width=1, hidden=1)
    with torch.no_grad():
        layer.up_proj.weight.fill_(1)
        layer.down_proj.weight.fill_(1)
        layer.up_proj.bias.zero_()
        layer.down_proj.bias.fill_(0.5)
    inner = math.sqrt(2 / math.pi) * (2 + 0.044715 * 8)
    expected = torch.tensor([2 / 2 * (1 + math.tanh(inner)) + 0.5, 0.5])
    assert_close(layer(torch.tensor([2.0, 0.0]).view(1, 2, 1)).flatten(), expected)


def test_swiglu_by_hand():
    layer = GatedFeedForward(width=1, hidden=1)
    with torch.no_grad():
        layer.up_proj.weight.copy_(torch.tensor([[1.0], [3.0]]))  # the gate, then the values
        layer.down_proj.weight.fill_(10)
    silu = 2 / (1 + math.exp(-2))
    assert_close(layer(torch.tensor(2.0).view(1, 1, 1)).flatten(), torch.tensor([10 * silu * 6]))
    assert not [name for name, _ in layer.named_parameters() if "bias" in name]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_autograd_function_is_swiglu_forward_and_backward(dtype):
    random = torch.Generator().manual_seed(1)
    projected = (3 * torch.randn(2, 3, 10, generator=random)).to(dtype).requires_grad_()
    grad_output = torch.randn(2, 3, 5, generator=random).to(dtype)
    expected, output = swiglu(projected), SwiGLUFunction.apply(projected)
    assert torch.equal(output, expected)
    expected_grad, grad = (torch.autograd.grad(each, projected, grad_output)[0] for each in (expected, output))
    assert torch.equal(grad, expected_grad)


def test_compiled_code_has_the_same_gate(monkeypatch):
    layer, vectors = fast(GatedFeedForward(3, 7)), torch.randn(2, 2, 3)
    before = layer(vectors)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    monkeypatch.setattr(SwiGLUFunction, "apply", None)  # not called
    assert torch.equal(layer(vectors), before)


def test_gradients_of_a_gate_are_not_concatenated():
    layer, vectors = fast(GatedFeedForward(3, 7)), torch.randn(2, 2, 3)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        layer(vectors).sum().backward()
    called = Counter(event.name.removeprefix("aten::") for event in profiler.events())
    assert [called[name] for name in ("silu", "mul", "silu_backward", "cat")] == [1, 3, 1, 0]


@both_ways
@pytest.mark.parametrize("name", FEED_FORWARDS)
def test_each_position_is_transformed_by_itself(way, name):
    layer, vectors = way(FEED_FORWARDS[name](5, 11)), torch.randn(2, 3, 5)
    for row in range(2):
        for time in range(3):
            alone = layer(vectors[row : row + 1, time : time + 1])
            assert_close(layer(vectors)[row : row + 1, time : time + 1], alone)


@both_ways
@pytest.mark.parametrize("name", FEED_FORWARDS)
def test_gradients_are_those_of_finite_differences(way, name):
    layer = way(FEED_FORWARDS[name](3, 7).double())
    vectors = torch.randn(2, 2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, [vectors])
