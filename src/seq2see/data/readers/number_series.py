"""Series of numbers as a corpus: a generated sine with noise, or a column of the user's own table.

A series is stored as a text with a number on each line, so that splits and fingerprints are those of texts. The end is
held out: the first 60 % of the values are the training split, the next 20 % validation and the last 20 % test.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, islice
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from seq2see.core.errors import unknown_name
from seq2see.core.seeds import generator
from seq2see.core.settings import Settings
from seq2see.data.examples import Example
from seq2see.data.readers.csv_table import find_delimiter, records
from seq2see.data.readers.data_report import DataReport, ErrorPolicy, Location
from seq2see.data.readers.lines import Line, is_blank, read_lines
from seq2see.data.readers.table_columns import SAMPLE_LINES

Splits = dict[str, list[Example]]
SEED = 1
"""The seed of the generated series."""
HELD_OUT = 0.2
"""The share of the values that each of valid and test holds out, if no files are given for it."""
ANGULAR_STEP = 0.01
"""The phase increment of the sine between two values."""
DECIMAL_COMMA = re.compile(r"\s*(-0,\d+|[-+]?\d+,0\d+)\s*")
"""A line that is one number with a decimal comma, and not two: neither -0 nor 07 is written for an integer."""

NUMBER_WITH_COMMA = re.compile(r"\s*[-+]?\d+,\d+\s*")
"""A number with a decimal comma in a table whose cells are separated by semicolons."""


class NoisySine(Settings):
    """A generated sine with noise, sin(0.01 t) + ε: one slow wave, and noise that no model can predict."""

    kind: Literal["sine"] = "sine"
    size: int = Field(1000, ge=20, le=1_000_000)
    """The number of values."""
    noise: float = Field(0.2, ge=0)
    """Standard deviation of the noise, a lower bound of the one-step error of every model."""

    def splits(self) -> Splits:
        """Train, valid and test."""
        noise = generator(SEED, "waves").normal(0, self.noise, self.size)
        return hold_out_last({"train": np.sin(ANGULAR_STEP * np.arange(1, self.size + 1)) + noise})


class UserSeries(Settings):
    """Your own series: a column of numbers in a table, in their order."""

    kind: Literal["series"] = "series"
    paths: tuple[str, ...] = Field(min_length=1)
    """The training files; their values are concatenated."""
    valid: tuple[str, ...] = ()
    """Validation files; by default the values before the test values are held out."""
    test: tuple[str, ...] = ()
    """Test files; by default the last values are held out."""
    column: str = ""
    """The name of the column in the first line; by default the last column."""

    def splits(self) -> Splits:
        """Train, valid and test."""
        return self.read()[0]

    def read(self) -> tuple[Splits, list[DataReport]]:
        """The splits, and the data report of each file."""
        values, reports = {}, list[DataReport]()
        for name, paths in (("train", self.paths), ("valid", self.valid), ("test", self.test)):
            readings = [read_column(Path(path), self.column) for path in paths]
            values[name] = [number for numbers, _ in readings for number in numbers]
            reports += [report for _, report in readings]
        for report in reports:
            report.raise_for_errors(ErrorPolicy())
        return hold_out_last(values), reports

    def check(self) -> list[DataReport]:
        """The data report of each file, without raising an error for invalid data."""
        return [read_column(Path(path), self.column)[1] for path in (*self.paths, *self.valid, *self.test)]


def read_column(path: Path, column: str) -> tuple[list[float], DataReport]:
    """The numbers of one column; a cell that is not a number is an issue with its location."""
    report = DataReport(unit="lines")
    rows = list(_rows(path, report))
    names = _names(rows, column)
    # In a line with fewer or more cells than the others the last cell is of another column, or has a decimal comma.
    columns = len(names) or _usual_column_count(cells for line, cells in rows if line.is_valid)
    index = names.index(column) if column and names else columns - 1
    numbers = list[float]()
    for line, cells in rows[bool(names) :]:
        decimal_comma = not names and DECIMAL_COMMA.fullmatch(line.text)
        if len(cells) == columns and _is_number(cells[index]) and not decimal_comma:
            numbers.append(float(cells[index]))
            continue
        report.rejected += 1
        if line.is_valid:  # else its issue is already in the report
            kind, message = _cell_issue(cells, columns, index)
            if decimal_comma:
                kind, message = "not a number", "The number has a decimal comma instead of a point."
            report.add_issue(kind, line.location(), message, text=line.text)
    if not numbers and report.first_error is None:
        message, hint = "There is no number in it.", "Write one number per line."
        report.add_issue("empty file", Location(report.files[0]), message, hint=hint)
    report.kept = len(numbers)
    report.skipped = report.read - report.kept - report.rejected  # blank lines, and the header
    return numbers, report


def read_dates(path: Path) -> list[datetime]:
    """The dates of a table, one per line: the first column in which every cell after the first line is a date.

    Dates are written as 2024-01-31, with or without a time. The list is empty if no column has them.
    """
    rows = [cells for line, cells in _rows(path, DataReport()) if line.is_valid]
    for index in range(len(rows[0]) if rows else 0):
        dates = [_date(row[index]) if index < len(row) else None for row in rows]
        if dates[0] is None:
            dates.pop(0)  # the header
        if dates and None not in dates:
            return [date for date in dates if date is not None]
    return []


def _date(cell: str) -> datetime | None:
    try:
        return datetime.fromisoformat(cell.strip()) if "-" in cell else None
    except ValueError:
        return None


def _names(rows: Sequence[tuple[Line, list[str]]], column: str) -> list[str]:
    """The names of the columns, if the first line is a header: `column` is given, or its last cell is not a number."""
    if not rows or not rows[0][0].is_valid or not (column or not _is_number(rows[0][1][-1])):
        return []
    line, cells = rows[0]
    names = [cell.strip() for cell in cells]
    if column and column not in names:
        raise unknown_name("column", column, names, location=f"{line.file}:{line.number}")
    return names


def _cell_issue(cells: Sequence[str], columns: int, index: int) -> tuple[str, str]:
    """The kind of the issue of a line, and its message."""
    if len(cells) > columns:
        return "wrong column count", f"Expected {columns} columns, found {len(cells)}."
    cell = cells[index].strip() if len(cells) == columns else ""
    return "not a number", f"'{cell}' is not a number." if cell else "There is no number in this line."


def _usual_column_count(rows: Iterable[list[str]]) -> int:
    """The most frequent number of cells; of two equally frequent ones the smaller."""
    counts = Counter(map(len, rows))
    return min(counts, key=lambda count: (-counts[count], count), default=1)


def _rows(path: Path, report: DataReport) -> Iterator[tuple[Line, list[str]]]:
    """The lines of a table as cells, without blank lines; a .tsv is split at tabs, other files at their delimiter.

    In a file with semicolons, as spreadsheets write it where 3,5 is a number, a decimal comma becomes a point.
    """
    lines, delimiter = read_lines(path, report), "\t"
    if ".tsv" in path.suffixes:
        rows: Iterable[tuple[Line, list[str] | None]] = ((line, line.text.split("\t")) for line in lines)
    else:
        sample = list(islice(lines, SAMPLE_LINES))
        delimiter = find_delimiter([line.text for line in sample])
        rows = ((record.line, record.fields) for record in records(chain(sample, lines), delimiter))
    for line, cells in rows:
        report.read += 1
        if delimiter == ";" and cells and any(map(NUMBER_WITH_COMMA.fullmatch, cells)):
            cells = [cell.replace(",", ".") if NUMBER_WITH_COMMA.fullmatch(cell) else cell for cell in cells]
            report.add_issue("decimal comma", line.location(), "A comma became a decimal point.", text=line.text)
        if cells is None or not is_blank("".join(cells)):
            yield line, cells or [line.text]


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell)) and "_" not in cell
    except ValueError:
        return False


def hold_out_last(series: Mapping[str, Iterable[float]]) -> Splits:
    """The splits as texts; missing ones are held out from the end of the training values, test last."""
    values = {name: [float(value) for value in series.get(name, ())] for name in ("train", "valid", "test")}
    size = int(HELD_OUT * len(values["train"]))
    for name in ("test", "valid"):
        if not values[name] and size:
            values["train"], values[name] = values["train"][:-size], values["train"][-size:]
    return {
        name: [Example("", "".join(f"{value!r}\n" for value in numbers))] if numbers else []
        for name, numbers in values.items()
    }
