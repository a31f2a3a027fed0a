"""CTC: the recursion is the sum over all paths, and torch's function computes the same."""

from __future__ import annotations

from itertools import groupby, product

import pytest
import torch
from torch.nn import functional

from seq2see.acceleration.layers import NativeCTCLoss
from seq2see.acceleration.swaps import Conditions, accelerated
from seq2see.core.batch import IGNORE_INDEX, Sequences
from seq2see.layers.ctc import BLANK, CTCHead, CTCLoss, blank_states, frames_needed, may_skip

TOKENS = 5


def labels_of(path: tuple[int, ...]) -> list[int]:
    """The labels that a path has: repeats merged, then blanks removed."""
    return [token for token, _ in groupby(path) if token != BLANK]


def sum_over_all_paths(scores: torch.Tensor, labels: list[int]) -> float:
    """log p(labels | frames) by its definition: every path that has these labels."""
    paths = [path for path in product(range(scores.size(1)), repeat=len(scores)) if labels_of(path) == labels]
    return float(torch.stack([sum(scores[t, token] for t, token in enumerate(path)) for path in paths]).logsumexp(0))


@pytest.mark.parametrize("labels", [[], [3], [3, 3], [3, 4], [4, 3, 4], [3, 3, 3], [1, 2, 3, 4]])
@pytest.mark.parametrize("frames", [5, 6])
def test_the_recursion_is_the_sum_over_all_paths(labels, frames):
    torch.manual_seed(len(labels))
    scores = torch.randn(1, frames, TOKENS).log_softmax(-1)
    loss = CTCLoss()(scores, torch.tensor([frames]), Sequences.of([labels or [0]]) if labels else Sequences.of([[]]))
    assert float(loss) == pytest.approx(-sum_over_all_paths(scores[0], labels), rel=1e-5)


def test_probabilities_of_all_labels_sum_to_one():
    scores = torch.randn(1, 4, 3).log_softmax(-1)
    everything = {tuple(labels_of(path)) for path in product(range(3), repeat=4)}
    total = sum(float((-CTCLoss()(scores, torch.tensor([4]), Sequences.of([[*each]]))).exp()) for each in everything)
    assert total == pytest.approx(1, abs=1e-5)


def test_with_one_frame_and_one_label_it_is_the_probability_of_the_label():
    scores = torch.tensor([[[0.5, 0.2, 0.3]]]).log()
    loss = CTCLoss()(scores, torch.tensor([1]), Sequences.of([[2]]))
    assert float(loss) == pytest.approx(-torch.tensor(0.3).log().item())


def test_two_frames_have_three_paths_for_one_label():
    scores = torch.tensor([[[0.5, 0.5], [0.25, 0.75]]]).log()
    loss = CTCLoss()(scores, torch.tensor([2]), Sequences.of([[1]]))  # aa, a-, -a
    assert float((-loss).exp()) == pytest.approx(0.5 * 0.75 + 0.5 * 0.25 + 0.5 * 0.75)


def random_batch() -> tuple[torch.Tensor, torch.Tensor, Sequences]:
    torch.manual_seed(7)
    logits = torch.randn(4, 13, TOKENS, requires_grad=True)
    return logits, torch.tensor([13, 7, 11, 3]), Sequences.of([[3, 3, 4], [2], [1, 2, 3, 4, 1], []])


def test_torchs_function_has_the_same_loss_and_gradient():
    logits, frames, labels = random_batch()
    results = []
    for loss in (CTCLoss(), NativeCTCLoss()):
        values = loss(logits.log_softmax(-1), frames, labels)
        weights = torch.arange(1.0, 5.0)
        results.append((values, torch.autograd.grad((values * weights).sum(), logits)[0]))
    torch.testing.assert_close(results[0], results[1], atol=1e-5, rtol=1e-5)
    expected = functional.ctc_loss(
        logits.log_softmax(-1).transpose(0, 1), labels.values, frames, labels.lengths, reduction="none"
    )
    torch.testing.assert_close(results[0][0], expected)


def test_gradients_are_those_of_finite_differences():
    logits = torch.randn(1, 4, 3, dtype=torch.double, requires_grad=True)
    frames, labels = torch.tensor([4]), Sequences.of([[1, 1]])
    assert torch.autograd.gradcheck(lambda each: CTCLoss()(each.log_softmax(-1), frames, labels), logits)


def test_frames_after_the_end_and_labels_after_the_end_have_no_effect():
    logits, frames, labels = random_batch()
    other = logits.detach().clone()
    for row, length in enumerate(frames.tolist()):
        other[row, length:] = 100.0
    padded = Sequences(torch.cat([labels.values, torch.tensor([4, IGNORE_INDEX, 3]).expand(4, 3)], 1), labels.lengths)
    for loss in (CTCLoss(), NativeCTCLoss()):
        before = loss(logits.log_softmax(-1), frames, labels)
        torch.testing.assert_close(loss(other.log_softmax(-1), frames, padded), before)


@pytest.mark.parametrize("loss", [CTCLoss(), NativeCTCLoss()], ids=["plain", "native"])
def test_labels_with_too_few_frames_have_no_loss_and_no_gradient(loss):
    logits = torch.randn(2, 3, TOKENS, requires_grad=True)
    values = loss(logits.log_softmax(-1), torch.tensor([3, 3]), Sequences.of([[2, 2, 2], [2, 3, 4]]))
    assert values[0] == 0
    assert values[1] > 0
    (gradient,) = torch.autograd.grad(values.sum(), logits)
    assert gradient[0].abs().sum() == 0
    assert gradient.isfinite().all()


def test_a_path_needs_a_blank_between_equal_labels():
    assert [frames_needed(labels) for labels in ([], [5], [5, 6], [5, 5], [5, 5, 6, 6])] == [0, 1, 2, 3, 6]
    states = blank_states(Sequences.of([[5, 5, 6]]))
    assert states.tolist() == [[0, 5, 0, 5, 0, 6, 0]]
    assert may_skip(states).tolist() == [[False, False, False, False, False, True, False]]


def test_the_swap_puts_torchs_function_on_a_cpu_only():
    head = CTCHead(8, TOKENS)
    with accelerated(head, Conditions("cpu", training=True)):
        assert type(head.loss) is NativeCTCLoss
    with accelerated(head, Conditions("cuda", training=True)):
        assert type(head.loss) is CTCLoss
    assert type(head.loss) is CTCLoss
