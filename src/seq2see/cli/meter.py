"""How far a long prediction is: a bar on a screen, a plain line every few seconds in a log."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Self, TextIO

from seq2see.workbench.streaming import Progress

SECONDS = 5.0
"""In a log, a line this often."""
QUOTED = 3
"""Texts that were cut are quoted up to this many; all are counted."""


@contextlib.contextmanager
def waiting(text: str) -> Iterator[None]:
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
        self.lines = self.fresh = self.tokens = self.cut = self.remarked = self.bad = 0
        self.began = self.said = clock()
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
        if self.cut > QUOTED:
            self.say(f"{self.cut:,} texts were too long and were cut")
        if self.remarked > QUOTED:
            self.say(f"there is something to say like this about {self.remarked:,} texts in all")

    def __call__(self, progress: Progress) -> None:
        """Take in what was done, and show it if it is time."""
        self.lines += progress.lines
        self.fresh += progress.lines if progress.fresh else 0
        if self.fresh and self._first is None:
            self._first = self.fresh, self.clock()
        self.tokens += progress.tokens
        for text in progress.cut[: max(0, QUOTED - self.cut)]:
            self.say(f"this text is too long and was cut: {text[:60]} ...")
        self.cut += len(progress.cut)
        for remark in progress.remarks[: max(0, QUOTED - self.remarked)]:
            self.say(remark)
        self.remarked += len(progress.remarks)
        for told in progress.bad:
            self.say(told)
        self.bad += len(progress.bad)
        if self._bar:
            self._bar.update(self._bar.task_ids[0], completed=self.lines, figures=self.figures())
        elif not self.quiet and self.clock() - self.said >= SECONDS:
            self.said = self.clock()
            self.say(f"{self.so_far()}   {self.figures()}".rstrip())

    def say(self, text: str) -> None:
        """A line that stays."""
        if self._bar:
            self._bar.console.print(f"seq2see: {text}", markup=False, highlight=False, soft_wrap=True)
        else:
            print(f"seq2see: {text}", file=self.stream, flush=True)

    def so_far(self) -> str:
        """How many lines are answered, of how many."""
        return f"{self.lines:,} lines" if self.total is None else f"{self.lines:,} of {self.total:,} lines"

    def speeds(self) -> str:
        """How fast it has gone since this call began; nothing is said of what is not counted yet."""
        seconds = max(self.clock() - self.began, 1e-9)
        counts = {"lines/s": self.fresh, "tokens/s": self.tokens}
        return "   ".join(f"{rate(count / seconds)} {unit}" for unit, count in counts.items() if count)

    def figures(self) -> str:
        """The speeds, and the time left if the total is known."""
        if self.total is None or self._first is None or self.fresh == self._first[0]:
            return self.speeds()
        # What was prepared before the first answer (a compiler may have run) will not take its time again.
        each = (self.clock() - self._first[1]) / (self.fresh - self._first[0])
        return f"{self.speeds()}   {duration((self.total - self.lines) * each)} left"


def rate(each_second: float) -> str:
    """So many a second; what is slow has a decimal, for it is not nothing.

    >>> rate(2345.6), rate(1.4), rate(0.24)
    ('2,346', '1', '0.2')
    """
    return f"{each_second:,.0f}" if each_second >= 1 else f"{each_second:.1g}"


def duration(seconds: float) -> str:
    """Seconds as people say them.

    >>> duration(59.4), duration(200), duration(7260)
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

    columns = (BarColumn(bar_width=24), MofNCompleteColumn(), TextColumn("{task.fields[figures]}"))
    bar = Progress(*columns, console=Console(file=stream, highlight=False), transient=True)
    bar.add_task("predict", total=total, figures="")
    return bar
