"""What a terminal shows while something runs: a live line on a screen, plain lines in a log."""

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

LOG_SECONDS = 10.0
"""In a log, a progress line this often."""


class Terminal:
    """Lines that stay, and below them one line that moves."""

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
        self._tokens, self._since = 0.0, time.monotonic()

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.progress.stop()

    def log(self, text: str) -> None:
        """A line that stays."""
        self.console.print(text, markup=False)

    def step(self, step: int, metrics: dict[str, float]) -> None:
        """A training step was taken."""
        self._tokens += metrics["tokens"]
        now = time.monotonic()
        if now - self._since < 0.2 and step < self.total:
            return
        speed = self._tokens / max(now - self._since, 1e-9) / 1000
        text = f"loss {metrics['loss']:.3f}  {speed:.1f}k {self.unit}/s"
        self.progress.update(self.task, completed=step, metrics=text)
        if self.progress.disable and now - self._last_logged > LOG_SECONDS:
            self._last_logged = now
            self.log(f"step {step:>6,} of {self.total:,}   {text}")
        self._tokens, self._since = 0.0, now

    def advance(self, label: str, count: int) -> None:
        """Some of the total is done."""
        self.progress.update(self.task, advance=count, description=label)


def program_name() -> str:
    """How this very program is called from here: by its name if it is on the path, else by its file."""
    called = Path(sys.argv[0])
    if called.name != "seq2see" or shutil.which("seq2see") == str(called.absolute()):
        return "seq2see"
    return os.path.relpath(called)
