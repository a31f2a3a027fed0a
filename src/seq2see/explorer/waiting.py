"""Who waits for the models: one thread works, a few questions wait in line, and the rest are told to come back.

Models share the machine's cores anyway, so answering two questions at once would make both slow; and because no two are
ever answered at once, what is watched in one cannot get mixed up with the other. Whoever has gone away by the time it
is their turn is passed over; who goes away during it, or wants what takes too long, gives up the place to the next as
soon as the work asks whether it is still wanted (`core/patience.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from seq2see.core.errors import UserError
from seq2see.core.patience import while_wanted

MOST_WAITING = 16
SECONDS_TO_ANSWER = 120.0
"""Nobody looks at a page for longer without doubting that it works; and others wait, too."""


class Busy(Exception):
    """The line is full; `seconds` is how long it will probably take until it is not."""

    def __init__(self, seconds: int):
        super().__init__(seconds)
        self.seconds = seconds


class Unwanted(Exception):
    """Whoever wanted it has gone."""


@dataclass
class _Job:
    work: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[tuple[Any, Exception | None]]
    """What it gives, or what went wrong."""
    until: float = math.inf
    """When it is given up; from the moment at which it is begun."""
    gone: threading.Event = field(default_factory=threading.Event)

    def check(self) -> None:
        """Called by the work itself, now and then."""
        if self.gone.is_set():
            raise Unwanted
        if time.monotonic() > self.until:
            what = f"This was given up after {SECONDS_TO_ANSWER:.0f} seconds."
            raise UserError(what, remedy="Ask for fewer tokens, fewer beams or less text.")


class Line:
    """A bounded line before one thread, which nobody waits for when the program ends."""

    def __init__(self, name: str, most: int = MOST_WAITING):
        self.most, self.busy = most, False
        self.pace = 0.1  # seconds that a question takes, as far as is known
        self._jobs: deque[_Job] = deque()
        self._there = threading.Condition()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    async def turn(self, work: Callable[[], Any]) -> Any:
        """Wait in line, and give what the work gives; cancelled in line it is never begun, cancelled later given up."""
        loop = asyncio.get_running_loop()
        job = _Job(work, loop, loop.create_future())
        with self._there:
            if len(self._jobs) >= self.most:
                raise Busy(math.ceil(len(self._jobs) * self.pace))
            self._jobs.append(job)
            self._there.notify()
        try:
            found, error = await job.answer
        except asyncio.CancelledError:
            job.gone.set()
            with self._there, contextlib.suppress(ValueError):
                self._jobs.remove(job)
            raise
        if error is not None:
            raise error
        return found

    def _work(self) -> None:
        while True:
            with self._there:
                self.busy = False
                self._there.wait_for(lambda: self._jobs)
                job, self.busy = self._jobs.popleft(), True
            begun = time.monotonic()
            _do(job)
            self.pace += 0.2 * (time.monotonic() - begun - self.pace)


def _do(job: _Job) -> None:
    """One job; whatever goes wrong in it is its own affair."""
    found, error = None, None
    job.until = time.monotonic() + SECONDS_TO_ANSWER
    try:
        with while_wanted(job.check):
            found = job.work()
    except Exception as wrong:
        error = wrong
    except BaseException as wrong:  # that somebody wants to end the program is no reason to end this thread
        error = RuntimeError(repr(wrong))

    def hand_over() -> None:
        if not job.answer.done():  # else whoever asked has gone
            job.answer.set_result((found, error))

    with contextlib.suppress(RuntimeError):  # the server has stopped meanwhile
        job.loop.call_soon_threadsafe(hand_over)
