"""Progress in a terminal: a live line on a screen, plain lines in a log file."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)

from seq2see.core.errors import printable

LOG_SECONDS = 10.0
"""Seconds between progress lines in a log file."""


class Terminal:
    """Permanent lines, and below them a progress bar."""

    report_seconds = 0.2
    """The least time between two changes of the progress bar."""

    def __init__(self, task: str, total: int, unit: str = "tok"):
        self.console = Console(highlight=False, soft_wrap=True)
        self.progress = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=16), MofNCompleteColumn(),
            TextColumn("{task.fields[metrics]}"), TimeRemainingColumn(compact=True),
            console=self.console, transient=True, disable=not self.console.is_terminal,
        )  # fmt: skip
        self.total, self.unit = total, unit
        self.task = self.progress.add_task(task, total=total, metrics="")
        self._last_logged = time.monotonic()
        self._tokens, self._last_update = 0.0, time.monotonic()

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.progress.stop()

    def log(self, text: str) -> None:
        """Print a permanent line."""
        self.console.print(printable(text), markup=False)

    def step(self, step: int, metrics: dict[str, float]) -> None:
        """Receive the metrics of a training step."""
        self._tokens += metrics["tokens"]
        now = time.monotonic()
        if now - self._last_update < self.report_seconds and step < self.total:
            return
        speed = self._tokens / max(now - self._last_update, 1e-9) / 1000
        text = f"loss {metrics['loss']:.3f}  {speed:.1f}k {self.unit}/s"
        self.progress.update(self.task, completed=step, metrics=text)
        if self.progress.disable and now - self._last_logged > LOG_SECONDS:
            self._last_logged = now
            self.log(f"step {step:>6,} of {self.total:,}   {text}")
        self._tokens, self._last_update = 0.0, now

    def advance(self, label: str, count: int) -> None:
        """Advance the progress bar."""
        self.progress.update(self.task, advance=count, description=label)


def program_name() -> str:
    """The command that starts this program: its name if it is on the search path, else its file."""
    program = Path(sys.argv[0])
    if program.name != "seq2see" or shutil.which("seq2see") == str(program.absolute()):
        return "seq2see"
    return os.path.relpath(program)
