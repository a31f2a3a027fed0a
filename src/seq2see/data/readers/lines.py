"""Files to bytes, and bytes to numbered lines, by strict rules.

Plain, .gz and .xz files are opened by their content and not by their name: the first bytes of a file (its magic number)
identify its compression. If they disagree with the suffix, one of the two is wrong, and a wrong guess would mean
training on garbage: so that is an error.

A line ends at the byte 0A (newline) and nowhere else; one 0D (carriage return) before it belongs to the line ending;
the rest must be UTF-8. (Text mode and `splitlines` also split at a lone 0D, at U+2028, at U+0085 and more, which
misaligns all following lines of two files.) Every issue has file, line and column.

Suspicious texts are kept unchanged, with a warning (`TextChecker`): texts decoded twice, pairs that do not belong
together, characters in two Unicode normalization forms. Training does not reveal these mistakes. Most lines are plain,
so one fast search decides whether a text needs the detailed checks.
"""

from __future__ import annotations

import gzip
import lzma
import re
import unicodedata
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from seq2see.core.documents import refuse_special
from seq2see.core.errors import UserError
from seq2see.data.readers.data_report import DataReport, Location, escape

CHUNK_SIZE = 1 << 18
"""The number of bytes that are read at a time; memory does not grow with the size of the file."""

MAGIC_BYTES: dict[bytes, str] = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\x00": "xz",
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstandard",
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
}

SUFFIXES: dict[str, str] = {".gz": "gzip", ".xz": "xz"}


def without_compression_suffix(path: Path) -> Path:
    """The path without the suffix of a compression.

    >>> str(without_compression_suffix(Path("train.de.gz")))
    'train.de'
    """
    return path.with_suffix("") if path.suffix.lower() in SUFFIXES else path


def detect_compression(start: bytes) -> str:
    """The compression or archive format of a file with these first bytes; an empty string if there is none.

    >>> detect_compression(b"\\x1f\\x8b\\x08"), detect_compression(b"Hello")
    ('gzip', '')
    """
    return next((name for magic, name in MAGIC_BYTES.items() if start.startswith(magic)), "")


def read_chunks(path: Path) -> Iterator[bytes]:
    """The decompressed content of a file in chunks, none of which is empty."""
    try:
        if path.exists():
            refuse_special(path)
        with path.open("rb") as raw:
            opened = _open_decompressed(path, raw)
            while chunk := opened.read(CHUNK_SIZE):
                yield chunk
    except EOFError:
        raise UserError(
            "The file ends in the middle of its compressed data.",
            location=str(path),
            hint="Copy or download it again.",
        ) from None
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise UserError(
            f"The compressed data are damaged: {error}.", location=str(path), hint="Copy or download it again."
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"The file cannot be read: {reason}.", location=str(path), hint="Check the path.") from None


def _open_decompressed(path: Path, raw: BinaryIO) -> BinaryIO:
    start = raw.read(8)
    raw.seek(0)
    detected = detect_compression(start) or "plain"
    expected = SUFFIXES.get(path.suffix.lower(), "plain")
    if detected != expected and (start or expected != "plain"):
        raise _suffix_mismatch(path, start, detected, expected)
    if detected == "gzip":
        return cast(BinaryIO, gzip.GzipFile(fileobj=raw, mode="rb"))
    if detected == "xz":
        return cast(BinaryIO, lzma.LZMAFile(raw, "rb"))
    return raw


def _suffix_mismatch(path: Path, start: bytes, detected: str, expected: str) -> UserError:
    magic = f"begins with the bytes {start[:6].hex(' ')}" if start else "is empty"
    if expected == "plain":
        message = f"The file {magic}: it is compressed with {detected}, but its name has no such suffix."
    elif detected == "plain":
        message = f"The file has the suffix {path.suffix} but {magic}, which is not {expected}."
    else:
        message = f"The file has the suffix {path.suffix} but {magic}, which is {detected}."
    unsupported = detected not in ("plain", "gzip", "xz")
    hint = "Decompress it first." if unsupported else "Rename the file to match its content."
    return UserError(message, location=str(path), hint=hint)


