"""Accuracy ignores masked labels and can be summed over batches."""

from __future__ import annotations

import pytest
import torch

from seq2see.core.batch import IGNORE_INDEX
from seq2see.core.errors import UserError
from seq2see.metrics.classification import sentence_accuracy
from seq2see.metrics.perplexity import Accuracy, token_accuracy


def test_masked_labels_do_not_count():
    labels = torch.tensor([[5, 6, 2], [7, 2, IGNORE_INDEX]])
    predictions = torch.tensor([[5, 9, 2], [7, 3, IGNORE_INDEX]])
    assert token_accuracy(predictions, labels) == Accuracy(correct=3, total=5)


def test_batches_are_summed_by_tokens_and_not_averaged():
    total = Accuracy(1, 1) + Accuracy(0, 3)
    assert total.value == 0.25
    assert str(total) == "25.0 % (1 of 4)"


def test_labels_may_have_one_dimension():
    assert token_accuracy(torch.tensor([3, 1, 4]), torch.tensor([3, 1, 5])).value == pytest.approx(2 / 3)


def test_shapes_that_would_broadcast_are_an_error():
    with pytest.raises(ValueError):
        token_accuracy(torch.zeros(3, 1, dtype=torch.long), torch.zeros(3, 5, dtype=torch.long))


def test_sentences_must_match_exactly():
    outputs, references = ["a b", "a  b", "c"], ["a b", "a b", "C"]
    assert sentence_accuracy(outputs, references) == Accuracy(1, 3)


def test_sentences_without_references_and_empty_accuracies_are_errors():
    with pytest.raises(UserError, match="1 outputs but 2"):
        sentence_accuracy(["a"], ["a", "b"])
    with pytest.raises(UserError, match="at least one prediction"):
        _ = Accuracy(0, 0).value
