"""The progress of a long reading: a bar on a terminal if it takes more than a second, nothing in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

BAR_DELAY = 1.0
"""Seconds until the bar appears: shorter tasks show none."""


@contextmanager
def progress_bar(
    description: str, total: int, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[int], None]]:
    """Yields a function that advances the bar by a number of items."""
    bar: Any = None
    start, done = clock(), 0

    def advance(count: int) -> None:
        nonlocal bar, done
        done += count
        if bar is None and sys.stderr.isatty() and clock() - start > BAR_DELAY:
            bar = _bar(description, total)
        if bar is not None:
            bar.update(bar.task_ids[0], completed=done)

    try:
        yield advance
    finally:
        if bar is not None:
            bar.stop()


def in_batches(description: str, total: int, size: int) -> Iterator[slice]:
    """Slices of `size` items, the last one shorter, with a progress bar."""
    with progress_bar(description, total) as advance:
        for start in range(0, total, size):
            batch = slice(start, min(start + size, total))
            yield batch
            advance(batch.stop - start)


def _bar(description: str, total: int) -> Any:
    # Imported here: every task imports this file, and a prediction shows no bar of this kind.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task(description, total=total)
    bar.start()
    return bar
