"""The user's own pairs of texts, or texts with labels: TSV, CSV, JSON Lines, or two files aligned by line.

The format follows from the suffix: `.tsv` and `.txt` (columns separated by tabs), `.csv`, `.jsonl` and `.json`
(one object per line); two files are source lines and target lines. Each may be compressed as `.gz` or `.xz`.

Every format adds its pairs with `PairCollector.add`, which keeps, skips or rejects each one and counts it. No reader
omits a record by itself.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import chain, islice, zip_longest
from math import log
from pathlib import Path
from statistics import median
from typing import Any, Literal

from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.core.settings import Settings
from seq2see.data.examples import Example
from seq2see.data.hold_out import check_hold_out, hold_out
from seq2see.data.readers.csv_table import CsvRecord, records
from seq2see.data.readers.data_report import DataReport, ErrorPolicy, escape
from seq2see.data.readers.lines import (
    FORBIDDEN,
    Line,
    TextChecker,
    file_name,
    is_blank,
    read_lines,
    without_compression_suffix,
)

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


class UserPairs(Settings):
    """Your own pairs: one table, or two files aligned by line."""

    kind: Literal["pairs"] = "pairs"
    paths: tuple[str, ...] = Field(min_length=1, max_length=2)
    """The training pairs: one .tsv, .csv or .jsonl file, or source lines and target lines."""
    valid: tuple[str, ...] = ()
    """Validation pairs; by default some of the training pairs are held out."""
    test: tuple[str, ...] = ()
    """Test pairs; by default some of the training pairs are held out."""
    on_error: Literal["error", "skip"] = "error"
    """What happens at an invalid line: stop with its location, or skip the pair and count it."""
    max_errors: int = Field(100, ge=0)
    """The most pairs that on_error = "skip" may skip; more are an error."""

    overlap: Literal["error", "allow"] = "error"
    """What happens if a test source is also in the training pairs: stop with an error, or allow it."""

    def splits(self) -> dict[str, list[Example]]:
        """Train, valid and test."""
        return self.read()[0]

    def read(self) -> tuple[dict[str, list[Example]], list[DataReport]]:
        """The splits, and the data report of each reading."""
        policy = ErrorPolicy(self.on_error, self.max_errors)
        readings = [
            read_pairs([Path(path) for path in paths], policy) if paths else None
            for paths in (self.paths, self.valid, self.test)
        ]
        reports = [reading[1] for reading in readings if reading]
        for report in reports:
            self._drop_irrelevant_issues(report)
        train, valid, test = (reading[0] if reading else None for reading in readings)
        allow = self.overlap == "allow"
        return hold_out(train or [], valid, test, allow_overlap=allow, labels=self._labels), reports

    def check(self) -> list[DataReport]:
        """The data report of each reading, without raising an error for invalid data."""
        files = (self.paths, self.valid, self.test)
        readings = [scan_pairs([Path(path) for path in paths]) if paths else None for paths in files]
        reports = [reading[1] for reading in readings if reading]
        for report in reports:
            self._drop_irrelevant_issues(report)
        train, valid, test = (reading[0] if reading else None for reading in readings)
        hold = partial(hold_out, train or [], valid, test, allow_overlap=True, labels=self._labels)
        check_hold_out(hold, reports[0])
        return reports

    def _drop_irrelevant_issues(self, report: DataReport) -> None:
        """Remove the issues that do not apply to data of this kind."""

    def _labels(self, example: Example) -> Collection[str]:
        """The labels of an example, which hold-out must keep in training; pairs of texts have none."""
        return ()


class UserLabeledTexts(UserPairs):
    """Your own texts with labels: one table, or two files aligned by line."""

    kind: Literal["labeled"] = "labeled"  # type: ignore[assignment]

    def _drop_irrelevant_issues(self, report: DataReport) -> None:
        """A label is short, whatever the length of its text."""
        report.discard_issues("length ratio")

    def _labels(self, example: Example) -> Collection[str]:
        """Its label."""
        return (example.target,)


class _JsonError(Exception):
    """An invalid line: kind of the issue, column, message, and a hint if it differs from that of the kind."""

    def __init__(self, kind: str, column: int, message: str, hint: str = ""):
        super().__init__(kind, column, message, hint)
        self.kind, self.column, self.message, self.hint = kind, column, message, hint


class _NumberLiteral(str):
    """A number as it is written. It is valid as a label, as in a .csv, and an error in place of a text."""

    __slots__ = ()


def read_jsonl(path: Path, collector: PairCollector) -> None:
    """Add all pairs to the collector; keys other than those of source and target are ignored."""
    for line in read_lines(path, collector.report):
        if not line.is_valid:
            collector.reject()
        elif is_blank(line.text):
            collector.skip(line)
        else:
            try:
                texts, collector.columns = _parse_pair(line, collector.names)
            except _JsonError as error:
                location, hint = line.location(error.column), _list_hint(path, line) or error.hint
                collector.report.add_issue(error.kind, location, error.message, text=line.text, hint=hint)
                collector.reject()
            else:
                collector.add(texts, (line, line), (0, 0))


def _list_hint(path: Path, line: Line) -> str:
    """The hint for a file that is one JSON list, a frequent mistake; else an empty string."""
    is_list = line.number == 1 and line.text.lstrip().startswith("[")
    return f"Write one object per line: jq -c '.[]' {file_name(path)} > pairs.jsonl" if is_list else ""


def _parse_pair(line: Line, candidates: tuple[ColumnNames, ...]) -> tuple[tuple[str, str], ColumnNames]:
    """The two texts, and their keys."""
    record = _parse(line.text, f"Write one object per line: {_object_example(candidates[0])}.")
    if not isinstance(record, dict):
        hint = f"Write texts in quotes: {_object_example(candidates[0])}."
        raise _JsonError("wrong type", 1, f"Expected an object, found {_json_type(record)}.", hint)
    columns = find_columns(record, candidates) or find_source_column(record, candidates) or candidates[0]
    for key in columns:
        if key not in record:
            hint = f"Every object needs the keys {' and '.join(columns)}."
            raise _JsonError("missing key", 1, f"The key '{key}' is missing.", hint)
        if not isinstance(record[key], str) or (isinstance(record[key], _NumberLiteral) and key != "label"):
            message = f"'{key}' must be a text, but is {_json_type(record[key])}."
            hint = f"Write texts in quotes: {_object_example(columns)}."
            raise _JsonError("wrong type", _column_of(line.text, key), message, hint)
        _check_text(record[key], key, line)
    return (str(record[columns[0]]), str(record[columns[1]])), columns


def _object_example(columns: ColumnNames) -> str:
    """An example of an object with these two keys."""
    return f'{{"{columns[0]}": "...", "{columns[1]}": "..."}}'


def _parse(text: str, hint: str) -> Any:
    def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for key, count in Counter(key for key, _ in pairs).items():
            if count > 1:
                message = f"The key '{escape(key)}' occurs {count} times."
                raise _JsonError("duplicate key", _column_of(text, key), message)
        return dict(pairs)

    try:
        return json.loads(
            text, object_pairs_hook=without_duplicates, parse_int=_NumberLiteral, parse_float=_NumberLiteral
        )
    except json.JSONDecodeError as error:
        raise _JsonError("invalid JSON", error.pos + 1, f"This is not JSON: {error.msg}.", hint) from None
    except RecursionError:
        raise _JsonError("invalid JSON", 1, "The brackets are nested too deeply.", hint) from None


def _check_text(text: str, key: str, line: Line) -> None:
    """Check the characters again: an escape such as \\u0000 can add one that the line itself does not contain."""
    for letter, (kind, message) in FORBIDDEN.items():
        if letter in text and not is_blank(text):
            raise _JsonError(kind, _column_of(line.text, key), f"In '{key}': {message}")
    try:
        text.encode()
    except UnicodeEncodeError:
        message = f"In '{key}': there is one half of a surrogate pair, which is not a character."
        raise _JsonError("lone surrogate", _column_of(line.text, key), message) from None


def _column_of(text: str, key: str) -> int:
    """The column of the last occurrence of a key: of two equal keys, the duplicate."""
    return text.rfind(json.dumps(key, ensure_ascii=False)) + 1


def _json_type(value: object) -> str:
    names: dict[type, str] = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return names.get(type(value), "null" if value is None else "a number")


TABLE_READERS: dict[str, Callable[[Path, PairCollector], None]] = {
    ".tsv": read_tsv,
    ".txt": read_tsv,
    ".csv": read_csv,
    ".jsonl": read_jsonl,
    ".json": read_jsonl,
}


def read_pairs(paths: Sequence[Path], policy: ErrorPolicy | None = None) -> tuple[list[Example], DataReport]:
    """The pairs of one table or two aligned files, and the data report; invalid data raise `UserError`."""
    examples, report = scan_pairs(paths)
    report.raise_for_errors(policy or ErrorPolicy())
    return examples, report


def wrong_file_count(count: int) -> UserError:
    """The error for too many files, or none."""
    return UserError(
        f"Pairs are read from one file or two, not from {count}.",
        hint="Give one table (.tsv, .csv, .jsonl), or two files: source lines and target lines.",
    )


def scan_pairs(
    paths: Sequence[Path], report: DataReport | None = None, names: tuple[ColumnNames, ...] = COLUMN_NAMES
) -> tuple[list[Example], DataReport]:
    """The pairs that can be used, and the data report with all issues, without raising an error for them.

    `names` are the possible names of source and target.
    """
    report = report or DataReport()
    collector = PairCollector(report, names)
    suffixes = [without_compression_suffix(path).suffix.lower() for path in paths]
    if len(paths) == 1:
        if suffixes[0] not in TABLE_READERS:
            raise UserError(
                f"The format is unknown: the file has the suffix '{suffixes[0]}'.",
                location=str(paths[0]),
                hint=f"Use one of {', '.join(TABLE_READERS)}, or give two files: source lines and target lines.",
            )
        TABLE_READERS[suffixes[0]](paths[0], collector)
    elif len(paths) == 2:
        for path, suffix in zip(paths, suffixes, strict=True):
            if suffix in TABLE_READERS and suffix != ".txt":
                raise UserError(
                    "Two files are read as source lines and target lines, but this one is a table.",
                    location=str(path),
                    hint="Give one table, or two files with one text per line.",
                )
        read_aligned(paths[0], paths[1], collector)
    else:
        raise wrong_file_count(len(paths))
    collector.finish()
    return collector.examples, report
