"""Pairs of texts from JSON Lines: one object a line, with texts under `source` and `target` (or `text` and `label`)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from seq2see.sources.data_report import escape
from seq2see.sources.lines import FORBIDDEN, Line, file_name, is_blank, read_lines
from seq2see.sources.tables import ColumnNames, PairCollector, find_columns, find_source_column


class _JsonError(Exception):
    """What is wrong with a line: kind of the finding, column, words, and what to do if the kind's remedy is not it."""

    def __init__(self, kind: str, column: int, what: str, hint: str = ""):
        super().__init__(kind, column, what, hint)
        self.kind, self.column, self.what, self.hint = kind, column, what, hint


class _NumberLiteral(str):
    """A number as it is written. As a label it is this text, as in a .csv; where a text belongs, it is a mistake."""

    __slots__ = ()


def read_jsonl(path: Path, collector: PairCollector) -> None:
    """One object a line; keys other than the names of the two sides are ignored."""
    for line in read_lines(path, collector.report):
        if not line.is_valid:
            collector.reject()
        elif is_blank(line.text):
            collector.skip(line)
        else:
            try:
                texts, collector.columns = _parse_pair(line, collector.names)
            except _JsonError as fault:
                place, hint = line.place(fault.column), _remedy(path, line) or fault.hint
                collector.report.add_issue(fault.kind, place, fault.what, text=line.text, hint=hint)
                collector.reject()
            else:
                collector.add(texts, (line, line), (0, 0))


def _remedy(path: Path, line: Line) -> str:
    """One list of all objects is a frequent mistake with a short cure; else the kind's own remedy serves."""
    is_list = line.number == 1 and line.text.lstrip().startswith("[")
    return f"Write one object a line: jq -c '.[]' {file_name(path)} > pairs.jsonl" if is_list else ""


def _parse_pair(line: Line, candidates: tuple[ColumnNames, ...]) -> tuple[tuple[str, str], ColumnNames]:
    """The two texts, and what they are called."""
    found = _parse(line.text, f"Write one object a line: {_object_example(candidates[0])}.")
    if not isinstance(found, dict):
        hint = f"Write texts in quotes: {_object_example(candidates[0])}."
        raise _JsonError("wrong type", 1, f"Expected an object, found {_json_type(found)}.", hint)
    columns = find_columns(found, candidates) or find_source_column(found, candidates) or candidates[0]
    for key in columns:
        if key not in found:
            hint = f"Every object needs the keys {' and '.join(columns)}."
            raise _JsonError("missing key", 1, f"The key '{key}' is missing.", hint)
        if not isinstance(found[key], str) or (isinstance(found[key], _NumberLiteral) and key != "label"):
            what = f"'{key}' must be a text, but is {_json_type(found[key])}."
            hint = f"Write texts in quotes: {_object_example(columns)}."
            raise _JsonError("wrong type", _column_of(line.text, key), what, hint)
        _check_text(found[key], key, line)
    return (str(found[columns[0]]), str(found[columns[1]])), columns


def _object_example(columns: ColumnNames) -> str:
    """An object with these two keys."""
    return f'{{"{columns[0]}": "...", "{columns[1]}": "..."}}'


def _parse(text: str, hint: str) -> Any:
    def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for key, count in Counter(key for key, _ in pairs).items():
            if count > 1:
                what = f"The key '{escape(key)}' stands there {count} times."
                raise _JsonError("duplicate key", _column_of(text, key), what)
        return dict(pairs)

    try:
        return json.loads(
            text, object_pairs_hook=without_duplicates, parse_int=_NumberLiteral, parse_float=_NumberLiteral
        )
    except json.JSONDecodeError as error:
        raise _JsonError("broken JSON", error.pos + 1, f"This is not JSON: {error.msg}.", hint) from None
    except RecursionError:
        raise _JsonError("broken JSON", 1, "The brackets are nested too deeply.", hint) from None


def _check_text(text: str, key: str, line: Line) -> None:
    """An escape such as \\u0000 can bring in what the line itself did not hold."""
    for letter, (kind, what) in FORBIDDEN.items():
        if letter in text and not is_blank(text):
            raise _JsonError(kind, _column_of(line.text, key), f"In '{key}': {what}")
    try:
        text.encode()
    except UnicodeEncodeError:
        what = f"In '{key}': half of a surrogate pair stands alone, which is not a character."
        raise _JsonError("lone surrogate", _column_of(line.text, key), what) from None


def _column_of(text: str, key: str) -> int:
    """Where the last mention of a key stands: of two equal keys, the one too many."""
    return text.rfind(json.dumps(key, ensure_ascii=False)) + 1


def _json_type(value: object) -> str:
    names: dict[type, str] = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return names.get(type(value), "null" if value is None else "a number")
