"""The order in which the training loop does things, and how it is stopped."""

from __future__ import annotations

import signal

import pytest
import torch

from seq2see.training.loop import Trainer, train
from seq2see.training.objectives import NextToken
from seq2see.training.settings import Training
from seq2see.training.signals import CallbackAborted, Interrupted
from tiny_models import FAMILIES, pairs, perturbed_model


def trainer(**changes) -> Trainer:
    model = perturbed_model(FAMILIES["recurrent, bilinear"])
    return Trainer(model, NextToken(), Training(**changes), torch.device("cpu"))


class Diary:
    """Stands for the journal; it writes down what is asked of it."""

    def __init__(self, lines: list[str]):
        self.lines = lines

    def log(self, step: int, **figures) -> None:
        self.lines.append(f"step {step}")

    def flush(self, step: int) -> None:
        self.lines.append(f"flush {step}")

    def discard(self) -> None:
        self.lines.append("forget")

    def restart_clock(self) -> None:
        pass


def run(one: Trainer, callbacks, on_metrics=lambda step, figures: None, lines: list[str] | None = None) -> list[str]:
    diary = Diary([] if lines is None else lines)
    train(
        one,
        batch_at=lambda step: pairs([2, 3], seed=step),
        callbacks=[lambda trainer, stop, each=each: each(diary, trainer, stop) for each in callbacks],
        save=lambda trainer: diary.lines.append(f"save {trainer.step}"),
        metrics_logger=diary,
        on_metrics=on_metrics,
    )
    return diary.lines


def test_errands_and_saves_come_at_every_mark_and_at_the_end():
    lines = run(trainer(steps=3, evaluate_every=2), [lambda diary, one, stop: diary.lines.append(f"errand {one.step}")])
    assert [line for line in lines if "flush" not in line] == [
        *("step 1", "step 2", "errand 2", "save 2"),
        *("step 3", "errand 3", "save 3"),
    ]
    assert lines.index("flush 2") < lines.index("errand 2")


def test_patience_ends_the_loop_after_saving():
    one = trainer(steps=50, evaluate_every=2, patience=1)
    lines = run(one, [lambda diary, one, stop: one.record_validation(1.0)])
    assert one.step == 4
    assert lines[-1] == "save 4"


def test_a_run_that_is_done_takes_no_step():
    one = trainer(steps=2, evaluate_every=2)
    one.step = one.callbacks_done = 2
    assert run(one, []) == ["flush 2", "save 2"]


def test_a_stop_request_saves_at_once_and_says_so():
    one, lines = trainer(steps=9, evaluate_every=100), []

    def on_metrics(step, figures):
        if step == 2:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Interrupted) as caught:
        run(one, [], on_metrics, lines)
    assert (caught.value.number, caught.value.step, one.step) == (signal.SIGTERM, 2, 2)
    assert lines == ["step 1", "step 2", "flush 2", "save 2"]


def test_an_errand_that_gave_way_to_a_stop_request_is_forgotten_and_done_again():
    one, lines = trainer(steps=3, evaluate_every=2), []

    def impatient(diary, trainer, stop):
        signal.raise_signal(signal.SIGTERM)
        assert stop
        raise CallbackAborted

    with pytest.raises(Interrupted):
        run(one, [impatient], lines=lines)
    assert lines == ["step 1", "step 2", "flush 2", "forget", "flush 2", "save 2"]
    again = run(one, [lambda diary, trainer, stop: diary.lines.append(f"errand {trainer.step}")])
    assert again == ["flush 2", "errand 2", "flush 2", "save 2", "step 3", "flush 3", "errand 3", "flush 3", "save 3"]


def test_batches_are_asked_for_by_the_number_of_their_step():
    asked = []
    one = trainer(steps=3)
    train(one, lambda step: asked.append(step) or pairs([2, 3]), [], lambda one: None, Diary([]), lambda *_: None)
    assert asked == [1, 2, 3]


def test_what_errands_take_is_no_part_of_the_speed(monkeypatch):
    lines = []
    monkeypatch.setattr(Diary, "restart_clock", lambda self: self.lines.append("clock"))
    run(trainer(steps=1), [lambda diary, trainer, stop: diary.lines.append("errand")], lines=lines)
    assert lines == ["step 1", "flush 1", "errand", "clock", "flush 1", "save 1"]
