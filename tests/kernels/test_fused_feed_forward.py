"""A product and a curve behind it: the kernels give what the plain layers give, forward and backward.

Without a GPU triton interprets them, which is slow but the same arithmetic (conftest.py).
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from seq2see.kernels.async_weight_grad import AsyncWeightGrads
from seq2see.layers.feed_forward import ACTIVATIONS, FEED_FORWARDS

pytestmark = pytest.mark.triton
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interpreted one after another, programs need not be as many as keep a GPU busy."""
    if DEVICE == "cpu":
        monkeypatch.setattr("seq2see.kernels.row_sums.SLICES", 4)


@pytest.mark.parametrize("curve", ["relu", "gelu", "gelu-tanh"])
@pytest.mark.parametrize("shape, hidden", [((2, 3, 5), 7), ((1, 1100, 8), 300), ((3, 40, 16), 512)])
def test_it_is_the_plain_curve_between_the_plain_products(activation, shape, hidden):
    from seq2see.kernels.fused_feed_forward import FusedFeedForward

    torch.manual_seed(1)
    x, grad_output = torch.randn(shape, device=DEVICE).requires_grad_(), torch.randn(shape, device=DEVICE)
    up_proj, down_proj = nn.Linear(shape[-1], hidden).to(DEVICE), nn.Linear(hidden, shape[-1]).to(DEVICE)
    nn.init.normal_(up_proj.bias)
    by = [x, *up_proj.parameters(), *down_proj.parameters()]
    expected = down_proj(ACTIVATIONS[activation](up_proj(x)))
    found = FusedFeedForward.apply(*by, activation)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    theirs, actual = (torch.autograd.grad((each * grad_output).sum(), by) for each in (expected, found))
    for mine, other in zip(actual, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-3)
    async_grads = AsyncWeightGrads(torch.device(DEVICE))
    with async_grads.activate([], dict.fromkeys(map(id, by[1:]))):
        (FusedFeedForward.apply(*by, activation) * grad_output).sum().backward()
    for weight, other in zip(by[1:], theirs[1:], strict=True):
        torch.testing.assert_close(async_grads.found[id(weight)], other, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("curve", ["relu", "gelu", "gelu-tanh"])
def test_of_what_lies_between_the_products_one_thing_is_kept(activation):
    from seq2see.kernels.fused_feed_forward import FusedFeedForward

    kept = []
    weights = [torch.randn(12, 4), torch.randn(12), torch.randn(4, 12), torch.randn(4)]
    given = [each.to(DEVICE).requires_grad_() for each in (torch.randn(2, 3, 4), *weights)]
    with torch.autograd.graph.saved_tensors_hooks(lambda each: (kept.append(each), each)[1], lambda each: each):
        FusedFeedForward.apply(*given, activation)
    assert sum(each.shape == (6, 12) for each in kept) == 1


@needs_gpu
@pytest.mark.parametrize("curve", ["relu", "gelu", "gelu-tanh"])
@pytest.mark.parametrize("compiled", [False, True])
def test_thinking_on_a_gpu_is_near_that_on_a_cpu(activation, compiled):
    torch.manual_seed(1)
    think, vectors, results = FEED_FORWARDS[activation](64, 200), torch.randn(3, 50, 64), []
    for device in ("cuda", "cpu"):
        think, given = think.to(device), vectors.to(device).requires_grad_()
        run = torch.compile(think) if compiled and device == "cuda" else think
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=device == "cuda"):
            found = run(given)
        by = torch.autograd.grad(found.float().square().sum(), [given, *think.parameters()])
        results.append([each.float().cpu() for each in (found, *by)])
    for actual, theirs in zip(*results, strict=True):
        # In 16 bits a number may fall on the other side of a bend: a few slopes differ, but not all of them together.
        assert float((actual - theirs).norm() / theirs.norm()) < 0.05
