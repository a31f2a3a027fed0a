"""Rows with two labels: the loss is that of the mixed label, in the objective and in a whole step."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from seq2see.acceleration import chunked_cross_entropy
from seq2see.core.batch import IGNORE_INDEX, MixedBatch, Sequences, pick_rows
from seq2see.models.embeddings_and_heads import ClassificationHead
from seq2see.training.loop import Trainer
from seq2see.training.objectives import Classification, batch_loss
from seq2see.training.optimizers import SGD, Constant
from seq2see.training.settings import Training

ROWS, WIDTH, CLASSES = 7, 5, 3


class Plain(nn.Module):
    """The smallest classifier: its input is its hidden state."""

    def __init__(self):
        super().__init__()
        self.head = ClassificationHead(WIDTH, CLASSES)

    def hidden(self, batch):
        return batch.source


def mixtures() -> MixedBatch:
    source = Sequences(torch.randn(ROWS, 1, WIDTH), torch.ones(ROWS, dtype=torch.long))
    labels, other_labels = torch.randint(0, CLASSES, (2, ROWS, 1))
    return MixedBatch(source, None, labels, torch.arange(ROWS), other_labels, torch.rand(ROWS))


def soft_labels(batch: MixedBatch, label_smoothing: float) -> torch.Tensor:
    """The target distribution of each row, written out."""
    own, other = (nn.functional.one_hot(each[:, 0], CLASSES) for each in (batch.labels, batch.other_labels))
    mixed = batch.label_weights[:, None] * own + (1 - batch.label_weights[:, None]) * other
    return (1 - label_smoothing) * mixed + label_smoothing / CLASSES


def plain_loss(model: Plain, batch: MixedBatch, label_smoothing: float) -> torch.Tensor:
    logits = model.head(batch.source.values[:, 0])
    return -(soft_labels(batch, label_smoothing) * logits.log_softmax(-1)).sum()


@pytest.mark.parametrize("label_smoothing", [0.0, 0.2])
@pytest.mark.parametrize("chunk", [3, 512])
def test_the_loss_of_a_mixture_is_that_of_the_mixed_label(monkeypatch, label_smoothing, chunk):
    monkeypatch.setitem(chunked_cross_entropy.CHUNK_SIZE, "cpu", chunk)
    model, batch = Plain(), mixtures()
    expected = plain_loss(model, batch, label_smoothing)
    found = batch_loss(Classification(label_smoothing=label_smoothing), batch.source, model.head, batch)
    assert_close(found, expected)
    for actual, theirs in zip(
        torch.autograd.grad(found, list(model.parameters())),
        torch.autograd.grad(expected, list(model.parameters())),
        strict=True,
    ):
        assert_close(actual, theirs)


def test_a_mixture_of_one_is_no_mixture():
    model, batch = Plain(), mixtures()
    whole = MixedBatch(batch.source, None, batch.labels, batch.indices, batch.other_labels, torch.ones(ROWS))
    objective = Classification(label_smoothing=0.1)
    assert_close(
        batch_loss(objective, batch.source, model.head, whole), objective.loss(batch.source, model.head, batch.labels)
    )


def test_a_row_without_a_label_has_no_loss():
    model, batch = Plain(), mixtures()
    labels, other_labels = batch.labels.clone(), batch.other_labels.clone()
    labels[2:], other_labels[2:] = IGNORE_INDEX, IGNORE_INDEX
    some = MixedBatch(batch.source, None, labels, batch.indices, other_labels, batch.label_weights)
    alone = pick_rows(batch, torch.tensor([0, 1]))
    assert_close(
        batch_loss(Classification(), batch.source, model.head, some),
        batch_loss(Classification(), alone.source, model.head, alone),
    )


@pytest.mark.parametrize("accumulate", [1, 3])
def test_a_whole_step_on_mixtures(accumulate):
    settings = Training(
        learning_rate=0.5,
        steps=9,
        accumulate=accumulate,
        optimizer=SGD(),
        schedule=Constant(),
        max_grad_norm=0.0,
        seed=1,
    )
    model, batch = Plain(), mixtures()
    before = [weight.detach().clone() for weight in model.parameters()]
    grads = torch.autograd.grad(plain_loss(model, batch, 0.1) / ROWS, list(model.parameters()))
    metrics = Trainer(model, Classification(label_smoothing=0.1), settings, torch.device("cpu")).train_step(batch)
    assert metrics["tokens"] == ROWS
    for weight, old, grad in zip(model.parameters(), before, grads, strict=True):
        assert_close(weight.detach(), old - 0.5 * grad)


def test_a_mixed_batch_goes_to_another_device_as_a_whole():
    batch = mixtures()
    moved = batch.to("cpu")
    assert isinstance(moved, MixedBatch)
    assert torch.equal(moved.other_labels, batch.other_labels)
    assert torch.equal(moved.label_weights, batch.label_weights)
