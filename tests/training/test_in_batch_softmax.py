"""In-batch softmax against values by hand."""

from __future__ import annotations

import math

import pytest
import torch

from seq2see.core.batch import IGNORE_INDEX, Sequences
from seq2see.models.dual_encoder import SimilarityHead
from seq2see.training.in_batch_softmax import InBatchSoftmax


def hidden(histories: list[list[float]], replies: list[list[float]]) -> Sequences:
    vectors = torch.stack([torch.tensor(histories), torch.tensor(replies)], dim=1)
    return Sequences(vectors, torch.full((len(histories),), 2))


def loss_of(vectors: Sequences, numbers: list[int], scale: float = 2.0) -> float:
    head = SimilarityHead()
    head.scale.data.fill_(scale)
    return float(InBatchSoftmax().loss(vectors, head, torch.tensor(numbers)[:, None]).detach())


def test_each_history_chooses_among_all_replies_of_the_batch():
    vectors = hidden([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.6, 0.8]])
    # scores 2 * [[1, 0.6], [0, 0.8]]
    expected = math.log(math.exp(2) + math.exp(1.2)) - 2 + math.log(1 + math.exp(1.6)) - 1.6
    assert loss_of(vectors, [5, 7]) == pytest.approx(expected)


def test_equal_replies_are_no_negatives_of_each_other():
    vectors = hidden([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]])
    assert loss_of(vectors, [5, 5]) == pytest.approx(0)
    assert loss_of(vectors, [5, 7]) > 1


def test_rows_that_fill_a_batch_have_no_effect():
    two = hidden([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.6, 0.8]])
    three = hidden([[1.0, 0.0], [0.0, 1.0], [0.3, 0.3]], [[1.0, 0.0], [0.6, 0.8], [0.9, 0.9]])
    assert loss_of(three, [5, 7, IGNORE_INDEX]) == pytest.approx(loss_of(two, [5, 7]))
    assert loss_of(three, [5, 7, 8]) > loss_of(two, [5, 7])