MAX_BYTES = 1 << 20
"""The largest size of a line, 1 MiB: a longer one is not a sentence but a file without line endings."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

WIDE_BYTE_ORDER_MARKS: dict[bytes, str] = {
    # The longer marks come first, because the mark of UTF-32 begins with that of UTF-16.
    b"\xff\xfe\x00\x00": "UTF-32LE",
    b"\x00\x00\xfe\xff": "UTF-32BE",
    b"\xff\xfe": "UTF-16LE",
    b"\xfe\xff": "UTF-16BE",
}

UNPACK_HINTS = {
    "gzip": "Decompress it in a pipe (gunzip -c FILE | ...), or pass it as --file.",
    "xz": "Decompress it in a pipe (xz -dc FILE | ...), or pass it as --file.",
}


class Line(NamedTuple):
    """One line and its position in the file."""

    file: str
    number: int
    """Counted from 1."""
    offset: int
    """Where the line starts, in bytes of the decompressed file."""
    text: str
    is_valid: bool = True
    """False if the line cannot be used; the report then has the reason, and `text` only serves to show the line."""

    def location(self, column: int = 0, byte: int = 0) -> Location:
        """The location of a character of this line."""
        return Location(self.file, self.number, column, self.offset + byte)


def is_blank(text: str) -> bool:
    """Whether a text has only white space and invisible format characters (Cf).

    >>> is_blank(" \\u200d\\ufeff"), is_blank(" a")
    (True, False)
    """
    if text[:1].isalnum():  # nearly every text, decided by its first letter
        return False
    return all(letter.isspace() or unicodedata.category(letter) == "Cf" for letter in text)


def file_name(path: Path) -> str:
    """The path as it is written in locations and reports; a name that is not valid Unicode is escaped."""
    return str(path).encode("utf-8", "backslashreplace").decode()


def read_lines(path: Path, report: DataReport) -> Iterator[Line]:
    """Every line of a file, in order; issues of a line or of the file are added to the report."""
    file = file_name(path)
    report.files.append(file)
    try:
        yield from split_lines(read_chunks(path), file, report)
    except UserError as error:
        report.add_issue("unreadable file", Location(file), error.message, hint=error.hint)


def split_lines(chunks: Iterator[bytes], file: str, report: DataReport) -> Iterator[Line]:
    """Every line of a file or pipe of this name, from its content in chunks."""
    first = next(chunks, b"")
    if compression := detect_compression(first):
        hint = UNPACK_HINTS.get(compression, "Decompress it first.")
        report.add_issue("unreadable file", Location(file), f"This is compressed with {compression}.", hint=hint)
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
    """Split chunks at \\n into (offset, bytes, size, whether a \\n ends it); of a huge line only the head is kept.

    >>> list(split_at_newlines([b"ab\\nc", b"d"]))
    [(0, b'ab', 2, True), (3, b'cd', 2, False)]
    """
    head, size = b"", 0  # the current, unfinished line
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
        # One byte over the limit is kept, because it may be the \r of the line ending.
        head = head + rest if size <= MAX_BYTES + 1 else (head + rest)[:1000]
    if size:
        yield start, head, size, False


def wide_encoding(head: bytes) -> str:
    """UTF-16 or UTF-32 if the first bytes of a file look like it, else an empty string.

    >>> wide_encoding("Hello".encode("utf-16-le")), wide_encoding(b"Hello")
    ('UTF-16LE', '')
    """
    for mark, encoding in WIDE_BYTE_ORDER_MARKS.items():
        if head.startswith(mark):
            return encoding
    sample = head[:4096]
    if sample.count(0) < 4:  # a few NUL characters are errors of lines, not an encoding
        return ""
    zeros = [sample[index::4].count(0) / max(len(sample[index::4]), 1) for index in range(4)]
    patterns = {
        "UTF-32LE": (0, 0.5, 1, 1),
        "UTF-32BE": (1, 1, 0.5, 0),
        "UTF-16LE": (0, 1, 0, 1),
        "UTF-16BE": (1, 0, 1, 0),
    }
    for encoding, pattern in patterns.items():
        # 0.5: zero in Latin text and not in Chinese, so any share matches.
        if all(expected == 0.5 or abs(share - expected) < 0.4 for share, expected in zip(zeros, pattern, strict=True)):
            return encoding
    return ""


def _report_encoding(file: str, encoding: str, report: DataReport) -> None:
    hint = f"Convert it: iconv -f {encoding} -t UTF-8"
    if Path(file).is_file():  # a pipe has no path
        hint += f" {file} > utf8-{Path(file).name}"
    report.add_issue("wrong encoding", Location(file, 1), f"The file is {encoding}, not UTF-8.", hint=hint)


def _decode(file: str, number: int, offset: int, raw: bytes, size: int, report: DataReport) -> Line:
    """The line as text; characters that no text may contain are added to the report."""
    if size > MAX_BYTES:
        line = Line(file, number, offset, raw[:1000].decode("utf-8", "replace"), is_valid=False)
        message = f"The line has {size:,} bytes, more than the limit of {MAX_BYTES:,}."
        report.add_issue("line too long", line.location(), message, text=line.text)
        return line
    try:
        line = Line(file, number, offset, raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = Line(file, number, offset, raw.decode("utf-8", "replace"), is_valid=False)
        column = len(raw[: error.start].decode("utf-8")) + 1
        message = f"The byte 0x{raw[error.start]:02X} is not UTF-8 here ({error.reason})."
        report.add_issue("invalid UTF-8", line.location(column, error.start), message, text=line.text)
        return line
    return line if _is_text(line, report) else line._replace(is_valid=False)


FORBIDDEN: dict[str, tuple[str, str]] = {
    "\x00": ("NUL character", "There is a NUL character (0x00) here."),
    "\ufeff": (
        "embedded byte order mark",
        "There is a byte order mark (U+FEFF, bytes EF BB BF) here.",
    ),
}


def _is_text(line: Line, report: DataReport) -> bool:
    text = line.text
    if "\x00" not in text and "\ufeff" not in text:
        return True
    if is_blank(text):  # a byte order mark on a line of its own is harmless
        return True
    column = min(text.find(letter) for letter in FORBIDDEN if letter in text)
    kind, message = FORBIDDEN[text[column]]
    report.add_issue(kind, line.location(column + 1, len(text[:column].encode())), message, text=text)
    return False


class _LineEnds:
    """Counts the two kinds of line endings of one file."""

    def __init__(self, file: str):
        self.file, self.lines, self.crlf = file, 0, 0
        self.lf = 0
        self.first_crlf = self.first_lf = 0

    def add(self, number: int, crlf: bool, ended: bool) -> None:
        """Count the ending of one line; the last line of a file may have none."""
        self.lines = number
        if crlf:
            self.crlf += 1
            self.first_crlf = self.first_crlf or number
        elif ended:
            self.lf += 1
            self.first_lf = self.first_lf or number

    def finish(self, report: DataReport) -> None:
        """Add the issues of the whole file to the report."""
        if not self.lines:
            report.add_issue("empty file", Location(self.file), "The file has 0 lines.")
        if self.crlf:
            message = f"{self.crlf:,} lines end in CRLF."
            report.add_issue("CRLF line endings", Location(self.file, self.first_crlf), message, times=self.crlf)
        if self.crlf and self.lf:
            rare = self.first_crlf if self.crlf < self.lf else self.first_lf
            message = f"{self.crlf:,} lines end in CRLF and {self.lf:,} in LF."
            report.add_issue("mixed line endings", Location(self.file, rare), message)


MAX_LENGTH_RATIO = 9
"""The largest ratio of the lengths (in bytes) of the two texts of a pair without a warning."""

# The bytes 80 to BF, the continuation bytes of UTF-8, decoded as Latin-1 and as Windows-1252.
_REST = "[\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]"

PATTERNS: dict[str, tuple[re.Pattern[str], str]] = {
    "lone carriage return": (re.compile("\r"), "There is a carriage return inside the text."),
    "unusual line separator": (
        re.compile("[\x0b\x0c\x1c-\x1f\x85\u2028\u2029]"),
        "{} is inside the text; other programs treat it as a line ending.",
    ),
    "control character": (
        re.compile("[\x01-\x09\x0e-\x1b\x7f-\x84\x86-\x9f]"),
        "The control character {} is inside the text.",
    ),
    "embedded line break": (re.compile("\n"), "There is a line break inside the text."),
    # Accented letters ("Ã©"), punctuation ("â€™"), then runs of Cyrillic, Greek and Chinese. The runs need at least
    # two characters, because a single one can be French: "é", a no-break space and "»".
    "mojibake": (
        re.compile(f"[ÂÃ]{_REST}|â[€\x80]{_REST}|(?:[ÐÑ]{_REST}){{2}}|(?:[ÎÏ]{_REST}){{2}}|(?:[ã-é]{_REST}{{2}}){{2}}"),
        "This looks like UTF-8 decoded as Latin-1: {}.",
    ),
    "special token text": (re.compile("</s>|<(?:pad|bos|eos|unk)>"), "The text contains {}."),
}

_SUSPECT = re.compile(f"[\x01-\x1f\x7f-\x9f\u2028\u2029<]|[ÂÃâÐÑÎÏã-é]{_REST}")


class TextChecker:
    """Checks every pair that is kept, and collects what can only be checked over the whole corpus."""

    def __init__(self, report: DataReport):
        self.report = report
        self.first_locations: dict[tuple[str, str], str] = {}
        self.composed = False
        self.decomposed: list[tuple[Location, str]] = []

    def check_text(self, text: str, line: Line, column: int) -> None:
        """Check one text; `column` is its first column in the line, 0 if it is quoted or escaped there."""
        if _SUSPECT.search(text):
            for kind, (pattern, message) in PATTERNS.items():
                if match := pattern.search(text):
                    location = line.location(column + match.start() if column else 0)
                    self.report.add_issue(kind, location, message.format(_quoted(match.group())), text=text)
        if not text.isascii():
            if not unicodedata.is_normalized("NFC", text):
                self.decomposed.append((line.location(), text))
            elif not self.composed:
                self.composed = not unicodedata.is_normalized("NFD", text)

    def check_pair(self, source: str, target: str, line: Line, location: str) -> None:
        """Check the length ratio of two texts, whether they are equal, and whether the pair is a duplicate."""
        short, long = sorted((len(source), len(target)))
        # A character has one to four bytes, so the bytes of most pairs need not be counted.
        if 4 * long > MAX_LENGTH_RATIO * short and (ratio := _byte_ratio(source, target)) > MAX_LENGTH_RATIO:
            message = f"One text is {ratio:.1f} times as long as the other."
            self.report.add_issue("length ratio", line.location(), message, text=f"{source}\t{target}")
        if source == target:
            self.report.add_issue("identical source and target", line.location(), "Both texts are equal.", text=source)
        first = self.first_locations.setdefault((source, target), location)
        if first is not location:
            message = f"The same pair is at {first}."
            self.report.add_issue("duplicate pair", line.location(), message, text=f"{source}\t{target}")

    def finish(self) -> None:
        """Check the whole corpus: accented letters that are one character in some texts and two in others."""
        if self.composed and self.decomposed:
            location, text = self.decomposed[0]
            times = len(self.decomposed)
            message = f"{times:,} texts are not in the normalization form NFC (this is the first), others are."
            self.report.add_issue("mixed Unicode normalization", location, message, text=text, times=times)


def _byte_ratio(source: str, target: str) -> float:
    """Length ratio in UTF-8 bytes: a Chinese character has three bytes, like the letters that it replaces."""
    short, long = sorted((len(source.encode()), len(target.encode())))
    return long / max(short, 1)


def _quoted(text: str) -> str:
    """A single character as its code point, a longer text in quotes."""
    return f"U+{ord(text):04X}" if len(text) == 1 else f"'{escape(text)}'"
