"""The next-token loss: by hand, in ten lines of numpy, only where there are labels, and with R-Drop."""

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

from seq2see.acceleration import chunked_cross_entropy
from seq2see.acceleration.chunked_cross_entropy import ChunkedCrossEntropy, cross_entropy_in_place, select_labeled
from seq2see.core.batch import IGNORE_INDEX, Sequences
from seq2see.models.embeddings_and_heads import PreTrainingHead, TiedHead, UntiedHead, UntiedNoBiasHead
from seq2see.training.objectives import (
    CrossEntropy,
    MaskedToken,
    MaskedTokenNextSentence,
    NextToken,
    cross_entropy,
    r_drop_loss,
    repeat_for_r_drop,
)
from tiny_models import pairs

WAYS = [CrossEntropy(), ChunkedCrossEntropy()]
"""The definition, and what training runs."""


def summed(*inputs):
    """The definition, summed over the tokens."""
    return cross_entropy(*inputs).sum()


# Softmax of (0, ln 3) is (1/4, 3/4).
LOGITS = torch.tensor([[0.0, math.log(3)]])


def sequences(values: torch.Tensor) -> Sequences:
    return Sequences(values, torch.full((len(values),), values.size(1)))


def through(logits: torch.Tensor, labels: torch.Tensor, **settings: float) -> torch.Tensor:
    """The loss of a model whose hidden states already are its logits: each token's vector is a unit vector."""
    head = TiedHead(nn.Embedding.from_pretrained(torch.eye(logits.size(-1), dtype=logits.dtype), freeze=True))
    plain, fast = (NextToken(**settings).loss(sequences(logits), head, labels, way) for way in WAYS)
    assert_close(fast, plain, rtol=1e-4, atol=1e-4)
    return plain


def in_numpy(logits: np.ndarray, labels: np.ndarray, label_smoothing: float) -> float:
    """The definition, with loops."""
    total, size = 0.0, logits.shape[-1]
    for scores, label in zip(logits.reshape(-1, size), labels.reshape(-1), strict=True):
        if label == IGNORE_INDEX:
            continue
        probabilities = np.exp(scores) / np.exp(scores).sum()
        target = np.full(size, label_smoothing / size)
        target[label] += 1 - label_smoothing
        total -= float((target * np.log(probabilities)).sum())
    return total


def test_cross_entropy_by_hand():
    assert float(summed(LOGITS, torch.tensor([1]), 0.0)) == pytest.approx(-math.log(3 / 4))
    assert float(summed(LOGITS, torch.tensor([0]), 0.0)) == pytest.approx(math.log(4))


def test_label_smoothing_by_hand():
    # 0.2 spread over two tokens: 0.9 on the label, 0.1 on the other.
    expected = -(0.9 * math.log(3 / 4) + 0.1 * math.log(1 / 4))
    assert float(summed(LOGITS, torch.tensor([1]), 0.2)) == pytest.approx(expected)
    assert float(through(LOGITS[:, None], torch.tensor([[1]]), label_smoothing=0.2)) == pytest.approx(expected)


@given(st.integers(1, 4), st.integers(1, 5), st.integers(2, 9), st.integers(0, 999), st.floats(0, 0.9))
def test_the_loss_equals_the_plain_one_and_numpys(rows, times, size, seed, label_smoothing):
    random = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(rows, times, size, generator=random)
    labels = torch.randint(0, size, (rows, times), generator=random)
    labels[torch.rand(rows, times, generator=random) < 0.3] = IGNORE_INDEX
    loss = float(through(logits, labels, label_smoothing=label_smoothing))
    assert loss == pytest.approx(in_numpy(logits.double().numpy(), labels.numpy(), label_smoothing), rel=1e-5, abs=1e-5)
    label_mask = labels != IGNORE_INDEX
    plain = summed(logits[label_mask].double(), labels[label_mask], label_smoothing)
    assert loss == pytest.approx(float(plain), rel=1e-5, abs=1e-5)


def test_without_smoothing_it_is_cross_entropy_and_a_sum():
    logits, labels = torch.randn(3, 4, 5), torch.randint(0, 5, (3, 4))
    expected = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
    assert_close(through(logits, labels), expected)
    by_row = [through(logits[row : row + 1], labels[row : row + 1]) for row in range(3)]
    assert_close(through(logits, labels), sum(by_row))


def test_without_a_label_there_is_no_loss_and_no_gradient():
    logits = torch.randn(2, 3, 5)
    labels = torch.tensor([[1, 2, IGNORE_INDEX], [3, IGNORE_INDEX, IGNORE_INDEX]])
    clean = through(logits, labels)
    with_nan = logits.masked_fill((labels == IGNORE_INDEX)[..., None], float("nan")).requires_grad_()
    loss = through(with_nan, labels)
    assert torch.equal(loss, clean)
    loss.backward()
    assert with_nan.grad[labels == IGNORE_INDEX].count_nonzero() == 0
    assert (with_nan.grad[labels != IGNORE_INDEX] != 0).all()
    nothing = through(logits, torch.full_like(labels, IGNORE_INDEX))
    assert float(nothing) == 0.0


