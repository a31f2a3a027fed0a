"""The order in which the training loop does things, and how it is stopped."""

from __future__ import annotations

import signal

import pytest
import torch

from seq2see.training.loop import CallbackAborted, Interrupted, Trainer, train
from seq2see.training.objectives import NextToken
from seq2see.training.settings import Training
from tiny_models import FAMILIES, pairs, perturbed_model


def trainer(**changes) -> Trainer:
    model = perturbed_model(FAMILIES["recurrent, bilinear"])
    return Trainer(model, NextToken(), Training(**changes), torch.device("cpu"))


class RecordingLogger:
    """A metrics logger that records its calls."""

    def __init__(self, lines: list[str]):
        self.lines = lines

    def log(self, step: int, **metrics) -> None:
        self.lines.append(f"step {step}")

    def flush(self, step: int, last: bool = False) -> None:
        self.lines.append(f"flush {step}")

    def discard(self) -> None:
        self.lines.append("discard")

    def restart_clock(self) -> None:
        pass


def run(one: Trainer, callbacks, on_metrics=lambda step, metrics: None, lines: list[str] | None = None) -> list[str]:
    logger = RecordingLogger([] if lines is None else lines)
    train(
        one,
        batch_at=lambda step: pairs([2, 3], seed=step),
        callbacks=[lambda trainer, stop, each=each: each(logger, trainer, stop) for each in callbacks],
        save=lambda trainer: logger.lines.append(f"save {trainer.step}"),
        metrics_logger=logger,
        on_metrics=on_metrics,
    )
    return logger.lines


def test_callbacks_and_saves_come_at_every_evaluation_step_and_at_the_end():
    def callback(logger, one, stop):
        logger.lines.append(f"callback {one.step}")

    lines = run(trainer(steps=3, evaluate_every=2), [callback])
    assert [line for line in lines if "flush" not in line] == [
        *("step 1", "step 2", "callback 2", "save 2"),
        *("step 3", "callback 3", "save 3"),
    ]
    assert lines.index("flush 2") < lines.index("callback 2")


def test_patience_ends_the_loop_after_saving():
    one = trainer(steps=50, evaluate_every=2, patience=1)
    lines = run(one, [lambda logger, one, stop: one.record_validation(1.0)])
    assert one.step == 4
    assert lines[-1] == "save 4"


def test_a_run_that_is_done_takes_no_step():
    one = trainer(steps=2, evaluate_every=2)
    one.step = one.callbacks_done = 2
    assert run(one, []) == ["flush 2", "save 2"]


def test_a_stop_request_saves_at_once_and_says_so():
    one, lines = trainer(steps=9, evaluate_every=100), []

    def on_metrics(step, metrics):
        if step == 2:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Interrupted) as caught:
        run(one, [], on_metrics, lines)
    assert (caught.value.number, caught.value.step, one.step) == (signal.SIGTERM, 2, 2)
    assert lines == ["step 1", "step 2", "flush 2", "save 2"]


def test_a_callback_that_was_aborted_by_a_stop_request_is_discarded_and_repeated():
    one, lines = trainer(steps=3, evaluate_every=2), []

    def aborted(logger, trainer, stop):
        signal.raise_signal(signal.SIGTERM)
        assert stop
        raise CallbackAborted

    with pytest.raises(Interrupted):
        run(one, [aborted], lines=lines)
    assert lines == ["step 1", "step 2", "flush 2", "discard", "flush 2", "save 2"]
    again = run(one, [lambda logger, trainer, stop: logger.lines.append(f"callback {trainer.step}")])
    expected = ["flush 2", "callback 2", "flush 2", "save 2", "step 3", "flush 3", "callback 3", "flush 3", "save 3"]
    assert again == expected


def test_batches_are_requested_by_the_number_of_their_step():
    steps = []
    one, logger = trainer(steps=3), RecordingLogger([])
    train(one, lambda step: steps.append(step) or pairs([2, 3]), [], lambda one: None, logger, lambda *_: None)
    assert steps == [1, 2, 3]


def test_the_time_of_callbacks_is_no_part_of_the_speed(monkeypatch):
    lines = []
    monkeypatch.setattr(RecordingLogger, "restart_clock", lambda self: self.lines.append("clock"))
    run(trainer(steps=1), [lambda logger, trainer, stop: logger.lines.append("callback")], lines=lines)
    assert lines == ["step 1", "flush 1", "callback", "clock", "flush 1", "save 1"]
