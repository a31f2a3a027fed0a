"""Being asked to stop: finish the step, save, and say how to go on.

A signal handler only sets a flag; every loop (training, evaluation, decoding) looks at it at its
boundary. A second signal ends the process at once.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Self


class Interrupted(Exception):
    """Training was asked to stop after `step`; where it is saved, and up to which step, the workbench fills in."""

    def __init__(self, number: int, step: int):
        super().__init__(number, step)
        self.number, self.step = number, step
        self.folder, self.saved_step = "", 0


class CallbackAborted(Exception):
    """A long errand saw a stop request and gave up half-way."""


class StopRequest:
    """Listens to SIGTERM and Ctrl-C while it is open; `number` is the signal that came, or 0."""

    def __init__(self) -> None:
        self.number = 0
        self._before: dict[int, object] = {}

    def __bool__(self) -> bool:
        return self.number != 0

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.number:
            raise SystemExit(128 + number)
        self.number = number
