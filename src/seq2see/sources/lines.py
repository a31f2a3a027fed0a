"""Bytes to numbered lines, by one strict rule.

A line ends at the byte \\n and nowhere else; one \\r before it belongs to the line end; the rest must be
UTF-8. (Text mode and `splitlines` also cut at a lone \\r, at U+2028, at U+0085 and more, which shifts all
following lines of one file against the other.) Every complaint names file, line and column.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from seq2see.core.errors import UserError
from seq2see.sources.compression import detect_compression, read_chunks
from seq2see.sources.data_report import DataReport, Location

MAX_BYTES = 1 << 20
"""The longest line that is read: 1 MB. What is longer is no sentence, but a file without line ends."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

WIDE_BYTE_ORDER_MARKS: dict[bytes, str] = {
    # The longer marks go first: UTF-32's begins with UTF-16's.
    b"\xff\xfe\x00\x00": "UTF-32LE",
    b"\x00\x00\xfe\xff": "UTF-32BE",
    b"\xff\xfe": "UTF-16LE",
    b"\xfe\xff": "UTF-16BE",
}

UNPACK_HINTS = {
    "gzip": "Unpack it on its way (gunzip -c FILE | ...), or name it with --file.",
    "xz": "Unpack it on its way (xz -dc FILE | ...), or name it with --file.",
}


class Line(NamedTuple):
    """One line and where it stands."""

    file: str
    number: int
    """Counted from 1."""
    offset: int
    """Where the line starts, in bytes of the unpacked file."""
    text: str
    is_valid: bool = True
    """False where the line cannot be used; the report then says why, and `text` is only an impression."""

    def place(self, column: int = 0, byte: int = 0) -> Location:
        """Where a character of this line stands."""
        return Location(self.file, self.number, column, self.offset + byte)


def is_blank(text: str) -> bool:
    """Whether there is nothing to read: only white space and characters without width or look (Cf).

    >>> is_blank(" \\u200d\\ufeff"), is_blank(" a")
    (True, False)
    """
    if text[:1].isalnum():  # nearly every text, decided by its first letter
        return False
    return all(letter.isspace() or unicodedata.category(letter) == "Cf" for letter in text)


def file_name(path: Path) -> str:
    """The path as it is written in places and reports; a name that is no Unicode is escaped."""
    return str(path).encode("utf-8", "backslashreplace").decode()


def read_lines(path: Path, report: DataReport) -> Iterator[Line]:
    """Every line of a file, in order; what is wrong with a line or with the file goes to the report."""
    file = file_name(path)
    report.files.append(file)
    try:
        yield from split_lines(read_chunks(path), file, report)
    except UserError as error:
        report.add_issue("unreadable file", Location(file), error.what, hint=error.hint)


def split_lines(chunks: Iterator[bytes], file: str, report: DataReport) -> Iterator[Line]:
    """Every line of what comes in pieces, out of a file or through a pipe of this name."""
    first = next(chunks, b"")
    if packer := detect_compression(first):
        hint = UNPACK_HINTS.get(packer, "Unpack it first.")
        report.add_issue("unreadable file", Location(file), f"This is packed by {packer}.", hint=hint)
        return
    if encoding := wide_encoding(first):
        _report_encoding(file, encoding, report)
        return
    marked = first.startswith(BYTE_ORDER_MARK)
    start = len(BYTE_ORDER_MARK) if marked else 0
    if marked:
        report.add_issue("byte order mark", Location(file, 1), "The file starts with a byte order mark.")
    ends = _LineEnds(file)
    for number, (offset, raw, size, ended) in enumerate(split_at_newlines(chain([first[start:]], chunks), start), 1):
        closed = raw.endswith(b"\r") and size == len(raw)
        ends.add(number, closed, ended)
        if closed:
            raw, size = raw[:-1], size - 1
        yield _decode(file, number, offset, raw, size, report)
    ends.finish(report)


def split_at_newlines(chunks: Iterable[bytes], start: int = 0) -> Iterator[tuple[int, bytes, int, bool]]:
    """Cut pieces at \\n into (offset, bytes, size, was there a \\n); of a huge line only the head is kept.

    >>> list(cut([b"ab\\nc", b"d"]))
    [(0, b'ab', 2, True), (3, b'cd', 2, False)]
    """
    head, size = b"", 0  # the line that has begun and not yet ended
    for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            if size:
                size += len(part)
                part = head + part if size <= MAX_BYTES + 1 else head
                yield start, part, size, True
                start += size + 1
                head, size = b"", 0
            else:
                yield start, part, len(part), True
                start += len(part) + 1
        size += len(rest)
        # One byte over the limit is kept, because it may be the \r of the line end.
        head = head + rest if size <= MAX_BYTES + 1 else (head + rest)[:1000]
    if size:
        yield start, head, size, False


