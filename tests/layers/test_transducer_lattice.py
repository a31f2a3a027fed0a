"""The lattice of a transducer: the anti-diagonals give the sum over all paths."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

from seq2see.core.batch import IGNORE_INDEX, Sequences
from seq2see.layers.ctc import BLANK
from seq2see.layers.transducer import TransducerLoss


def all_paths(scores: torch.Tensor, labels: list[int]) -> float:
    """log p(labels | frames) by its definition: every order of the blanks of the frames and of the labels.

    The last step is the blank of the last frame.
    """
    frames, sums = len(scores), []
    steps = frames - 1 + len(labels)
    for emissions in combinations(range(steps), len(labels)):
        time = position = 0
        total = torch.zeros(())
        for step in range(steps):
            if step in emissions:
                total = total + scores[time, position, labels[position]]
                position += 1
            else:
                total = total + scores[time, position, BLANK]
                time += 1
        sums.append(total + scores[time, position, BLANK])
    return float(torch.stack(sums).logsumexp(0))


@pytest.mark.parametrize("frames", [1, 2, 5])
@pytest.mark.parametrize("labels", [[], [2], [2, 2], [1, 3, 2], [3, 3, 1, 2, 1]])
def test_the_anti_diagonals_give_the_sum_over_all_paths(frames, labels):
    torch.manual_seed(frames)
    scores = torch.randn(1, frames, len(labels) + 1, 4).log_softmax(-1)
    loss = TransducerLoss()(scores, torch.tensor([frames]), Sequences.of([labels]))
    assert float(loss) == pytest.approx(-all_paths(scores[0], labels), rel=1e-5)


def test_one_frame_and_one_label_is_the_label_and_then_the_blank():
    scores = torch.tensor([[[[0.6, 0.4], [0.3, 0.7]]]]).log()
    assert float((-TransducerLoss()(scores, torch.tensor([1]), Sequences.of([[1]]))).exp()) == pytest.approx(0.4 * 0.3)


def test_rows_of_different_lengths_equal_each_row_alone():
    torch.manual_seed(3)
    scores = torch.randn(3, 7, 5, 6).log_softmax(-1)
    frames, labels = torch.tensor([7, 4, 1]), Sequences.of([[2, 3], [5, 1, 1, 4], []])
    together = TransducerLoss()(scores, frames, labels)
    alone = [
        all_paths(scores[row, :length], labels.values[row, : labels.lengths[row]].tolist())
        for row, length in enumerate(frames.tolist())
    ]
    torch.testing.assert_close(together, -torch.tensor(alone))


def test_gradients_are_those_of_finite_differences():
    logits = torch.randn(1, 3, 3, 4, dtype=torch.double, requires_grad=True)
    frames, labels = torch.tensor([3]), Sequences.of([[2, 2]])
    assert torch.autograd.gradcheck(lambda each: TransducerLoss()(each.log_softmax(-1), frames, labels), logits)


def test_padding_has_no_effect_and_no_gradient():
    logits = torch.randn(2, 6, 4, 5, requires_grad=True)
    frames, labels = torch.tensor([6, 3]), Sequences.of([[1, 2, 3], [4]])
    loss = TransducerLoss()(logits.log_softmax(-1), frames, labels)
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    assert gradient[1, 3:].abs().max() == 0
    assert gradient[1, :, 2:].abs().max() == 0
    other = logits.detach().clone()
    other[1, 3:], other[1, :, 2:] = 50.0, -50.0
    torch.testing.assert_close(TransducerLoss()(other.log_softmax(-1), frames, labels), loss)


def test_labels_after_the_end_are_not_token_ids():
    """In a batch, they are the mark of positions without a label."""
    scores, frames = torch.randn(2, 5, 4, 7).log_softmax(-1), torch.tensor([5, 3])
    padded = Sequences(torch.tensor([[1, 2, 6], [4, IGNORE_INDEX, IGNORE_INDEX]]), torch.tensor([3, 1]))
    expected = TransducerLoss()(scores, frames, Sequences.of([[1, 2, 6], [4]]))
    torch.testing.assert_close(TransducerLoss()(scores, frames, padded), expected)
