"""Rows with two labels: the loss is that of the mixed answer, in the objective and in a whole step."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from seq2see.core.batch import NOT_ASKED, Mixed, Sequences
from seq2see.core.rows import pick_rows
from seq2see.models.heads import ClassHead
from seq2see.training import cross_entropy
from seq2see.training.loop import Trainer
from seq2see.training.objectives import Classify, loss_of
from seq2see.training.optimisers import SGD
from seq2see.training.schedules import Constant
from seq2see.training.settings import Training

ROWS, WIDTH, CLASSES = 7, 5, 3


class Plain(nn.Module):
    """The smallest model that names a label: what it reads is its summary."""

    def __init__(self):
        super().__init__()
        self.head = ClassHead(WIDTH, CLASSES)

    def hidden(self, batch):
        return batch.source


def mixtures() -> Mixed:
    source = Sequences(torch.randn(ROWS, 1, WIDTH), torch.ones(ROWS, dtype=torch.long))
    labels, others = torch.randint(0, CLASSES, (2, ROWS, 1))
    return Mixed(source, None, labels, torch.arange(ROWS), others, torch.rand(ROWS))


def soft_answers(batch: Mixed, smoothing: float) -> torch.Tensor:
    """The answers written out as a distribution for each row."""
    own, other = (nn.functional.one_hot(each[:, 0], CLASSES) for each in (batch.labels, batch.others))
    sharp = batch.shares[:, None] * own + (1 - batch.shares[:, None]) * other
    return (1 - smoothing) * sharp + smoothing / CLASSES


def plain_loss(model: Plain, batch: Mixed, smoothing: float) -> torch.Tensor:
    logits = model.head(batch.source.values[:, 0])
    return -(soft_answers(batch, smoothing) * logits.log_softmax(-1)).sum()


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("chunk", [3, 512])
def test_the_loss_of_a_mixture_is_that_of_the_mixed_answer(monkeypatch, smoothing, chunk):
    monkeypatch.setitem(cross_entropy.CHUNK, "cpu", chunk)
    model, batch = Plain(), mixtures()
    expected = plain_loss(model, batch, smoothing)
    found = loss_of(Classify(smoothing=smoothing), batch.source, model.head, batch)
    assert_close(found, expected)
    for ours, theirs in zip(
        torch.autograd.grad(found, list(model.parameters())),
        torch.autograd.grad(expected, list(model.parameters())),
        strict=True,
    ):
        assert_close(ours, theirs)


def test_a_mixture_of_one_is_no_mixture():
    model, batch = Plain(), mixtures()
    whole = Mixed(batch.source, None, batch.labels, batch.indices, batch.others, torch.ones(ROWS))
    objective = Classify(smoothing=0.1)
    assert_close(
        loss_of(objective, batch.source, model.head, whole), objective.loss(batch.source, model.head, batch.labels)
    )


def test_a_row_that_asks_nothing_counts_nowhere():
    model, batch = Plain(), mixtures()
    labels, others = batch.labels.clone(), batch.others.clone()
    labels[2:], others[2:] = NOT_ASKED, NOT_ASKED
    some = Mixed(batch.source, None, labels, batch.indices, others, batch.shares)
    alone = pick_rows(batch, torch.tensor([0, 1]))
    assert_close(
        loss_of(Classify(), batch.source, model.head, some), loss_of(Classify(), alone.source, model.head, alone)
    )


@pytest.mark.parametrize("accumulate", [1, 3])
def test_a_whole_step_on_mixtures(accumulate):
    settings = Training(
        rate=0.5, steps=9, accumulate=accumulate, optimiser=SGD(), schedule=Constant(), clip=0.0, seed=1
    )
    model, batch = Plain(), mixtures()
    before = [weight.detach().clone() for weight in model.parameters()]
    slopes = torch.autograd.grad(plain_loss(model, batch, 0.1) / ROWS, list(model.parameters()))
    figures = Trainer(model, Classify(smoothing=0.1), settings, torch.device("cpu")).advance(batch)
    assert figures["tokens"] == ROWS
    for weight, old, slope in zip(model.parameters(), before, slopes, strict=True):
        assert_close(weight.detach(), old - 0.5 * slope)


def test_a_mixture_travels_whole():
    batch = mixtures()
    moved = batch.to("cpu")
    assert isinstance(moved, Mixed)
    assert torch.equal(moved.others, batch.others)
    assert torch.equal(moved.shares, batch.shares)
