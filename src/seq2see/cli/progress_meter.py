"""The progress of a long prediction: a progress bar on a screen, or a line every few seconds in a log file."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Self, TextIO

from seq2see.runs.batch_inference import Progress

SECONDS = 5.0
"""Seconds between progress lines in a log file."""
QUOTED = 3
"""The number of truncated texts that are quoted; the others are counted."""


@contextlib.contextmanager
def show_status(text: str) -> Iterator[None]:
    """Show a status text on a screen while an operation without measurable progress runs.

    The text is printed without a progress bar, because importing one takes longer than loading most models.
    """
    if not sys.stderr.isatty():
        yield
        return
    print(f"{text} ...", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print(f"\r{' ' * (len(text) + 4)}\r", end="", file=sys.stderr, flush=True)


class Meter:
    """Counts and shows lines and tokens; `quiet` if the outputs themselves appear on the screen."""

    def __init__(
        self, total: int | None, stream: TextIO, clock: Callable[[], float] = time.monotonic, quiet: bool = False
    ):
        self.total, self.stream, self.clock, self.quiet = total, stream, clock, quiet
        self.lines = self.new_lines = self.tokens = self.truncated = self.warned = self.errors = 0
        self.began = self.last_logged = clock()
        self._first: tuple[int, float] | None = None  # the number of lines in the first report, and its time
        self._bar: Any = None

    def __enter__(self) -> Self:
        if self.stream.isatty() and not self.quiet:
            self._bar = _bar(self.stream, self.total)
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar:
            self._bar.stop()
        if self.truncated > QUOTED:
            self.log(f"{self.truncated:,} texts were too long and were truncated")
        if self.warned > QUOTED:
            self.log(f"{self.warned:,} texts have warnings like these")

    def __call__(self, progress: Progress) -> None:
        """Add progress, and show it if the last progress line is old enough."""
        self.lines += progress.lines
        self.new_lines += progress.lines if progress.is_new else 0
        if self.new_lines and self._first is None:
            self._first = self.new_lines, self.clock()
        self.tokens += progress.tokens
        for text in progress.truncated[: max(0, QUOTED - self.truncated)]:
            self.log(f"this text is too long and was truncated: {text[:60]} ...")
        self.truncated += len(progress.truncated)
        for warning in progress.warnings[: max(0, QUOTED - self.warned)]:
            self.log(warning)
        self.warned += len(progress.warnings)
        for message in progress.errors:
            self.log(message)
        self.errors += len(progress.errors)
        if self._bar:
            self._bar.update(self._bar.task_ids[0], completed=self.lines, status=self.status())
        elif not self.quiet and self.clock() - self.last_logged >= SECONDS:
            self.last_logged = self.clock()
            self.log(f"{self.progress_text()}   {self.status()}".rstrip())

    def log(self, text: str) -> None:
        """Print a permanent line."""
        if self._bar:
            self._bar.console.print(f"seq2see: {text}", markup=False, highlight=False, soft_wrap=True)
        else:
            print(f"seq2see: {text}", file=self.stream, flush=True)

    def progress_text(self) -> str:
        """The number of predicted lines, and of all lines if it is known."""
        return f"{self.lines:,} lines" if self.total is None else f"{self.lines:,} of {self.total:,} lines"

    def speeds(self) -> str:
        """The speeds since the start of this call; counts of zero are left out."""
        seconds = max(self.clock() - self.began, 1e-9)
        counts = {"lines/s": self.new_lines, "tokens/s": self.tokens}
        return "   ".join(f"{format_rate(count / seconds)} {unit}" for unit, count in counts.items() if count)

    def status(self) -> str:
        """The speeds, and the remaining time if the total is known."""
        if self.total is None or self._first is None or self.new_lines == self._first[0]:
            return self.speeds()
        # The time before the first report is excluded: it includes preparations such as compilation.
        seconds_per_line = (self.clock() - self._first[1]) / (self.new_lines - self._first[0])
        return f"{self.speeds()}   {format_duration((self.total - self.lines) * seconds_per_line)} left"


def format_rate(per_second: float) -> str:
    """A rate per second; rates below 1 have one significant digit.

    >>> format_rate(2345.6), format_rate(1.4), format_rate(0.24)
    ('2,346', '1', '0.2')
    """
    return f"{per_second:,.0f}" if per_second >= 1 else f"{per_second:.1g}"


def format_duration(seconds: float) -> str:
    """A duration in hours, minutes and seconds.

    >>> format_duration(59.4), format_duration(200), format_duration(7260)
    ('59 s', '3 min 20 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _bar(stream: TextIO, total: int | None) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (BarColumn(bar_width=24), MofNCompleteColumn(), TextColumn("{task.fields[status]}"))
    bar = Progress(*columns, console=Console(file=stream, highlight=False), transient=True)
    bar.add_task("predict", total=total, status="")
    return bar
