"""Cancelled work ends between two of its steps; other work continues."""

from __future__ import annotations

import threading

import pytest
import torch

from seq2see.core.batch import Sequences
from seq2see.decoding.beam import BeamSampler
from seq2see.decoding.engine import Limits, cancellable, check_cancelled, decode
from seq2see.decoding.samplers import GreedySampler, MinNewTokens
from seq2see.decoding.search_tree import trace_search
from seq2see.tasks.forecast import forecast
from toy_decoders import HistoryModel, random_source


class CancelledError(Exception):
    """The work was cancelled."""


class CancelAfter:
    """Cancels the work after some checks."""

    def __init__(self, steps: int):
        self.steps = steps

    def __call__(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise CancelledError


class StepCounter:
    """A forecasting model that counts its steps."""

    steps = 0

    def start(self, source, rows, max_length):
        return None

    def step(self, new, state):
        self.steps += 1
        return new[:, :, None], state


@pytest.mark.parametrize("sampler", [GreedySampler(), BeamSampler(3)], ids=["greedy", "beam"])
@pytest.mark.parametrize("search", [decode, trace_search])
def test_a_cancelled_search_ends_between_two_steps(search, sampler):
    model, steps = HistoryModel(1), []
    step = model.step
    model.step = lambda tokens, state: steps.append(1) or step(tokens, state)
    arguments = (model, random_source(1, 1), sampler, Limits(50), [MinNewTokens(50)])
    with pytest.raises(CancelledError), cancellable(CancelAfter(4)):
        search(*arguments)
    assert len(steps) == 5
    assert search(*arguments)  # afterwards it is not cancelled


def test_a_cancelled_forecast_ends_too():
    model = StepCounter()
    with pytest.raises(CancelledError), cancellable(CancelAfter(3)):
        forecast(model, torch.zeros(1, 2), 50)
    assert model.steps == 3


def test_other_threads_are_not_cancelled():
    results = []
    with cancellable(CancelAfter(0)):
        thread = threading.Thread(target=lambda: results.append(check_cancelled()))
        thread.start()
        thread.join()
        with pytest.raises(CancelledError):
            check_cancelled()
    assert results == [None]


def test_the_inner_context_applies():
    with cancellable(CancelAfter(0)):
        with cancellable(CancelAfter(5)):
            check_cancelled()
        with pytest.raises(CancelledError):
            check_cancelled()


def test_cancellation_checks_do_not_change_the_result():
    arguments = (HistoryModel(2), random_source(2, 2), BeamSampler(2), Limits(6), (), Sequences.of([[3], []]))
    with cancellable(lambda: None):
        checked = decode(*arguments)
    assert checked == decode(*arguments)