def test_only_tokens_with_labels_are_computed_on_a_cpu(monkeypatch):
    shapes, labels = [], torch.tensor([[1, IGNORE_INDEX, 0]])
    fast = ChunkedCrossEntropy()
    monkeypatch.setattr(fast, "loss", lambda hidden, *rest: shapes.append(hidden.shape))
    NextToken().loss(sequences(torch.randn(1, 3, 4)), UntiedHead(nn.Embedding(5, 4)), labels, fast)
    assert shapes == [(1, 2, 4)]


@pytest.mark.parametrize("head", [TiedHead, UntiedHead, UntiedNoBiasHead])
@pytest.mark.parametrize("r_drop", [0.0, 1.7])
def test_selecting_labeled_tokens_computing_all_and_the_definition_are_equal(monkeypatch, head, r_drop):
    random = torch.Generator().manual_seed(3)
    labels = torch.randint(0, 7, (3, 5), generator=random)
    labels[torch.rand(3, 5, generator=random) < 0.4] = IGNORE_INDEX
    labels = labels.repeat(1 + bool(r_drop), 1)
    hidden = torch.randn(len(labels), 5, 4, generator=random, dtype=torch.float64)
    hidden[labels == IGNORE_INDEX] *= 1e4  # padding may hold any number
    results = []
    for select in (select_labeled, lambda vectors, labels: (vectors, labels), None):
        monkeypatch.setattr(chunked_cross_entropy, "select_labeled", select)
        way = ChunkedCrossEntropy() if select else CrossEntropy()
        actual, values = head(nn.Embedding(7, 4)).double(), hidden.clone().requires_grad_()
        with torch.no_grad():
            for number, weight in enumerate(actual.parameters()):
                weight.copy_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(number)))
        loss = NextToken(label_smoothing=0.2, r_drop=r_drop).loss(sequences(values), actual, labels, way)
        loss.backward()
        results.append([loss.detach(), values.grad, *(weight.grad for weight in actual.parameters())])
    for one, other, plain in zip(*results, strict=True):
        assert one.isfinite().all()
        assert_close(other, one, rtol=1e-12, atol=1e-12)
        assert_close(plain, one, rtol=1e-12, atol=1e-12)


def test_without_selection_the_loss_needs_no_gpu_sync():
    """Tensors on the meta device have no values: an operation that needs one, or a shape that depends on one, fails."""
    with torch.device("meta"):
        vectors, labels, logits = torch.empty(2, 6, 4), torch.empty(6, dtype=torch.long), torch.empty(2, 6, 5)
    assert cross_entropy_in_place(logits, labels, 0.1, 1.0).shape == ()
    with pytest.raises(NotImplementedError):
        select_labeled(vectors, labels)


def test_a_loss_of_half_precision_logits_is_summed_in_full():
    logits, labels = torch.randn(1, 2000, 7).bfloat16(), torch.randint(0, 7, (1, 2000))
    loss = through(logits, labels)
    assert loss.dtype == torch.float32
    assert float(loss) == pytest.approx(float(through(logits.float(), labels)), rel=1e-6)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.3])
def test_gradients_are_those_of_finite_differences(label_smoothing):
    logits = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0, 4, 2, 2])
    assert torch.autograd.gradcheck(lambda scores: summed(scores, labels, label_smoothing), [logits])


def test_label_smoothing_must_leave_something_for_the_label():
    with pytest.raises(ValidationError):
        NextToken(label_smoothing=1.0)


# R-Drop


def test_one_pass_is_enough_without_r_drop():
    assert NextToken().copies == NextToken(label_smoothing=0.1).copies == 1
    assert NextToken(r_drop=0.5).copies == 2
    with pytest.raises(ValidationError):
        NextToken(r_drop=-0.1)


def test_rows_come_twice_one_after_the_other():
    batch = pairs([3, 5])
    twice = repeat_for_r_drop(batch)
    assert twice.indices.tolist() == [0, 1, 0, 1]
    for one, two in ((batch.source, twice.source), (batch.target, twice.target)):
        assert torch.equal(two.values, torch.cat([one.values, one.values]))
        assert torch.equal(two.lengths, torch.cat([one.lengths, one.lengths]))
    assert torch.equal(twice.labels, torch.cat([batch.labels, batch.labels]))


def test_r_drop_by_hand():
    # p = (1/4, 3/4) and q = (1/2, 1/2): KL(p|q) + KL(q|p) = sum of (p - q) ln(p / q) = ln(3) / 4.
    logits = torch.tensor([[[0.0, math.log(3)]], [[0.0, 0.0]]])
    labels = torch.tensor([[1], [1]])
    entropies = -(math.log(3 / 4) + math.log(1 / 2)) / 2
    assert float(r_drop_loss(logits[0], logits[1])) == pytest.approx(math.log(3) / 8)
    assert float(through(logits, labels, r_drop=6.0)) == pytest.approx(entropies + 6 * math.log(3) / 8)
    assert float(through(logits, labels, r_drop=1e-9)) == pytest.approx(entropies)


