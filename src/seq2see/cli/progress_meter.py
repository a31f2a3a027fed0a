"""How far a long prediction is: a bar on a screen, a plain line every few seconds in a log."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Self, TextIO

from seq2see.runs.batch_inference import Progress

SECONDS = 5.0
"""In a log, a line this often."""
QUOTED = 3
"""Texts that were cut are quoted up to this many; all are counted."""


@contextlib.contextmanager
def show_status(text: str) -> Iterator[None]:
    """A sign of life, on a screen, for as long as something takes that cannot say how far it is.

    Plainly written: most models open in less time than it takes to import something that draws.
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
    """Counts lines and tokens and shows them; where answers appear on the screen, these show how far it is."""

    def __init__(
        self, total: int | None, stream: TextIO, clock: Callable[[], float] = time.monotonic, quiet: bool = False
    ):
        self.total, self.stream, self.clock, self.quiet = total, stream, clock, quiet
        self.lines = self.new_lines = self.tokens = self.truncated = self.warned = self.errors = 0
        self.began = self.last_logged = clock()
        self._first: tuple[int, float] | None = None  # how many fresh lines came first, and when
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
            self.log(f"{self.truncated:,} texts were too long and were cut")
        if self.warned > QUOTED:
            self.log(f"there is something to say like this about {self.warned:,} texts in all")

    def __call__(self, progress: Progress) -> None:
        """Take in what was done, and show it if it is time."""
        self.lines += progress.lines
        self.new_lines += progress.lines if progress.is_new else 0
        if self.new_lines and self._first is None:
            self._first = self.new_lines, self.clock()
        self.tokens += progress.tokens
        for text in progress.truncated[: max(0, QUOTED - self.truncated)]:
            self.log(f"this text is too long and was cut: {text[:60]} ...")
        self.truncated += len(progress.truncated)
        for remark in progress.warnings[: max(0, QUOTED - self.warned)]:
            self.log(remark)
        self.warned += len(progress.warnings)
        for told in progress.errors:
            self.log(told)
        self.errors += len(progress.errors)
        if self._bar:
            self._bar.update(self._bar.task_ids[0], completed=self.lines, status=self.status())
        elif not self.quiet and self.clock() - self.last_logged >= SECONDS:
            self.last_logged = self.clock()
            self.log(f"{self.progress_text()}   {self.status()}".rstrip())

    def log(self, text: str) -> None:
        """A line that stays."""
        if self._bar:
            self._bar.console.print(f"seq2see: {text}", markup=False, highlight=False, soft_wrap=True)
        else:
            print(f"seq2see: {text}", file=self.stream, flush=True)

    def progress_text(self) -> str:
        """How many lines are answered, of how many."""
        return f"{self.lines:,} lines" if self.total is None else f"{self.lines:,} of {self.total:,} lines"

    def speeds(self) -> str:
        """How fast it has gone since this call began; nothing is said of what is not counted yet."""
        seconds = max(self.clock() - self.began, 1e-9)
        counts = {"lines/s": self.new_lines, "tokens/s": self.tokens}
        return "   ".join(f"{format_rate(count / seconds)} {unit}" for unit, count in counts.items() if count)

    def status(self) -> str:
        """The speeds, and the time left if the total is known."""
        if self.total is None or self._first is None or self.new_lines == self._first[0]:
            return self.speeds()
        # What was prepared before the first answer (a compiler may have run) will not take its time again.
        each = (self.clock() - self._first[1]) / (self.new_lines - self._first[0])
        return f"{self.speeds()}   {format_duration((self.total - self.lines) * each)} left"


def format_rate(each_second: float) -> str:
    """So many a second; what is slow has a decimal, for it is not nothing.

    >>> format_rate(2345.6), format_rate(1.4), format_rate(0.24)
    ('2,346', '1', '0.2')
    """
    return f"{each_second:,.0f}" if each_second >= 1 else f"{each_second:.1g}"


def format_duration(seconds: float) -> str:
    """Seconds as people say them.

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
