"""Work that nobody waits for any longer ends between two of its steps; other work goes on."""

from __future__ import annotations

import threading

import pytest
import torch

from seq2see.core.batch import Sequences
from seq2see.core.cancellation import cancellable, check_cancelled
from seq2see.decoding.beam import BeamSampler
from seq2see.decoding.engine import Limits, decode
from seq2see.decoding.forecasting import forecast
from seq2see.decoding.logits_processors import MinNewTokens
from seq2see.decoding.samplers import GreedySampler
from seq2see.decoding.search_tree import trace_search
from toy_decoders import HistoryModel, random_source


class GoneError(Exception):
    """Whoever waited has gone."""


class Waiter:
    """Somebody who waits for so many steps."""

    def __init__(self, steps: int):
        self.steps = steps

    def __call__(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise GoneError


class Counts:
    """A model of numbers that counts its steps."""

    steps = 0

    def start(self, source, rows, max_length):
        return None

    def step(self, new, state):
        self.steps += 1
        return new[:, :, None], state


@pytest.mark.parametrize("chooser", [GreedySampler(), BeamSampler(3)], ids=["greedy", "beam"])
@pytest.mark.parametrize("search", [decode, trace_search])
def test_a_search_ends_between_two_steps(search, sampler):
    model, asked = HistoryModel(1), []
    step = model.step
    model.step = lambda tokens, state: asked.append(1) or step(tokens, state)
    given = (model, random_source(1, 1), sampler, Limits(50), [MinNewTokens(50)])
    with pytest.raises(GoneError), cancellable(Waiter(4)):
        search(*given)
    assert len(asked) == 5
    assert search(*given)  # afterwards nobody is asked


def test_going_on_with_numbers_ends_too():
    model = Counts()
    with pytest.raises(GoneError), cancellable(Waiter(3)):
        forecast(model, torch.zeros(1, 2), 50)
    assert model.steps == 3


def test_another_thread_is_not_asked():
    found = []
    with cancellable(Waiter(0)):
        thread = threading.Thread(target=lambda: found.append(check_cancelled()))
        thread.start()
        thread.join()
        with pytest.raises(GoneError):
            check_cancelled()
    assert found == [None]


def test_who_waits_within_is_asked_first():
    with cancellable(Waiter(0)):
        with cancellable(Waiter(5)):
            check_cancelled()
        with pytest.raises(GoneError):
            check_cancelled()


def test_an_answer_is_the_same_whoever_waits():
    given = (HistoryModel(2), random_source(2, 2), BeamSampler(2), Limits(6), (), Sequences.of([[3], []]))
    with cancellable(lambda: None):
        watched = decode(*given)
    assert watched == decode(*given)
