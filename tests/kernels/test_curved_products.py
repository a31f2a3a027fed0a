"""A product and a curve behind it: the kernels give what the plain layers give, forward and backward.

Without a GPU triton interprets them, which is slow but the same arithmetic (conftest.py).
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from seq2see.layers.feed_forward import CURVES, THINKS

pytestmark = pytest.mark.triton
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interpreted one after another, programs need not be as many as keep a GPU busy."""
    if DEVICE == "cpu":
        monkeypatch.setattr("seq2see.kernels.sums.SLICES", 4)


@pytest.mark.parametrize("curve", ["relu", "gelu", "gelu-tanh"])
@pytest.mark.parametrize("shape, hidden", [((2, 3, 5), 7), ((1, 1100, 8), 300), ((3, 40, 16), 512)])
def test_it_is_the_plain_curve_of_the_plain_product(curve, shape, hidden):
    from seq2see.kernels.curved_products import CurvedProduct

    torch.manual_seed(1)
    x, widen = torch.randn(shape, device=DEVICE).requires_grad_(), nn.Linear(shape[-1], hidden).to(DEVICE)
    nn.init.normal_(widen.bias)
    slope = torch.randn(*shape[:2], hidden, device=DEVICE)
    by = [x, widen.weight, widen.bias]
    expected = CURVES[curve](widen(x))
    found = CurvedProduct.apply(*by, curve)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    theirs, ours = (torch.autograd.grad((each * slope).sum(), by) for each in (expected, found))
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-3)


@needs_gpu
@pytest.mark.parametrize("curve", ["relu", "gelu", "gelu-tanh"])
@pytest.mark.parametrize("compiled", [False, True])
def test_thinking_on_a_gpu_is_near_that_on_a_cpu(curve, compiled):
    torch.manual_seed(1)
    think, vectors, results = THINKS[curve](64, 200), torch.randn(3, 50, 64), []
    for device in ("cuda", "cpu"):
        think, given = think.to(device), vectors.to(device).requires_grad_()
        run = torch.compile(think) if compiled and device == "cuda" else think
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=device == "cuda"):
            found = run(given)
        by = torch.autograd.grad(found.float().square().sum(), [given, *think.parameters()])
        results.append([each.float().cpu() for each in (found, *by)])
    for ours, theirs in zip(*results, strict=True):
        # In 16 bits a number may fall on the other side of a bend: a few slopes differ, but not all of them together.
        assert float((ours - theirs).norm() / theirs.norm()) < 0.05
