"""Input lines for prediction: read from files or a pipe, and split into windows.

The lines of a window are sorted by length and predicted together. With batches of 64, the 29,000 German training lines
of Multi30k have 106 padding positions for every 100 words in the order of the file, 9.5 when sorted in windows of
1,024, 5.1 in 2,048 and 2.8 in 4,096. The work that is lost when the process is killed grows with the window; therefore
it is 2,048. The first windows are smaller, so that the first outputs appear soon.

The window boundaries depend only on the line number. After a restart, batches are therefore the same as without the
interruption, and outputs are bit-identical.
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
from seq2see.data.readers.data_report import DataReport, ErrorPolicy
from seq2see.data.readers.lines import read_lines, split_lines

FIRST_WINDOW, LARGEST_WINDOW = 64, 2048
CHUNK_BYTES = 1 << 16


@dataclass(frozen=True)
class LineWindow:
    """Consecutive lines; line numbers start at 0."""

    start: int
    texts: list[str]
    sha256: str
    """The hash of all lines from the first line of the input to the last of this window."""

    @property
    def end(self) -> int:
        """The number of the line after this window."""
        return self.start + len(self.texts)


@dataclass(frozen=True)
class LineSource:
    """An iterable of lines, and their total number if it is known."""

    texts: Iterable[str]
    total: int | None = None


def window_size(start: int) -> int:
    """The size of the window that starts at this line: 64, 128, ... up to 2,048.

    >>> [window_size(start) for start in (0, 64, 192, 1984, 4032)]
    [64, 128, 256, 2048, 2048]
    """
    return min(start + FIRST_WINDOW, LARGEST_WINDOW)


def line_windows(lines: Iterable[str]) -> Iterator[LineWindow]:
    """Split lines into windows; at most one window is in memory."""
    digest, iterator, start = hashlib.sha256(), iter(lines), 0
    while texts := list(islice(iterator, window_size(start))):
        for text in texts:
            digest.update(text.encode("utf-8", "surrogatepass") + b"\n")
        yield LineWindow(start, texts, digest.hexdigest())
        start += len(texts)


def lines_of(files: list[Path]) -> LineSource:
    """The lines of files. Regular files are validated completely before the first prediction."""
    if any(path.is_fifo() for path in files):  # for example `<(zcat new.txt.gz)`
        return LineSource(_lines_of(files))
    return LineSource(_lines_of(files), sum(1 for _ in _lines_of(files, fail_fast=False)))


def lines_of_pipe(pipe: BufferedReader, name: str = "standard input") -> LineSource:
    """The lines of a pipe, each validated when it is read."""
    return LineSource(_lines_from(pipe, name), _count(pipe))


def _lines_of(files: list[Path], fail_fast: bool = True) -> Iterator[str]:
    """Yield lines; invalid lines raise an error at once, or together with all others of their file."""
    for path in files:
        if path.is_fifo():
            with path.open("rb") as pipe:
                yield from _lines_from(pipe, str(path))
            continue
        report = DataReport()
        for line in read_lines(path, report):
            if fail_fast and not line.is_valid:
                report.raise_for_errors(ErrorPolicy())
            yield line.text
        report.raise_for_errors(ErrorPolicy())


def _lines_from(pipe: BufferedReader, name: str) -> Iterator[str]:
    report = DataReport()
    # `read1` returns the available bytes; `read` would block until a whole chunk is available.
    for line in split_lines(iter(lambda: pipe.read1(CHUNK_BYTES), b""), name, report):
        if not line.is_valid:
            report.raise_for_errors(ErrorPolicy())
        yield line.text
    if not report.counts["empty file"]:  # an empty pipe is not an error
        report.raise_for_errors(ErrorPolicy())


@contextmanager
def error_context(indices: Sequence[int] | None, index: int) -> Iterator[None]:
    """Add the line number to an error of one text, if texts are lines with `indices`."""
    try:
        yield
    except UserError as error:
        if error.location or indices is None:  # the error of an image has a location
            raise
        raise UserError(error.message, location=f"line {indices[index] + 1}", hint=error.hint) from None


def _count(pipe: BufferedReader) -> int | None:
    """The number of lines if the pipe is a redirected file (`< new.txt`), else None."""
    try:
        descriptor = pipe.fileno()
    except OSError:  # not a file of the operating system
        return None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return None
    position, count, last = os.lseek(descriptor, 0, os.SEEK_CUR), 0, b"\n"
    while chunk := os.pread(descriptor, CHUNK_BYTES, position):
        position, count, last = position + len(chunk), count + chunk.count(b"\n"), chunk[-1:]
    return count + (last != b"\n")
