"""Pairs of texts from TSV, from CSV, and from two files aligned by line.

Every format adds its pairs with `PairCollector.add`, which keeps, skips or rejects each one and counts it. No reader
omits a record by itself.

In CSV a quoted field may contain commas, doubled quotes and line endings, so a record can extend over several
lines; and a single missing quote turns the rest of a file into one field. So the quotes are
parsed here: of an invalid record only the first line is rejected, with its column, and parsing continues at the next
line. Well-formed records are parsed as by Python's `csv` module.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator
from itertools import chain, islice, zip_longest
from math import log
from pathlib import Path
from statistics import median
from typing import NamedTuple

from seq2see.data.examples import Example
from seq2see.data.readers.data_report import DataReport
from seq2see.data.readers.lines import MAX_BYTES, Line, TextChecker, file_name, is_blank, read_lines

ColumnNames = tuple[str, str]
DEFAULT_COLUMNS = ("source", "target")
IMAGE_COLUMN_NAMES = ("file", "path", "image", "file_name", "filename", "video")
IMAGE_COLUMNS = tuple((image, target) for target in ("label", "caption") for image in IMAGE_COLUMN_NAMES)
"""The possible names of the two columns of a list of images."""
COLUMN_NAMES: tuple[ColumnNames, ...] = (DEFAULT_COLUMNS, ("text", "label"), ("sentence", "label"), *IMAGE_COLUMNS)
"""The possible names of source and target, in a header and as keys; the first pair is the default."""

SAMPLE_LINES = 1000
"""The number of lines from which the column count of a table is inferred, not from the first line alone."""


class PairCollector:
    """Collects the pairs of a file; read = kept + skipped + rejected holds after every record."""

    def __init__(self, report: DataReport, names: tuple[ColumnNames, ...] = COLUMN_NAMES):
        self.report, self.names = report, names
        self.examples: list[Example] = []
        self.checker = TextChecker(report)
        self.columns = names[0]  # the names of source and target, unless the file has a header
        self.counts_before = len(report.files), report.count_severity("error")

    def reject(self) -> None:
        """Count a record that cannot be used; its issue is already in the report."""
        self.report.read += 1
        self.report.rejected += 1

    def skip(self, line: Line) -> None:
        """Count an empty record."""
        self.report.read += 1
        self.report.skipped += 1
        self.report.add_issue("blank record", line.location(), "Both fields are empty.", text=line.text)

    def add(self, texts: tuple[str, str], lines: tuple[Line, Line], starts: tuple[int, int]) -> None:
        """Keep a pair if neither text is blank; `starts` are the first columns of the two, 0 if unknown."""
        source, target = texts
        no_source, no_target = is_blank(source), is_blank(target)
        if no_source and no_target:
            self.skip(lines[0])
        elif no_source or no_target:
            empty = 0 if no_source else 1
            line, message = lines[empty], f"The {self.columns[empty]} is empty."
            self.report.add_issue("empty field", line.location(starts[empty]), message, text=line.text)
            self.reject()
        else:
            location = f"{lines[0].file}:{lines[0].number}"
            self.examples.append(Example(source, target, location=location))
            self.report.read += 1
            self.report.kept += 1
            self.checker.check_text(source, lines[0], starts[0])
            self.checker.check_text(target, lines[1], starts[1])
            self.checker.check_pair(source, target, lines[0], location)

    def finish(self) -> None:
        """Check the whole corpus; the report may contain other files, with errors of their own."""
        self.checker.finish()
        files, errors = self.counts_before
        if not self.examples and self.report.count_severity("error") == errors:
            location = Line(self.report.files[files], 0, 0, "").location()
            record = "pair of texts" if self.report.unit == "pairs" else self.report.unit.removesuffix("s")
            self.report.add_issue("no examples", location, f"There is no {record} in it.")


def find_columns(names: Collection[str], candidates: Iterable[ColumnNames] = COLUMN_NAMES) -> ColumnNames | None:
    """The first candidate of which both names are among these, if there is one.

    >>> find_columns(["id", "label", "text"]), find_columns(["text", "Quelle"])
    (('text', 'label'), None)
    """
    return next((columns for columns in candidates if set(columns) <= set(names)), None)


def find_source_column(names: Collection[str], candidates: Iterable[ColumnNames] = COLUMN_NAMES) -> ColumnNames | None:
    """The first candidate of which the source column is among these names, if there is one.

    >>> find_source_column(["id", "image"]), find_source_column(["label"])
    (('image', 'label'), None)
    """
    return next((columns for columns in candidates if columns[0] in names), None)


def usual_column_count(column_counts: Iterable[int]) -> int:
    """The most frequent number of columns, at least 2; of two equally frequent ones the smaller.

    >>> usual_column_count([3, 2, 2]), usual_column_count([1, 1]), usual_column_count([3, 3])
    (2, 2, 3)
    """
    counts = Counter(count for count in column_counts if count >= 2)
    return min(counts, key=lambda count: (-counts[count], count), default=2)


def read_tsv(path: Path, collector: PairCollector) -> None:
    """Columns separated by tabs: source, target, and further ones that are ignored (attributions). No quoting.

    A first line that names the two columns is a header and not an example: otherwise `label` would be learned as one of
    the labels. If it also names a pair that comes earlier in `collector.names`, that pair is read.
    """
    lines = read_lines(path, collector.report)
    sample = list(islice(lines, SAMPLE_LINES))
    names, indices = [cell.strip().lower() for cell in sample[0].text.split("\t")] if sample else [], (0, 1)
    if tuple(names[:2]) in collector.names and (columns := find_columns(names, collector.names)):
        collector.columns, indices = columns, (names.index(columns[0]), names.index(columns[1]))
        sample.pop(0)
    most_frequent = usual_column_count(
        line.text.count("\t") + 1 for line in sample if line.is_valid and not is_blank(line.text)
    )
    expected = max(most_frequent, max(indices) + 1)
    for line in chain(sample, lines):
        text = line.text
        if not line.is_valid:
            collector.reject()
        elif (found := text.count("\t") + 1) == expected:
            collector.add(*_cells(line, indices))
        elif is_blank(text):
            collector.skip(line)
        else:
            reject_column_count(collector, line, expected, found)


def _cells(line: Line, indices: tuple[int, int]) -> tuple[tuple[str, str], tuple[Line, Line], tuple[int, int]]:
    """The two cells with these indices, and the first column of each."""
    cells = line.text.split("\t", max(indices) + 1)
    first, second = (1 + sum(len(cell) + 1 for cell in cells[:index]) for index in indices)
    return (cells[indices[0]], cells[indices[1]]), (line, line), (first, second)


def reject_column_count(collector: PairCollector, line: Line, expected: int, found: int) -> None:
    """Reject a record with too few or too many columns."""
    message = f"Expected {expected} columns, found {found}."
    collector.report.add_issue("wrong column count", line.location(), message, text=line.text)
    collector.reject()


def read_aligned(source: Path, target: Path, collector: PairCollector) -> None:
    """Two files: line n of one is the translation of line n of the other; missing lines are never compensated."""
    lengths: tuple[list[int], list[int]] = ([], [])
    pairs = zip_longest(read_lines(source, collector.report), read_lines(target, collector.report))
    for one, other in pairs:
        for line, of_file in zip((one, other), lengths, strict=True):
            if line is not None:
                of_file.append(len(line.text))
        if one is None or other is None or not (one.is_valid and other.is_valid):
            collector.reject()
        else:
            collector.add((one.text, other.text), (one, other), (1, 1))
    names = file_name(source), file_name(target)
    counts = len(lengths[0]), len(lengths[1])
    if counts[0] != counts[1] and not any(collector.report.is_invalid(name) for name in names):
        number = divergence_line(*lengths)
        message = (
            f"{names[0]} has {counts[0]:,} lines and {names[1]} has {counts[1]:,}; "
            f"judging by the lengths of the lines, they diverge at about line {number:,}."
        )
        collector.report.add_issue("line count mismatch", Line(names[0], number, 0, "").location(), message)


def divergence_line(source: list[int], target: list[int]) -> int:
    """Estimate the line where one file lost (or gained) lines, from the lengths of all lines.

    Assume that all missing lines are consecutive: before them line i matches line i, after them the lines of the longer
    file are shifted. Of all positions, the best is the one where matched lines differ least in (log) length.

    >>> divergence_line([10, 50, 10, 90, 20], [10, 10, 90, 20])
    2
    """
    short, long = sorted((source, target), key=len)
    log_ratio = log((sum(long) / len(long) + 1) / (sum(short) / len(short) + 1))
    split = 0
    # Each position gives a better estimate of the length ratio of the languages, and this a better position.
    for _ in range(3):
        split = _best_offset(short, long, log_ratio)
        extra = len(long) - len(short)
        partners = long[:split] + long[split + extra :]
        log_ratio = median(_log_length_ratio(one, other) for one, other in zip(short, partners, strict=True))
    return split + 1


def _log_length_ratio(one: int, other: int) -> float:
    return log((other + 1) / (one + 1))


def _best_offset(short: list[int], long: list[int], log_ratio: float) -> int:
    """The number of lines before the gap that minimizes the deviation of all matched lines from this length ratio."""
    extra = len(long) - len(short)
    after = (abs(_log_length_ratio(one, other) - log_ratio) for one, other in zip(short, long[extra:], strict=True))
    cost = best = sum(after)
    offset = 0
    for index, one in enumerate(short):  # an offset larger by one changes the partner of one line
        cost += abs(_log_length_ratio(one, long[index]) - log_ratio) - abs(
            _log_length_ratio(one, long[index + extra]) - log_ratio
        )
        if cost < best - 1e-9:
            best, offset = cost, index + 1
    return offset


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


def read_csv(path: Path, collector: PairCollector) -> None:
    """Add all pairs to the collector; the columns follow from the header, without one they are the first two."""
    rows = records(read_lines(path, collector.report))
    sample = list(islice(rows, SAMPLE_LINES))
    header = _header(sample[0], collector.names) if sample else None
    expected = len(header) if header else usual_column_count(len(row.fields) for row in sample if row.fields)
    if header and not _check_header(header, sample.pop(0), collector):
        return
    columns = find_columns(header, collector.names) if header else None
    collector.columns = columns or collector.columns
    source, target = (header.index(column) for column in columns) if header and columns else (0, 1)
    for row in chain(sample, rows):
        line, fields = row.line, row.fields
        if fields is None:
            column, message = row.error
            if message:
                collector.report.add_issue("bare quote", line.location(column), message, text=line.text)
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
    """Whether the names of source and target are unique; a duplicate is an error of the whole file."""
    for column in find_columns(header, collector.names) or ():
        if header.count(column) > 1:
            message = f"Two columns are called '{column}'."
            collector.report.add_issue("duplicate column", row.line.location(), message, text=row.line.text)
            return False
    return True
