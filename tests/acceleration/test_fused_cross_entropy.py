"""The cross-entropy kernel equals its definition.

Without a GPU triton interprets it, which is slow but the same arithmetic (conftest.py).
"""

from __future__ import annotations

import pytest
import torch

from seq2see.acceleration.chunked_cross_entropy import ChunkedCrossEntropy, cross_entropy_in_place
from seq2see.core.batch import IGNORE_INDEX

pytestmark = [
    pytest.mark.triton,
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # infinities that are masked afterwards
]

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("vocab", [5, 4096, 10_007])
@pytest.mark.parametrize("label_smoothing, r_drop", [(0.0, 0.0), (0.3, 0.0), (0.0, 2.5), (0.1, 1.3)])
@pytest.mark.parametrize("has_bias", [True, False])
def test_loss_and_gradient_are_those_of_the_definition(vocab, label_smoothing, r_drop, has_bias):
    from seq2see.acceleration.fused_cross_entropy import fused_cross_entropy

    torch.manual_seed(1)
    logits = 3 * torch.randn(2 if r_drop else 1, 9, vocab, device=DEVICE)
    logits[:, 0] += 300 * torch.randn(vocab, device=DEVICE)  # large differences: nothing may overflow
    bias = torch.randn(vocab, device=DEVICE) if has_bias else None
    labels = torch.randint(0, vocab, (9,), device=DEVICE)
    labels[[2, 8]] = IGNORE_INDEX
    expected = (logits + (bias if has_bias else 0)).double()
    loss = cross_entropy_in_place(expected, labels, label_smoothing, r_drop)
    fused_loss, grad = fused_cross_entropy(logits, bias, labels, label_smoothing, r_drop)
    assert float(fused_loss) == pytest.approx(float(loss), rel=1e-5)
    torch.testing.assert_close(grad.double(), expected, rtol=1e-4, atol=1e-6)
    assert not grad[:, [2, 8]].any()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("r_drop", [0.0, 1.3])
def test_a_loss_in_bf16_is_near_that_of_a_cpu(r_drop):
    torch.manual_seed(1)
    hidden, weight = torch.randn(2 if r_drop else 1, 300, 64) / 8, torch.randn(5000, 64)
    labels = torch.randint(0, 5000, (300,))
    results = []
    for device in ("cpu", "cuda"):
        inputs = [hidden.to(device).requires_grad_(), weight.to(device).requires_grad_()]
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=device == "cuda"):
            loss = ChunkedCrossEntropy(kernels=device == "cuda").loss(*inputs, None, labels.to(device), 0.1, r_drop)
        results.append([loss, *torch.autograd.grad(loss, inputs)])
    for on_cpu, on_gpu in zip(*results, strict=True):
        torch.testing.assert_close(on_gpu.cpu(), on_cpu, rtol=0, atol=0.02 * float(on_cpu.detach().abs().max()))