def wide_encoding(beginning: bytes) -> str:
    """UTF-16 or UTF-32 if a file's first bytes look like it, else nothing.

    >>> wide_encoding("Hello".encode("utf-16-le")), wide_encoding(b"Hello")
    ('UTF-16LE', '')
    """
    for mark, encoding in WIDE_BYTE_ORDER_MARKS.items():
        if beginning.startswith(mark):
            return encoding
    sample = beginning[:4096]
    if sample.count(0) < 4:  # a stray NUL or two is a fault of a line, not an encoding
        return ""
    zeros = [sample[place::4].count(0) / max(len(sample[place::4]), 1) for place in range(4)]
    patterns = {
        "UTF-32LE": (0, 0.5, 1, 1),
        "UTF-32BE": (1, 1, 0.5, 0),
        "UTF-16LE": (0, 1, 0, 1),
        "UTF-16BE": (1, 0, 1, 0),
    }
    for encoding, pattern in patterns.items():
        # A half says: zero in Latin text and not in Chinese, so either will do.
        if all(wanted == 0.5 or abs(share - wanted) < 0.4 for share, wanted in zip(zeros, pattern, strict=True)):
            return encoding
    return ""


def _report_encoding(file: str, encoding: str, report: DataReport) -> None:
    hint = f"Convert it: iconv -f {encoding} -t UTF-8"
    if Path(file).is_file():  # and not a pipe, which has no name to be opened by
        hint += f" {file} > utf8-{Path(file).name}"
    report.add_issue("other encoding", Location(file, 1), f"The file is {encoding}, not UTF-8.", hint=hint)


def _decode(file: str, number: int, offset: int, raw: bytes, size: int, report: DataReport) -> Line:
    """The line as text; what no text may hold is complained of."""
    if size > MAX_BYTES:
        line = Line(file, number, offset, raw[:1000].decode("utf-8", "replace"), is_valid=False)
        what = f"The line has {size:,} bytes, more than the limit of {MAX_BYTES:,}."
        report.add_issue("over-long line", line.place(), what, text=line.text)
        return line
    try:
        line = Line(file, number, offset, raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = Line(file, number, offset, raw.decode("utf-8", "replace"), is_valid=False)
        column = len(raw[: error.start].decode("utf-8")) + 1
        what = f"The byte 0x{raw[error.start]:02X} is not UTF-8 here ({error.reason})."
        report.add_issue("invalid UTF-8", line.place(column, error.start), what, text=line.text)
        return line
    return line if _is_text(line, report) else line._replace(is_valid=False)


FORBIDDEN: dict[str, tuple[str, str]] = {
    "\x00": ("NUL character", "A NUL character (0x00) stands here."),
    "\ufeff": (
        "byte order mark inside",
        "A byte order mark (U+FEFF, bytes EF BB BF) stands here.",
    ),
}


def _is_text(line: Line, report: DataReport) -> bool:
    text = line.text
    if "\x00" not in text and "\ufeff" not in text:
        return True
    if is_blank(text):  # a mark on a line of its own hides nothing
        return True
    column = min(text.find(letter) for letter in FORBIDDEN if letter in text)
    kind, what = FORBIDDEN[text[column]]
    report.add_issue(kind, line.place(column + 1, len(text[:column].encode())), what, text=text)
    return False


class _LineEnds:
    """Counts the two kinds of line ends of one file."""

    def __init__(self, file: str):
        self.file, self.lines, self.crlf = file, 0, 0
        self.lf = 0
        self.first_crlf = self.first_lf = 0

    def add(self, number: int, crlf: bool, ended: bool) -> None:
        """Remember how one line ended; the last line of a file may have no end at all."""
        self.lines = number
        if crlf:
            self.crlf += 1
            self.first_crlf = self.first_crlf or number
        elif ended:
            self.lf += 1
            self.first_lf = self.first_lf or number

    def finish(self, report: DataReport) -> None:
        """Tell the report what the file as a whole showed."""
        if not self.lines:
            report.add_issue("empty file", Location(self.file), "The file has 0 lines.")
        if self.crlf:
            what = f"{self.crlf:,} lines end in CRLF."
            report.add_issue("CRLF line ends", Location(self.file, self.first_crlf), what, times=self.crlf)
        if self.crlf and self.lf:
            rare = self.first_crlf if self.crlf < self.lf else self.first_lf
            what = f"{self.crlf:,} lines end in CRLF and {self.lf:,} in LF."
            report.add_issue("mixed line ends", Location(self.file, rare), what)
