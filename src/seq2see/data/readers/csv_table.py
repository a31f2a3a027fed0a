"""CSV: the fields of every record, with its line number.

In CSV a quoted field may contain commas, doubled quotes and line endings, so a record can extend over several
lines; and a single missing quote turns the rest of a file into one field. That is why this module parses the
quotes itself: of an invalid record only the first line is rejected, with its column, and parsing continues at the next
line. Well-formed records are parsed as by Python's `csv` module.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from seq2see.data.readers.lines import MAX_BYTES, Line

MAX_RECORD_LINES = 1000
"""The most lines of one record; if its quote is still open then, the closing quote is missing."""

# The possessive quantifiers (*+) exclude backtracking, which would end a field at a doubled quote.
_FIELD = re.compile(r'"[^"]*+(?:""[^"]*+)*+"|[^",]*')


class CsvRecord(NamedTuple):
    """The fields of one record and its first line; `fields` is None if the record cannot be used."""

    line: Line
    fields: list[str] | None
    error: tuple[int, str] = (0, "")
    """Column and message of a quote error; an empty message if another error was reported before."""


class _QuoteError(Exception):
    """A quote in the middle of a field, or one that is not closed."""

    def __init__(self, index: int, is_open: bool):
        super().__init__(index, is_open)
        self.index, self.is_open = index, is_open


def split_fields(text: str) -> list[str]:
    """The fields of one complete record.

    >>> split_fields('a,"b, ""c"" d"')
    ['a', 'b, "c" d']
    """
    if '"' not in text:
        return text.split(",")
    fields, start = [], 0
    while True:
        match = _FIELD.match(text, start)
        assert match is not None  # the second alternative also matches the empty string, so there is always a match
        field, end = match.group(), match.end()
        fields.append(field[1:-1].replace('""', '"') if field.startswith('"') else field)
        if end == len(text):
            return fields
        if text[end] != ",":
            raise _QuoteError(end, is_open=end == start)
        start = end + 1


def records(lines: Iterator[Line]) -> Iterator[CsvRecord]:
    """Join lines into records; after a quote error parsing continues at the next line."""
    pending: deque[Line] = deque()  # lines that were read ahead for an invalid record
    while (line := _next(pending, lines)) is not None:
        try:
            yield CsvRecord(line, split_fields(line.text) if line.is_valid else None)
        except _QuoteError as error:
            if not error.is_open:
                yield CsvRecord(line, None, (error.index + 1, "There is a quote in the middle of a field."))
                continue
            ahead = _lines_to_closing_quote(line, pending, lines)
            fields = _join(line, ahead)
            if fields is not None:
                yield CsvRecord(line, fields if all(part.is_valid for part in ahead) else None)
            else:
                pending.extendleft(reversed(ahead))
                yield CsvRecord(line, None, (error.index + 1, "The quote that opens here is not closed."))


def _next(pending: deque[Line], lines: Iterator[Line]) -> Line | None:
    return pending.popleft() if pending else next(lines, None)


def _lines_to_closing_quote(line: Line, pending: deque[Line], lines: Iterator[Line]) -> list[Line]:
    """The lines up to the one with which the number of quotes becomes even: it closes the record."""
    ahead: list[Line] = []
    quotes, size = line.text.count('"'), len(line.text)
    while quotes % 2 and len(ahead) < MAX_RECORD_LINES - 1 and size <= MAX_BYTES:
        following = _next(pending, lines)
        if following is None:
            break
        ahead.append(following)
        quotes += following.text.count('"')
        size += len(following.text)
    return ahead


def _join(line: Line, ahead: list[Line]) -> list[str] | None:
    try:
        return split_fields("\n".join(part.text for part in [line, *ahead]))
    except _QuoteError:
        return None
