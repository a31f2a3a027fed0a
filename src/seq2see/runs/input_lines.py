"""Lines to be answered: read a little ahead from files or a pipe, and cut into windows.

A window is what is sorted by length and answered together. With 64 rows side by side, the 29,000 German lines that
Multi30k trains on have for every 100 words 106 places of padding in the order of the file, 9.5 sorted in windows of
1,024, 5.1 in 2,048 and 2.8 in 4,096, while what a kill can cost grows with the window; so it is 2,048. The first ones
are smaller, that answers come soon.

Where windows begin depends on the number of the line alone. So whoever goes on after a kill builds the same
batches as if nothing had happened, and their answers are the same to the last bit.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from itertools import islice
from pathlib import Path

from seq2see.core.errors import UserError
from seq2see.sources.data_report import DataReport, ErrorPolicy
from seq2see.sources.lines import read_lines, split_lines

FIRST_WINDOW, LARGEST_WINDOW = 64, 2048
CHUNK_BYTES = 1 << 16


@dataclass(frozen=True)
class LineWindow:
    """Successive lines; the first of all has the number 0."""

    start: int
    texts: list[str]
    sha256: str
    """The hash of all lines from the very first to the last of this window."""

    @property
    def end(self) -> int:
        """The number of the line after the last."""
        return self.start + len(self.texts)


@dataclass(frozen=True)
class LineSource:
    """Lines that come one by one, and how many there will be if that is known."""

    texts: Iterable[str]
    total: int | None = None


def window_size(start: int) -> int:
    """How many lines the window that begins here takes: 64, 128, ... up to 2,048.

    >>> [window_size(start) for start in (0, 64, 192, 1984, 4032)]
    [64, 128, 256, 2048, 2048]
    """
    return min(start + FIRST_WINDOW, LARGEST_WINDOW)


def line_windows(lines: Iterable[str]) -> Iterator[LineWindow]:
    """Cut lines into windows; no more than one window is in memory."""
    running, coming, start = hashlib.sha256(), iter(lines), 0
    while texts := list(islice(coming, window_size(start))):
        for text in texts:
            running.update(text.encode("utf-8", "surrogatepass") + b"\n")
        yield LineWindow(start, texts, running.hexdigest())
        start += len(texts)


def lines_of(files: list[Path]) -> LineSource:
    """The lines of files. What can be read twice is read through and judged first, before a line is answered."""
    if any(path.is_fifo() for path in files):  # say `<(zcat new.txt.gz)`
        return LineSource(_lines_of(files))
    return LineSource(_lines_of(files), sum(1 for _ in _lines_of(files, at_once=False)))


def lines_of_pipe(pipe: BufferedReader, name: str = "standard input") -> LineSource:
    """The lines that come through a pipe, each judged when it comes."""
    return LineSource(_lines_from(pipe, name), _count(pipe))


def _lines_of(files: list[Path], at_once: bool = True) -> Iterator[str]:
    """Line after line; a bad one is told at once, or with all others of its file."""
    for path in files:
        if path.is_fifo():
            with path.open("rb") as pipe:
                yield from _lines_from(pipe, str(path))
            continue
        report = DataReport()
        for line in read_lines(path, report):
            if at_once and not line.is_valid:
                report.raise_for_errors(ErrorPolicy())
            yield line.text
        report.raise_for_errors(ErrorPolicy())


def _lines_from(pipe: BufferedReader, name: str) -> Iterator[str]:
    report = DataReport()
    # `read1` gives what is there; `read` would wait until there is a whole piece.
    for line in split_lines(iter(lambda: pipe.read1(CHUNK_BYTES), b""), name, report):
        if not line.is_valid:
            report.raise_for_errors(ErrorPolicy())
        yield line.text
    if not report.counts["empty file"]:  # a pipe through which nothing comes asks nothing
        report.raise_for_errors(ErrorPolicy())


@contextmanager
def error_context(indices: Sequence[int] | None, place: int) -> Iterator[None]:
    """What is wrong with one of many texts is told with the number of its line, where texts are lines at all."""
    try:
        yield
    except UserError as error:
        if error.location or indices is None:  # an image is known by its name
            raise
        raise UserError(error.message, location=f"line {indices[place] + 1}", hint=error.hint) from None


def _count(pipe: BufferedReader) -> int | None:
    """How many lines there are, if the pipe is really a file (`< new.txt`) that can be looked at beforehand."""
    try:
        number = pipe.fileno()
    except OSError:  # not a file of the system at all
        return None
    if not stat.S_ISREG(os.fstat(number).st_mode):
        return None
    place, count, last = os.lseek(number, 0, os.SEEK_CUR), 0, b"\n"
    while piece := os.pread(number, CHUNK_BYTES, place):
        place, count, last = place + len(piece), count + piece.count(b"\n"), piece[-1:]
    return count + (last != b"\n")
