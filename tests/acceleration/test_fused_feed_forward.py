"""The fused feed-forward layer equals the plain layers, forward and backward.

Without a GPU triton interprets them, which is slow but the same arithmetic (conftest.py).
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from seq2see.acceleration.async_weight_grad import AsyncWeightGrads
from seq2see.acceleration.swaps import Conditions, accelerate
from seq2see.layers.feed_forward import ACTIVATIONS, FEED_FORWARDS

pytestmark = pytest.mark.triton
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few programs, because the interpreter runs them one after another."""
    if DEVICE == "cpu":
        monkeypatch.setattr("seq2see.acceleration.row_sums.SLICES", 4)


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu-tanh"])
@pytest.mark.parametrize("shape, hidden", [((2, 3, 5), 7), ((1, 1100, 8), 300), ((3, 40, 16), 512)])
def test_it_equals_linear_activation_linear(activation, shape, hidden):
    from seq2see.acceleration.fused_feed_forward import FeedForwardFunction

    torch.manual_seed(1)
    x, grad_output = torch.randn(shape, device=DEVICE).requires_grad_(), torch.randn(shape, device=DEVICE)
    up_proj, down_proj = nn.Linear(shape[-1], hidden).to(DEVICE), nn.Linear(hidden, shape[-1]).to(DEVICE)
    nn.init.normal_(up_proj.bias)
    inputs = [x, *up_proj.parameters(), *down_proj.parameters()]
    expected = down_proj(ACTIVATIONS[activation](up_proj(x)))
    output = FeedForwardFunction.apply(*inputs, activation, None)
    torch.testing.assert_close(output, expected, rtol=1e-4, atol=1e-5)
    expected_grads, actual = (torch.autograd.grad((each * grad_output).sum(), inputs) for each in (expected, output))
    for left, right in zip(actual, expected_grads, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-3, atol=1e-3)
    async_grads = AsyncWeightGrads(torch.device(DEVICE))
    with async_grads.activate([], dict.fromkeys(map(id, inputs[1:]))):
        (FeedForwardFunction.apply(*inputs, activation, async_grads) * grad_output).sum().backward()
    for weight, right in zip(inputs[1:], expected_grads[1:], strict=True):
        torch.testing.assert_close(async_grads.computed_grads[id(weight)], right, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu-tanh"])
def test_one_tensor_of_the_hidden_layer_is_saved(activation):
    from seq2see.acceleration.fused_feed_forward import FeedForwardFunction

    saved = []
    weights = [torch.randn(12, 4), torch.randn(12), torch.randn(4, 12), torch.randn(4)]
    inputs = [each.to(DEVICE).requires_grad_() for each in (torch.randn(2, 3, 4), *weights)]
    with torch.autograd.graph.saved_tensors_hooks(lambda each: (saved.append(each), each)[1], lambda each: each):
        FeedForwardFunction.apply(*inputs, activation, None)
    assert sum(each.shape == (6, 12) for each in saved) == 1


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu-tanh"])
def test_a_layer_runs_it_where_kernels_can_be_used(activation, monkeypatch):
    layer, vectors = FEED_FORWARDS[activation](8, 20).to(DEVICE), torch.randn(2, 3, 8, device=DEVICE)
    expected = layer(vectors)
    accelerate(layer, Conditions("cuda", True, "bf16", kernels=True))
    assert layer(vectors).grad_fn.name() != "FeedForwardFunctionBackward"  # float32, and on a CPU
    monkeypatch.setattr("seq2see.acceleration.layers.can_use_kernels", lambda vectors: True)
    output = layer(vectors)
    assert output.grad_fn.name() == "FeedForwardFunctionBackward"
    torch.testing.assert_close(output.float(), expected, rtol=0.05, atol=0.02)


@pytest.mark.usefixtures("compilable")
@needs_gpu
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu-tanh"])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_feed_forward_layer_on_a_gpu_is_close_to_that_on_a_cpu(activation, compiled):
    torch.manual_seed(1)
    layer, vectors, results = FEED_FORWARDS[activation](64, 200), torch.randn(3, 50, 64), []
    accelerate(layer, Conditions("cuda", True, "bf16", kernels=True))
    for device in ("cuda", "cpu"):
        layer, x = layer.to(device), vectors.to(device).requires_grad_()
        run = torch.compile(layer) if compiled and device == "cuda" else layer
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=device == "cuda"):
            output = run(x)
        grads = torch.autograd.grad(output.float().square().sum(), [x, *layer.parameters()])
        results.append([each.detach().float().cpu() for each in (output, *grads)])
    for actual, expected in zip(*results, strict=True):
        # In 16 bits an input may be on the other side of a kink: few gradients differ, but not their norm.
        assert float((actual - expected).norm() / expected.norm()) < 0.05
