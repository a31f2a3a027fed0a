"""Pairs of texts from CSV, with every record's own line number.

In CSV a field in quotes may hold commas, doubled quotes and line ends, so a record can run over several
lines; and a single forgotten quote makes the rest of a file one field. That is why this page reads the
quotes itself: a record that does not come out right costs its first line only, named with its column, and
reading goes on at the next line. What is well formed is read as Python's `csv` module reads it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from seq2see.sources.lines import MAX_BYTES, Line, is_blank, read_lines
from seq2see.sources.tables import (
    SAMPLE_LINES,
    ColumnNames,
    PairCollector,
    find_columns,
    reject_column_count,
    usual_column_count,
)

MAX_RECORD_LINES = 1000
"""The most lines of one record; a quote that is still open then was forgotten."""

# The plus after a star forbids second thoughts: a doubled quote must not be taken for the end after all.
_FIELD = re.compile(r'"[^"]*+(?:""[^"]*+)*+"|[^",]*')


class CsvRecord(NamedTuple):
    """The fields of one record and the line where it begins; no fields where it cannot be used."""

    line: Line
    fields: list[str] | None
    error: tuple[int, str] = (0, "")
    """Column of, and words about, a quote that is wrong; nothing if another fault was told before."""


class _QuoteError(Exception):
    """A quote where none may stand, or one that is not closed."""

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
        assert match is not None  # the second alternative matches nothing at all, so there is always a match
        field, end = match.group(), match.end()
        fields.append(field[1:-1].replace('""', '"') if field.startswith('"') else field)
        if end == len(text):
            return fields
        if text[end] != ",":
            raise _QuoteError(end, is_open=end == start)
        start = end + 1


def records(lines: Iterator[Line]) -> Iterator[CsvRecord]:
    """Put lines together to records; after a wrong quote go on with the next line."""
    waiting: deque[Line] = deque()  # lines that were read ahead for a record that came to nothing
    while (line := _next(waiting, lines)) is not None:
        try:
            yield CsvRecord(line, split_fields(line.text) if line.is_valid else None)
        except _QuoteError as wrong:
            if not wrong.is_open:
                yield CsvRecord(line, None, (wrong.index + 1, "A quote stands in the middle of a field."))
                continue
            ahead = _lines_to_closing_quote(line, waiting, lines)
            fields = _join(line, ahead)
            if fields is not None:
                yield CsvRecord(line, fields if all(part.is_valid for part in ahead) else None)
            else:
                waiting.extendleft(reversed(ahead))
                yield CsvRecord(line, None, (wrong.index + 1, "The quote that opens here is not closed."))


def _next(waiting: deque[Line], lines: Iterator[Line]) -> Line | None:
    return waiting.popleft() if waiting else next(lines, None)


def _lines_to_closing_quote(line: Line, waiting: deque[Line], lines: Iterator[Line]) -> list[Line]:
    """Lines up to the one that makes the number of quotes even, which closes the record."""
    ahead: list[Line] = []
    quotes, size = line.text.count('"'), len(line.text)
    while quotes % 2 and len(ahead) < MAX_RECORD_LINES - 1 and size <= MAX_BYTES:
        following = _next(waiting, lines)
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


def read_csv(path: Path, collector: PairCollector) -> None:
    """Source and target by the names in a header row, in any order; without one, the first two columns."""
    rows = records(read_lines(path, collector.report))
    sample = list(islice(rows, SAMPLE_LINES))
    header = _header(sample[0], collector.names) if sample else None
    expected = len(header) if header else usual_column_count(len(row.fields) for row in sample if row.fields)
    if header and not _check_header(header, sample.pop(0), collector):
        return
    columns = find_columns(header, collector.names) if header else None
    collector.columns = columns or collector.columns
    source, target = (header.index(side) for side in columns) if header and columns else (0, 1)
    for row in chain(sample, rows):
        line, fields = row.line, row.fields
        if fields is None:
            column, what = row.error
            if what:
                collector.report.add_issue("bare quote", line.place(column), what, text=line.text)
            collector.reject()
        elif len(fields) == expected:
            collector.add((fields[source], fields[target]), (line, line), (0, 0))
        elif all(is_blank(field) for field in fields):
            collector.skip(line)
        else:
            reject_column_count(collector, line, expected, len(fields))


def _header(row: CsvRecord, candidates: Iterable[ColumnNames]) -> list[str] | None:
    """The names of the columns, if the first record is a header."""
    names = [field.strip().lower() for field in row.fields or []]
    return names if find_columns(names, candidates) else None


def _check_header(header: list[str], row: CsvRecord, collector: PairCollector) -> bool:
    """Two columns of one name leave open which is meant, so nothing can be read."""
    for side in find_columns(header, collector.names) or ():
        if header.count(side) > 1:
            what = f"Two columns are called '{side}'."
            collector.report.add_issue("ambiguous header", row.line.place(), what, text=row.line.text)
            return False
    return True
