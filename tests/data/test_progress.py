"""The bar of a long reading: on a terminal, after a moment, and gone at the end."""

from __future__ import annotations

import contextlib
import io
import sys

import pytest

from seq2see.data import progress
from seq2see.data.progress import progress_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """Tells a second more at every look."""

    def __init__(self, seconds: float):
        self.now, self.seconds = 0.0, seconds

    def __call__(self) -> float:
        self.now += self.seconds
        return self.now


@pytest.fixture
def bars(monkeypatch):
    made = []

    class Bar:
        task_ids = (0,)

        def __init__(self):
            self.shown, self.stopped = [], False

        def update(self, task, completed):
            self.shown.append(completed)

        def stop(self):
            self.stopped = True

    def make(what, total):
        made.append(Bar())
        return made[-1]

    monkeypatch.setattr(progress, "_bar", make)
    return made


def test_a_bar_appears_after_a_delay_and_disappears_even_after_an_error(bars, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with contextlib.suppress(KeyboardInterrupt), progress_bar("reading", 10, Clock(0.6)) as advance:
        advance(3)
        assert not bars
        advance(4)
        raise KeyboardInterrupt
    (bar,) = bars
    assert bar.shown == [7]
    assert bar.stopped


@pytest.mark.parametrize(("stream", "seconds"), [(Terminal, 0.01), (io.StringIO, 10.0)])
def test_there_is_none_for_a_moment_or_in_a_log(bars, monkeypatch, stream, seconds):
    monkeypatch.setattr(sys, "stderr", stream())
    with progress_bar("reading", 10, Clock(seconds)) as advance:
        for _ in range(10):
            advance(1)
    assert not bars


def test_the_bar_shows_the_task_and_its_progress(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "80")
    with progress_bar("reading images", 10, Clock(2.0)) as advance:
        advance(7)
    assert "reading images" in terminal.getvalue()
    assert "7/10" in terminal.getvalue()
