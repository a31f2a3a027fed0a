"""Series of numbers as a corpus: a noisy sine that is made here, or a column of the user's own table.

A series is a text with a number on each line, so that splits and fingerprints are those of texts. What comes last is
held out: the first 60 % are learned from, the next 20 % are validated on and the last 20 % are tested on.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from seq2see.core.errors import unknown_name
from seq2see.core.seeds import generator
from seq2see.core.settings import Settings
from seq2see.sources.csv_table import records
from seq2see.sources.data_report import DataReport, ErrorPolicy, Location
from seq2see.sources.examples import Example
from seq2see.sources.lines import Line, is_blank, read_lines

Splits = dict[str, list[Example]]
SEED = 1
"""Of the built-in series."""
HELD_OUT = 0.2
"""The share of the values that is validated on, and the share that is tested on, where nothing else is given."""
ANGULAR_STEP = 0.01
"""How far the sine turns from one value to the next."""
DECIMAL_COMMA = re.compile(r"\s*(-0,\d+|[-+]?\d+,0\d+)\s*")
"""A line that is one number with a comma for its point, and surely not two: nobody writes -0 or 07 for a whole one."""


class NoisySine(Settings):
    """A sine with noise, sin(0.01 t) + ε, made here: one slow wave, and what no model can know."""

    kind: Literal["sine"] = "sine"
    size: int = Field(1000, ge=20, le=1_000_000)
    """How many values there are."""
    noise: float = Field(0.2, ge=0)
    """Standard deviation of the noise: no model's error in one step can be less."""

    def splits(self) -> Splits:
        """Train, valid and test."""
        noise = generator(SEED, "waves").normal(0, self.noise, self.size)
        return hold_out_last({"train": np.sin(ANGULAR_STEP * np.arange(1, self.size + 1)) + noise})


class UserSeries(Settings):
    """Your own series: a column of numbers in a table, in their order."""

    kind: Literal["series"] = "series"
    paths: tuple[str, ...] = Field(min_length=1)
    """The files to learn from, one behind the other."""
    valid: tuple[str, ...] = ()
    """Files to validate on; without them the last values but those to test on are held out."""
    test: tuple[str, ...] = ()
    """Files to test on; without them the last values are held out."""
    column: str = ""
    """The column, by its name in the first line; without one the last."""

    def splits(self) -> Splits:
        """Train, valid and test."""
        return self.read()[0]

    def read(self) -> tuple[Splits, list[DataReport]]:
        """The splits, and a report of everything that was noticed, for each file."""
        given, reports = {}, list[DataReport]()
        for name, paths in (("train", self.paths), ("valid", self.valid), ("test", self.test)):
            found = [read_column(Path(path), self.column) for path in paths]
            given[name] = [value for values, _ in found for value in values]
            reports += [report for _, report in found]
        for report in reports:
            report.raise_for_errors(ErrorPolicy())
        return hold_out_last(given), reports

    def check(self) -> list[DataReport]:
        """A report of each file, whatever is wrong with it."""
        return [read_column(Path(path), self.column)[1] for path in (*self.paths, *self.valid, *self.test)]


def read_column(path: Path, column: str) -> tuple[list[float], DataReport]:
    """The numbers of one column; a cell that is no number is complained of with its place."""
    report = DataReport(unit="lines")
    rows = list(_rows(path, report))
    names = _names(rows, column)
    # A line with fewer or more cells than the others has another column last, or a comma in its number.
    columns = len(names) or _usual_column_count(cells for line, cells in rows if line.is_valid)
    place = names.index(column) if column and names else columns - 1
    found = list[float]()
    for line, cells in rows[bool(names) :]:
        one_number = not names and DECIMAL_COMMA.fullmatch(line.text)
        if len(cells) == columns and _is_number(cells[place]) and not one_number:
            found.append(float(cells[place]))
            continue
        report.rejected += 1
        if line.is_valid:  # else it has been said what is wrong with it
            kind, message = _fault(cells, columns, place)
            message = "A comma stands where a number has its point." if one_number else message
            report.add_issue("not a number" if one_number else kind, line.location(), message, text=line.text)
    if not found and report.first_error is None:
        message, hint = "There is not one number in it.", "Write one number a line."
        report.add_issue("empty file", Location(report.files[0]), message, hint=hint)
    report.kept = len(found)
    report.skipped = report.read - report.kept - report.rejected  # blank lines, and the names of the columns
    return found, report


def _names(rows: Sequence[tuple[Line, list[str]]], column: str) -> list[str]:
    """What the columns are called, if the first line says so: one is asked for by its name, or no number ends it."""
    if not rows or not rows[0][0].is_valid or not (column or not _is_number(rows[0][1][-1])):
        return []
    line, cells = rows[0]
    names = [cell.strip() for cell in cells]
    if column and column not in names:
        raise unknown_name("column", column, names, location=f"{line.file}:{line.number}")
    return names


def _fault(cells: Sequence[str], columns: int, place: int) -> tuple[str, str]:
    """The kind of what is wrong with a line, and words about it."""
    if len(cells) > columns:
        return "wrong column count", f"Expected {columns} columns, found {len(cells)}."
    cell = cells[place].strip() if len(cells) == columns else ""
    return "not a number", f"'{cell}' is not a number." if cell else "There is no number in this line."


def _usual_column_count(rows: Iterable[list[str]]) -> int:
    """How many cells most lines have; of two equally frequent numbers the smaller."""
    counts = Counter(map(len, rows))
    return min(counts, key=lambda number: (-counts[number], number), default=1)


def _rows(path: Path, report: DataReport) -> Iterator[tuple[Line, list[str]]]:
    """The lines of a table as cells, less blank ones; tabs part them in a .tsv, commas elsewhere."""
    lines = read_lines(path, report)
    if ".tsv" in path.suffixes:
        split: Iterable[tuple[Line, list[str] | None]] = ((line, line.text.split("\t")) for line in lines)
    else:
        split = ((record.line, record.fields) for record in records(lines))
    for line, cells in split:
        report.read += 1
        if cells is None or not is_blank("".join(cells)):
            yield line, cells or [line.text]


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell)) and "_" not in cell
    except ValueError:
        return False


def hold_out_last(given: Mapping[str, Iterable[float]]) -> Splits:
    """The splits as texts; what is not given is cut off from the end of the training values, test last."""
    values = {name: [float(value) for value in given.get(name, ())] for name in ("train", "valid", "test")}
    size = int(HELD_OUT * len(values["train"]))
    for name in ("test", "valid"):
        if not values[name] and size:
            values["train"], values[name] = values["train"][:-size], values["train"][-size:]
    return {
        name: [Example("", "".join(f"{value!r}\n" for value in some))] if some else [] for name, some in values.items()
    }
