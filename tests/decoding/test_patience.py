"""Work that nobody waits for any longer ends between two of its steps; other work goes on."""

from __future__ import annotations

import threading

import pytest
import torch

from seq2see.core.batch import Sequences
from seq2see.core.patience import still_wanted, while_wanted
from seq2see.decoding.beam import Beam
from seq2see.decoding.choosers import Greedy
from seq2see.decoding.engine import Limits, decode
from seq2see.decoding.numbers import forecast
from seq2see.decoding.rules import MinimumLength
from seq2see.decoding.watching import watch
from toy_decoders import HistoryModel, some_source


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

    def start(self, source, rows, room):
        return None

    def step(self, new, state):
        self.steps += 1
        return new[:, :, None], state


@pytest.mark.parametrize("chooser", [Greedy(), Beam(3)], ids=["greedy", "beam"])
@pytest.mark.parametrize("search", [decode, watch])
def test_a_search_ends_between_two_steps(search, chooser):
    model, asked = HistoryModel(1), []
    step = model.step
    model.step = lambda tokens, state: asked.append(1) or step(tokens, state)
    given = (model, some_source(1, 1), chooser, Limits(50), [MinimumLength(50)])
    with pytest.raises(GoneError), while_wanted(Waiter(4)):
        search(*given)
    assert len(asked) == 5
    assert search(*given)  # afterwards nobody is asked


def test_going_on_with_numbers_ends_too():
    model = Counts()
    with pytest.raises(GoneError), while_wanted(Waiter(3)):
        forecast(model, torch.zeros(1, 2), 50)
    assert model.steps == 3


def test_another_thread_is_not_asked():
    found = []
    with while_wanted(Waiter(0)):
        thread = threading.Thread(target=lambda: found.append(still_wanted()))
        thread.start()
        thread.join()
        with pytest.raises(GoneError):
            still_wanted()
    assert found == [None]


def test_who_waits_within_is_asked_first():
    with while_wanted(Waiter(0)):
        with while_wanted(Waiter(5)):
            still_wanted()
        with pytest.raises(GoneError):
            still_wanted()


def test_an_answer_is_the_same_whoever_waits():
    given = (HistoryModel(2), some_source(2, 2), Beam(2), Limits(6), (), Sequences.of([[3], []]))
    with while_wanted(lambda: None):
        watched = decode(*given)
    assert watched == decode(*given)
