"""The kernel that judges scores says what the plain definition says.

Without a GPU triton interprets it, which is slow but the same arithmetic (conftest.py).
"""

from __future__ import annotations

import pytest
import torch

from seq2see.core.batch import IGNORE_INDEX
from seq2see.training.chunked_cross_entropy import chunked_loss, cross_entropy_in_place

pytestmark = [
    pytest.mark.triton,
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # infinities that are masked afterwards
]

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("vocab", [5, 4096, 10_007])
@pytest.mark.parametrize("smoothing, agreement", [(0.0, 0.0), (0.3, 0.0), (0.0, 2.5), (0.1, 1.3)])
@pytest.mark.parametrize("biased", [True, False])
def test_loss_and_gradient_are_those_of_the_plain_definition(vocab, label_smoothing, r_drop, biased):
    from seq2see.kernels.fused_cross_entropy import fused_cross_entropy

    torch.manual_seed(1)
    scores = 3 * torch.randn(2 if r_drop else 1, 9, vocab, device=DEVICE)
    scores[:, 0] += 300 * torch.randn(vocab, device=DEVICE)  # far apart: nothing may overflow
    bias = torch.randn(vocab, device=DEVICE) if biased else None
    labels = torch.randint(0, vocab, (9,), device=DEVICE)
    labels[[2, 8]] = IGNORE_INDEX
    expected = (scores + (bias if biased else 0)).double()
    loss = cross_entropy_in_place(expected, labels, label_smoothing, r_drop)
    found, grad = fused_cross_entropy(scores, bias, labels, label_smoothing, r_drop)
    assert float(found) == pytest.approx(float(loss), rel=1e-5)
    torch.testing.assert_close(grad.double(), expected, rtol=1e-4, atol=1e-6)
    assert not grad[:, [2, 8]].any()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("agreement", [0.0, 1.3])
def test_a_loss_in_bf16_is_near_that_of_a_cpu(r_drop):
    torch.manual_seed(1)
    hidden, weight = torch.randn(2 if r_drop else 1, 300, 64) / 8, torch.randn(5000, 64)
    labels = torch.randint(0, 5000, (300,))
    results = []
    for device in ("cpu", "cuda"):
        parts = [hidden.to(device).requires_grad_(), weight.to(device).requires_grad_()]
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=device == "cuda"):
            loss = chunked_loss(*parts, None, labels.to(device), 0.1, r_drop)
        results.append([loss, *torch.autograd.grad(loss, parts)])
    for actual, theirs in zip(*results, strict=True):
        torch.testing.assert_close(theirs.cpu(), actual, rtol=0, atol=0.02 * float(actual.detach().abs().max()))
