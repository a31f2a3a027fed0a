"""Stop requests: finish the current step, save a checkpoint, and print how to resume.

The signal handler only sets a flag, which every loop (training, evaluation, decoding) checks once per iteration. A
second signal ends the process at once.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Self


class Interrupted(Exception):
    """Training stopped after `step` on a signal. `folder` and `saved_step` of the checkpoint are set by `runs`."""

    def __init__(self, number: int, step: int):
        super().__init__(number, step)
        self.number, self.step = number, step
        self.folder, self.saved_step = "", 0


class CallbackAborted(Exception):
    """A long callback stopped early because of a stop request."""


class StopRequest:
    """Handles SIGTERM and Ctrl-C while its context is open; `number` is the received signal, or 0."""

    def __init__(self) -> None:
        self.number = 0
        self._previous_handlers: dict[int, object] = {}

    def __bool__(self) -> bool:
        return self.number != 0

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._previous_handlers[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.number:
            raise SystemExit(128 + number)
        self.number = number