def test_two_equal_passes_have_the_loss_of_one():
    logits, labels = torch.randn(2, 3, 5), torch.randint(0, 5, (2, 3))
    twice = through(logits.repeat(2, 1, 1), labels.repeat(2, 1), r_drop=3.0, label_smoothing=0.1)
    assert_close(twice, through(logits, labels, label_smoothing=0.1))


def test_the_second_half_of_the_rows_are_the_other_copies():
    logits, labels = torch.randn(4, 3, 5), torch.randint(0, 5, (2, 3)).repeat(2, 1)
    labels[[0, 2], 1] = IGNORE_INDEX
    label_mask = labels[:2] != IGNORE_INDEX
    one, other = logits[:2][label_mask], logits[2:][label_mask]
    entropies = [summed(scores, labels[:2][label_mask], 0.2) for scores in (one, other)]
    expected = sum(entropies) / 2 + 1.5 * r_drop_loss(one, other)
    assert_close(through(logits, labels, label_smoothing=0.2, r_drop=1.5), expected)


# Masked tokens


def test_masked_tokens_have_a_loss_and_no_others():
    logits = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(1))
    labels = torch.tensor([[IGNORE_INDEX, 4, IGNORE_INDEX], [2, IGNORE_INDEX, IGNORE_INDEX]])
    head = TiedHead(nn.Embedding.from_pretrained(torch.eye(5), freeze=True))
    found = MaskedToken().loss(sequences(logits), head, labels)
    log_probabilities = logits.log_softmax(-1)
    assert float(found) == pytest.approx(-float(log_probabilities[0, 1, 4] + log_probabilities[1, 0, 2]), rel=1e-5)


def test_two_objectives_are_two_losses_added_up():
    torch.manual_seed(2)
    head, hidden = PreTrainingHead(nn.Embedding(7, 3)), torch.randn(2, 4, 3)
    labels = torch.tensor([[1, IGNORE_INDEX, 6, IGNORE_INDEX], [0, 3, IGNORE_INDEX, IGNORE_INDEX]])
    found = MaskedTokenNextSentence().loss(sequences(hidden), head, labels)
    tokens, next_sentence = head.tokens(hidden).log_softmax(-1), head.next_sentence(hidden[:, 0]).log_softmax(-1)
    expected = -(tokens[0, 2, 6] + tokens[1, 1, 3] + next_sentence[0, 1] + next_sentence[1, 0])
    assert_close(found, expected)
    found.backward()
    assert float(head.next_sentence.project.weight.grad.abs().sum()) > 0
    assert float(head.tokens.table.weight.grad.abs().sum()) > 0


def test_activation_regularization_by_hand():
    """Two rows of two numbers: 1, 3 | 1, 5 | 1, 5 and 2, 0 | 0, 2 with no label at its third position."""
    hidden = torch.tensor([[[1.0, 3], [1, 5], [1, 5]], [[2.0, 0], [0, 2], [9, 9]]])
    labels = torch.tensor([[0, 1, 0], [1, 1, IGNORE_INDEX]])
    plain = through(hidden, labels)
    ar = (10 + 26 + 26 + 4 + 4) / 2  # half: each state has two numbers
    tar = (0 + 4 + 0 + 4 + 4) / 2
    assert through(hidden, labels, ar=2.0).item() == pytest.approx(plain.item() + 2 * ar, rel=1e-6)
    assert through(hidden, labels, tar=3.0).item() == pytest.approx(plain.item() + 3 * tar, rel=1e-6)
    both = torch.cat([hidden, hidden]), torch.cat([labels, labels])
    twice = through(*both, ar=2.0, tar=3.0, r_drop=1.0)
    assert twice.item() == pytest.approx(plain.item() + 2 * ar + 3 * tar, rel=1e-6)


def test_a_change_counts_between_two_positions_with_labels_and_in_float32():
    hidden = torch.tensor([[[1.0, 3], [1, 5], [1, 6]]])
    label_mask = torch.tensor([[False, True, True]])
    # The change from 5 to 6 counts; the one from 3 to 5 does not, because the first position has no label.
    assert NextToken(tar=1.0).activation_regularization(hidden, label_mask).item() == 0.5
    # 255² + 255² has no bfloat16, nor has the half of it.
    large = torch.full((1, 1, 2), 255.0, dtype=torch.bfloat16)
    assert NextToken(ar=1.0).activation_regularization(large, torch.ones(1, 1, dtype=torch.bool)).item() == 255.0**2
    apart = torch.stack([torch.zeros(2), torch.full((2,), 255.0)])[None].bfloat16()
    assert NextToken(tar=1.0).activation_regularization(apart, torch.ones(1, 2, dtype=torch.bool)).item() == 255.0**2
