"""JSON Lines: one object per line, two values of which are a pair.

The two keys are those of the user's choice, usual ones, or those whose values look like texts and labels; a nested
object (`{"translation": {"en": ..., "de": ...}}`) has the dotted keys `translation.en` and `translation.de`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from seq2see.data.readers.data_report import escape
from seq2see.data.readers.lines import FORBIDDEN, Line, file_name, is_blank, read_lines
from seq2see.data.readers.pair_collector import PairCollector
from seq2see.data.readers.table_columns import (
    DEFAULT_COLUMNS,
    LABELS,
    SAMPLE_LINES,
    ColumnNames,
    choose_columns,
    find_columns,
    find_source_column,
)


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
    lines = read_lines(path, collector.report)
    candidates = collector.rule.names
    if collector.rule.by_content or collector.rule.chosen:
        sample = list(islice(lines, SAMPLE_LINES))
        lines = chain(sample, lines)
        keys = _choose_keys(sample, collector)
        if collector.report.counts["unclear columns"]:
            return
        candidates = (keys, *candidates) if keys else candidates
    for line in lines:
        if not line.is_valid:
            collector.reject()
        elif is_blank(line.text):
            collector.skip(line)
        else:
            try:
                texts, collector.columns = _parse_pair(line, candidates, collector.rule.labeled)
            except _JsonError as error:
                location, hint = line.location(error.column), _list_hint(path, line) or error.hint
                collector.report.add_issue(error.kind, location, error.message, text=line.text, hint=hint)
                collector.reject()
            else:
                collector.add(texts, (line, line), (0, 0))


def _choose_keys(sample: Sequence[Line], collector: PairCollector) -> ColumnNames | None:
    """The keys of source and target in these first lines, by the rule for the columns of a table."""
    records = json_rows(sample)
    if len(records) <= 1:
        return None
    keys = records[0]
    # A nested key is found by its last part, except if the user chose it by its whole path.
    names = keys if collector.rule.chosen else [key.rpartition(".")[2] for key in keys]
    choice = choose_columns([names, *records[1:]], collector.rule)
    if choice.fault:
        collector.choose([names, *records[1:]], sample[0])
    elif choice.reason:
        found = keys[choice.indices[0]], keys[choice.indices[1]]
        collector.choice = replace(
            choice, names=found, header=True, reason=choice.reason.removesuffix(" in the first line")
        )
        return found
    return None


def json_rows(sample: Sequence[Line]) -> list[list[str]]:
    """The keys of the first object, then the values of these keys in all objects; other values are empty."""
    records = []
    for line in sample:
        try:
            record = _parse(line.text, "") if line.is_valid else None
        except _JsonError:
            continue
        if isinstance(record, dict):
            records.append(flat(record))
    keys = [key for key, value in records[0].items() if isinstance(value, str)] if records else []
    values = [[str(each[key]) if isinstance(each.get(key), str) else "" for key in keys] for each in records]
    return [keys, *values] if len(keys) > 1 else []


def flat(record: dict[str, Any]) -> dict[str, Any]:
    """An object with the values of nested objects under dotted keys.

    >>> flat({"id": 1, "translation": {"en": "a pen", "de": "ein Stift"}})
    {'id': 1, 'translation.en': 'a pen', 'translation.de': 'ein Stift'}
    """
    values: dict[str, Any] = {}
    for key, value in record.items():
        values |= {f"{key}.{inner}": each for inner, each in value.items()} if isinstance(value, dict) else {key: value}
    return values


def _list_hint(path: Path, line: Line) -> str:
    """The hint for a file that is one JSON list, a frequent mistake; else an empty string."""
    is_list = line.number == 1 and line.text.lstrip().startswith("[")
    return f"Write one object per line: jq -c '.[]' {file_name(path)} > pairs.jsonl" if is_list else ""


def _parse_pair(line: Line, candidates: tuple[ColumnNames, ...], labeled: bool) -> tuple[tuple[str, str], ColumnNames]:
    """The two texts, and their keys."""
    record = _parse(line.text, f"Write one object per line: {_object_example(candidates[0])}.")
    if not isinstance(record, dict):
        hint = f"Write texts in quotes: {_object_example(candidates[0])}."
        raise _JsonError("wrong type", 1, f"Expected an object, found {_json_type(record)}.", hint)
    record = flat(record)
    columns = find_columns(record, candidates) or find_source_column(record, candidates) or candidates[0]
    for key in columns:
        may_be_number = key == columns[1] and (labeled or key in LABELS) and key not in DEFAULT_COLUMNS
        if key not in record:
            hint = f"Every object needs the keys {' and '.join(columns)}."
            raise _JsonError("missing key", 1, f"The key '{key}' is missing.", hint)
        if not isinstance(record[key], str) or (isinstance(record[key], _NumberLiteral) and not may_be_number):
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
