"""Who waits for the models: one thread works, a few questions wait in line, and the rest are told to come back.

Models share the machine's cores anyway, so answering two questions at once would make both slow; and because no two are
ever answered at once, what is watched in one cannot get mixed up with the other. Whoever has gone away by the time it
is their turn is passed over; who goes away during it, or wants what takes too long, gives up the place to the next as
soon as the work asks whether it is still wanted (`core/cancellation.py`).
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

from seq2see.core.cancellation import cancellable
from seq2see.core.errors import UserError

MAX_WAITING = 16
JOB_TIMEOUT = 120.0
"""Nobody looks at a page for longer without doubting that it works; and others wait, too."""


class QueueFull(Exception):
    """The line is full; `seconds` is how long it will probably take until it is not."""

    def __init__(self, seconds: int):
        super().__init__(seconds)
        self.retry_after = seconds


class JobCancelled(Exception):
    """Whoever wanted it has gone."""


@dataclass
class _Job:
    function: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[tuple[Any, Exception | None]]
    """What it gives, or what went wrong."""
    deadline: float = math.inf
    """When it is given up; from the moment at which it is begun."""
    cancelled: threading.Event = field(default_factory=threading.Event)

    def check(self) -> None:
        """Called by the work itself, now and then."""
        if self.cancelled.is_set():
            raise JobCancelled
        if time.monotonic() > self.deadline:
            what = f"This was given up after {JOB_TIMEOUT:.0f} seconds."
            raise UserError(what, hint="Ask for fewer tokens, fewer beams or less text.")


class JobQueue:
    """A bounded line before one thread, which nobody waits for when the program ends."""

    def __init__(self, name: str, max_waiting: int = MAX_WAITING):
        self.max_waiting, self.busy = max_waiting, False
        self.mean_seconds = 0.1  # seconds that a question takes, as far as is known
        self._jobs: deque[_Job] = deque()
        self._not_empty = threading.Condition()
        threading.Thread(target=self._run_jobs, name=name, daemon=True).start()

    async def submit(self, function: Callable[[], Any]) -> Any:
        """Wait in line, and give what the work gives; cancelled in line it is never begun, cancelled later given up."""
        loop = asyncio.get_running_loop()
        job = _Job(function, loop, loop.create_future())
        with self._not_empty:
            if len(self._jobs) >= self.max_waiting:
                raise QueueFull(math.ceil(len(self._jobs) * self.mean_seconds))
            self._jobs.append(job)
            self._not_empty.notify()
        try:
            found, error = await job.future
        except asyncio.CancelledError:
            job.cancelled.set()
            with self._not_empty, contextlib.suppress(ValueError):
                self._jobs.remove(job)
            raise
        if error is not None:
            raise error
        return found

    def _run_jobs(self) -> None:
        while True:
            with self._not_empty:
                self.busy = False
                self._not_empty.wait_for(lambda: self._jobs)
                job, self.busy = self._jobs.popleft(), True
            begun = time.monotonic()
            _run_job(job)
            self.mean_seconds += 0.2 * (time.monotonic() - begun - self.mean_seconds)


def _run_job(job: _Job) -> None:
    """One job; whatever goes wrong in it is its own affair."""
    found, error = None, None
    job.deadline = time.monotonic() + JOB_TIMEOUT
    try:
        with cancellable(job.check):
            found = job.function()
    except Exception as wrong:
        error = wrong
    except BaseException as wrong:  # that somebody wants to end the program is no reason to end this thread
        error = RuntimeError(repr(wrong))

    def deliver_result() -> None:
        if not job.future.done():  # else whoever asked has gone
            job.future.set_result((found, error))

    with contextlib.suppress(RuntimeError):  # the server has stopped meanwhile
        job.loop.call_soon_threadsafe(deliver_result)
