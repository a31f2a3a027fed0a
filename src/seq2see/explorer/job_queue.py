"""A bounded job queue with one worker thread; if the queue is full, requests are rejected and may be retried.

Models share the cores of the machine, so two concurrent requests would slow each other down; and because there is one
worker, traces of two requests cannot mix. If a client disconnects, its waiting job is removed from the queue. A running
job is cancelled if its client disconnects or if it exceeds the time limit; it stops when the model's code next calls
`check_cancelled` (`decoding/engine.py`).
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
from seq2see.decoding.engine import cancellable

MAX_WAITING = 16
JOB_TIMEOUT = 120.0
"""The maximum time of a job in seconds."""


class QueueFull(Exception):
    """The queue is full; `retry_after` is the estimated time in seconds until it has space."""

    def __init__(self, retry_after: int):
        super().__init__(retry_after)
        self.retry_after = retry_after


class JobCancelled(Exception):
    """The client has disconnected."""


@dataclass
class _Job:
    function: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[tuple[Any, Exception | None]]
    """Its result, or its exception."""
    deadline: float = math.inf
    """The time at which it is cancelled; set when it starts."""
    cancelled: threading.Event = field(default_factory=threading.Event)

    def check(self) -> None:
        """Raise an error if the job is cancelled or has exceeded the time limit; the running job calls this."""
        if self.cancelled.is_set():
            raise JobCancelled
        if time.monotonic() > self.deadline:
            message = f"The request was cancelled after {JOB_TIMEOUT:.0f} seconds."
            raise UserError(message, hint="Use fewer tokens, fewer beams or a shorter text.")


class JobQueue:
    """A bounded queue with one daemon thread as its worker."""

    def __init__(self, name: str, max_waiting: int = MAX_WAITING):
        self.max_waiting, self.busy = max_waiting, False
        self.mean_seconds = 0.1  # moving average of the time of a job
        self._jobs: deque[_Job] = deque()
        self._not_empty = threading.Condition()
        threading.Thread(target=self._run_jobs, name=name, daemon=True).start()

    async def submit(self, function: Callable[[], Any]) -> Any:
        """Run a function in the worker and return its result; if this is cancelled, the job is cancelled too."""
        loop = asyncio.get_running_loop()
        job = _Job(function, loop, loop.create_future())
        with self._not_empty:
            if len(self._jobs) >= self.max_waiting:
                raise QueueFull(math.ceil(len(self._jobs) * self.mean_seconds))
            self._jobs.append(job)
            self._not_empty.notify()
        try:
            result, error = await job.future
        except asyncio.CancelledError:
            job.cancelled.set()
            with self._not_empty, contextlib.suppress(ValueError):
                self._jobs.remove(job)
            raise
        if error is not None:
            raise error
        return result

    def _run_jobs(self) -> None:
        while True:
            with self._not_empty:
                self.busy = False
                self._not_empty.wait_for(lambda: self._jobs)
                job, self.busy = self._jobs.popleft(), True
            start = time.monotonic()
            _run_job(job)
            self.mean_seconds += 0.2 * (time.monotonic() - start - self.mean_seconds)


def _run_job(job: _Job) -> None:
    """Run one job; its result or exception is delivered to the event loop that waits for it."""
    result, error = None, None
    job.deadline = time.monotonic() + JOB_TIMEOUT
    try:
        with cancellable(job.check):
            result = job.function()
    except Exception as raised:
        error = raised
    except BaseException as raised:  # SystemExit and the like must not end the worker thread
        error = RuntimeError(repr(raised))

    def deliver_result() -> None:
        if not job.future.done():  # else the client has disconnected
            job.future.set_result((result, error))

    with contextlib.suppress(RuntimeError):  # the event loop may be closed by now
        job.loop.call_soon_threadsafe(deliver_result)
