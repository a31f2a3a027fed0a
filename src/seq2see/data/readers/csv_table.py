"""CSV: the fields of every record, with its line number.

In CSV a quoted field may contain commas, doubled quotes and line endings, so a record can extend over several
lines; and a single missing quote turns the rest of a file into one field. That is why this module parses the
quotes itself: of an invalid record only the first line is rejected, with its column, and parsing continues at the next
line. Well-formed records are parsed as by Python's `csv` module.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from seq2see.data.readers.lines import MAX_BYTES, Line

MAX_RECORD_LINES = 1000
"""The most lines of one record; if its quote is still open then, the closing quote is missing."""

DELIMITER_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs"}
"""The characters that may separate the fields of a .csv; spreadsheets with a decimal comma write semicolons."""
CLEAR = 0.9
"""Another delimiter than the comma must occur equally often in this share of the lines."""

# The possessive quantifiers (*+) exclude backtracking, which would end a field at a doubled quote.
_FIELDS = {delimiter: re.compile(rf'"[^"]*+(?:""[^"]*+)*+"|[^"{delimiter}]*') for delimiter in DELIMITER_NAMES}
_QUOTED = re.compile(r'"[^"]*"')
_DECIMAL_COMMA = re.compile(r"(?<=\d),(?=\d)")


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


def find_delimiter(texts: Sequence[str]) -> str:
    """The delimiter of a table with these first lines: a comma, unless another one is far more regular.

    >>> find_delimiter(["a;b", "1,5;2", "x, y;3"]), find_delimiter(["a,b", "c;d,e"])
    (';', ',')
    """
    unquoted = [_QUOTED.sub("", text) for text in texts if text.strip()]
    shares = {}
    for delimiter in DELIMITER_NAMES:
        plain = [_DECIMAL_COMMA.sub("", text) if delimiter == "," and ";" in text else text for text in unquoted]
        counts = Counter(text.count(delimiter) for text in plain)
        shares[delimiter] = max((counts[count] for count in counts if count), default=0) / max(len(unquoted), 1)
    best = max(shares, key=lambda delimiter: shares[delimiter])
    return best if shares[best] >= CLEAR and shares[best] > shares[","] else ","


def split_fields(text: str, delimiter: str = ",") -> list[str]:
    """The fields of one complete record.

    >>> split_fields('a,"b, ""c"" d"')
    ['a', 'b, "c" d']
    """
    if '"' not in text:
        return text.split(delimiter)
    fields, start = [], 0
    while True:
        match = _FIELDS[delimiter].match(text, start)
        assert match is not None  # the second alternative also matches the empty string, so there is always a match
        field, end = match.group(), match.end()
        fields.append(field[1:-1].replace('""', '"') if field.startswith('"') else field)
        if end == len(text):
            return fields
        if text[end] != delimiter:
            raise _QuoteError(end, is_open=end == start)
        start = end + 1


def records(lines: Iterator[Line], delimiter: str = ",") -> Iterator[CsvRecord]:
    """Join lines into records; after a quote error parsing continues at the next line."""
    pending: deque[Line] = deque()  # lines that were read ahead for an invalid record
    while (line := _next(pending, lines)) is not None:
        try:
            yield CsvRecord(line, split_fields(line.text, delimiter) if line.is_valid else None)
        except _QuoteError as error:
            if not error.is_open:
                yield CsvRecord(line, None, (error.index + 1, "There is a quote in the middle of a field."))
                continue
            ahead = _lines_to_closing_quote(line, pending, lines)
            fields = _join(line, ahead, delimiter)
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


def _join(line: Line, ahead: list[Line], delimiter: str) -> list[str] | None:
    try:
        return split_fields("\n".join(part.text for part in [line, *ahead]), delimiter)
    except _QuoteError:
        return None
