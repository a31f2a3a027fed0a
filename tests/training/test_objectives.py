"""The next-token loss: by hand, in ten lines of numpy, and only where something is asked."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import nn
from torch.testing import assert_close

from seq2see.core.batch import NOT_ASKED, Sequences
from seq2see.training.objectives import NextToken, plain_cross_entropy

# Softmax of (0, ln 3) is (1/4, 3/4).
LOGITS = torch.tensor([[0.0, math.log(3)]])


def through(logits: torch.Tensor, labels: torch.Tensor, smoothing: float = 0.0) -> torch.Tensor:
    """The loss of a model whose hidden states already are its logits."""
    lengths = torch.full((len(labels),), labels.size(1))
    return NextToken(smoothing=smoothing).loss(Sequences(logits, lengths), nn.Identity(), labels)


def in_numpy(logits: np.ndarray, labels: np.ndarray, smoothing: float) -> float:
    """The definition, with loops."""
    total, size = 0.0, logits.shape[-1]
    for scores, label in zip(logits.reshape(-1, size), labels.reshape(-1), strict=True):
        if label == NOT_ASKED:
            continue
        chances = np.exp(scores) / np.exp(scores).sum()
        answer = np.full(size, smoothing / size)
        answer[label] += 1 - smoothing
        total -= float((answer * np.log(chances)).sum())
    return total


def test_cross_entropy_by_hand():
    assert float(plain_cross_entropy(LOGITS, torch.tensor([1]), 0.0)) == pytest.approx(-math.log(3 / 4))
    assert float(plain_cross_entropy(LOGITS, torch.tensor([0]), 0.0)) == pytest.approx(math.log(4))


def test_a_smoothed_answer_by_hand():
    # 0.2 spread over two tokens: 0.9 on the truth, 0.1 on the other.
    expected = -(0.9 * math.log(3 / 4) + 0.1 * math.log(1 / 4))
    assert float(plain_cross_entropy(LOGITS, torch.tensor([1]), 0.2)) == pytest.approx(expected)
    assert float(through(LOGITS[:, None], torch.tensor([[1]]), 0.2)) == pytest.approx(expected)


@given(st.integers(1, 4), st.integers(1, 5), st.integers(2, 9), st.integers(0, 999), st.floats(0, 0.9))
def test_the_loss_equals_the_plain_one_and_numpys(rows, times, size, seed, smoothing):
    random = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(rows, times, size, generator=random)
    labels = torch.randint(0, size, (rows, times), generator=random)
    labels[torch.rand(rows, times, generator=random) < 0.3] = NOT_ASKED
    loss = float(through(logits, labels, smoothing))
    assert loss == pytest.approx(in_numpy(logits.double().numpy(), labels.numpy(), smoothing), rel=1e-5, abs=1e-5)
    asked = labels != NOT_ASKED
    plain = plain_cross_entropy(logits[asked].double(), labels[asked], smoothing)
    assert loss == pytest.approx(float(plain), rel=1e-5, abs=1e-5)


def test_without_smoothing_it_is_cross_entropy_and_a_sum():
    logits, labels = torch.randn(3, 4, 5), torch.randint(0, 5, (3, 4))
    expected = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
    assert_close(through(logits, labels), expected)
    by_row = [through(logits[row : row + 1], labels[row : row + 1]) for row in range(3)]
    assert_close(through(logits, labels), sum(by_row))


def test_where_nothing_is_asked_nothing_counts_and_nothing_is_learnt():
    logits = torch.randn(2, 3, 5)
    labels = torch.tensor([[1, 2, NOT_ASKED], [3, NOT_ASKED, NOT_ASKED]])
    clean = through(logits, labels)
    spoilt = logits.masked_fill((labels == NOT_ASKED)[..., None], float("nan")).requires_grad_()
    loss = through(spoilt, labels)
    assert torch.equal(loss, clean)
    loss.backward()
    assert spoilt.grad[labels == NOT_ASKED].count_nonzero() == 0
    assert (spoilt.grad[labels != NOT_ASKED] != 0).all()
    nothing = through(logits, torch.full_like(labels, NOT_ASKED))
    assert float(nothing) == 0.0


def test_the_head_is_applied_only_where_something_is_asked():
    seen, labels = [], torch.tensor([[1, NOT_ASKED, 0]])

    class Watched(nn.Linear):
        def forward(self, hidden):
            seen.append(hidden.shape)
            return super().forward(hidden)

    NextToken().loss(Sequences(torch.randn(1, 3, 4), torch.tensor([3])), Watched(4, 5), labels)
    assert seen == [(2, 4)]


def test_a_loss_of_half_precision_logits_is_summed_in_full():
    logits, labels = torch.randn(1, 2000, 7).bfloat16(), torch.randint(0, 7, (1, 2000))
    loss = through(logits, labels)
    assert loss.dtype == torch.float32
    assert float(loss) == pytest.approx(float(through(logits.float(), labels)), rel=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_gradients_are_those_of_finite_differences(smoothing):
    logits = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0, 4, 2, 2])
    assert torch.autograd.gradcheck(lambda scores: plain_cross_entropy(scores, labels, smoothing), [logits])


def test_smoothing_must_leave_something_of_the_truth():
    with pytest.raises(ValidationError):
        NextToken(smoothing=1.0)
