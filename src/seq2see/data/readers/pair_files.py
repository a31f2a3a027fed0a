"""The user's own pairs of texts, or texts with labels: TSV, CSV, JSON Lines, or two files aligned by line.

The format follows from the suffix: `.tsv` and `.txt` (columns separated by tabs), `.csv`, `.jsonl` and `.json`
(one object per line); two files are source lines and target lines. Each may be compressed as `.gz` or `.xz`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.core.settings import Settings
from seq2see.data.examples import Example
from seq2see.data.hold_out import check_hold_out, hold_out
from seq2see.data.readers.data_report import DataReport, ErrorPolicy, escape
from seq2see.data.readers.lines import FORBIDDEN, Line, file_name, is_blank, read_lines, without_compression_suffix
from seq2see.data.readers.tables import (
    COLUMN_NAMES,
    ColumnNames,
    PairCollector,
    find_columns,
    find_source_column,
    read_aligned,
    read_csv,
    read_tsv,
)


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
