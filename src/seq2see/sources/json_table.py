"""Pairs of texts from JSON Lines: one object a line, with texts under `source` and `target` (or `text` and `label`)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from seq2see.sources.complaints import escape
from seq2see.sources.lines import FORBIDDEN, Line, file_name, is_blank, read_lines
from seq2see.sources.tables import Intake, Sides, half_named, sides_among


class _Fault(Exception):
    """What is wrong with a line: kind of the finding, column, words, and what to do if the kind's remedy is not it."""

    def __init__(self, kind: str, column: int, what: str, remedy: str = ""):
        super().__init__(kind, column, what, remedy)
        self.kind, self.column, self.what, self.remedy = kind, column, what, remedy


class _Number(str):
    """A number as it is written. As a label it is this text, as in a .csv; where a text belongs, it is a mistake."""

    __slots__ = ()


def read_jsonl(path: Path, intake: Intake) -> None:
    """One object a line; keys other than the names of the two sides are ignored."""
    for line in read_lines(path, intake.report):
        if not line.sound:
            intake.reject()
        elif is_blank(line.text):
            intake.skip(line)
        else:
            try:
                texts, intake.sides = _texts_of(line, intake.names)
            except _Fault as fault:
                place, remedy = line.place(fault.column), _remedy(path, line) or fault.remedy
                intake.report.complain(fault.kind, place, fault.what, text=line.text, remedy=remedy)
                intake.reject()
            else:
                intake.take(texts, (line, line), (0, 0))


def _remedy(path: Path, line: Line) -> str:
    """One list of all objects is a frequent mistake with a short cure; else the kind's own remedy serves."""
    is_list = line.number == 1 and line.text.lstrip().startswith("[")
    return f"Write one object a line: jq -c '.[]' {file_name(path)} > pairs.jsonl" if is_list else ""


def _texts_of(line: Line, known: tuple[Sides, ...]) -> tuple[tuple[str, str], Sides]:
    """The two texts, and what they are called."""
    found = _parse(line.text, f"Write one object a line: {_written(known[0])}.")
    if not isinstance(found, dict):
        remedy = f"Write texts in quotes: {_written(known[0])}."
        raise _Fault("wrong type", 1, f"Expected an object, found {_json_name(found)}.", remedy)
    sides = sides_among(found, known) or half_named(found, known) or known[0]
    for key in sides:
        if key not in found:
            remedy = f"Every object needs the keys {' and '.join(sides)}."
            raise _Fault("missing key", 1, f"The key '{key}' is missing.", remedy)
        if not isinstance(found[key], str) or (isinstance(found[key], _Number) and key != "label"):
            what = f"'{key}' must be a text, but is {_json_name(found[key])}."
            remedy = f"Write texts in quotes: {_written(sides)}."
            raise _Fault("wrong type", _column_of(line.text, key), what, remedy)
        _check_text(found[key], key, line)
    return (str(found[sides[0]]), str(found[sides[1]])), sides


def _written(sides: Sides) -> str:
    """An object with these two keys."""
    return f'{{"{sides[0]}": "...", "{sides[1]}": "..."}}'


def _parse(text: str, remedy: str) -> Any:
    def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for key, count in Counter(key for key, _ in pairs).items():
            if count > 1:
                what = f"The key '{escape(key)}' stands there {count} times."
                raise _Fault("duplicate key", _column_of(text, key), what)
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=without_duplicates, parse_int=_Number, parse_float=_Number)
    except json.JSONDecodeError as error:
        raise _Fault("broken JSON", error.pos + 1, f"This is not JSON: {error.msg}.", remedy) from None
    except RecursionError:
        raise _Fault("broken JSON", 1, "The brackets are nested too deeply.", remedy) from None


def _check_text(text: str, key: str, line: Line) -> None:
    """An escape such as \\u0000 can bring in what the line itself did not hold."""
    for letter, (kind, what) in FORBIDDEN.items():
        if letter in text and not is_blank(text):
            raise _Fault(kind, _column_of(line.text, key), f"In '{key}': {what}")
    try:
        text.encode()
    except UnicodeEncodeError:
        what = f"In '{key}': half of a surrogate pair stands alone, which is not a character."
        raise _Fault("lone surrogate", _column_of(line.text, key), what) from None


def _column_of(text: str, key: str) -> int:
    """Where the last mention of a key stands: of two equal keys, the one too many."""
    return text.rfind(json.dumps(key, ensure_ascii=False)) + 1


def _json_name(value: object) -> str:
    names: dict[type, str] = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return names.get(type(value), "null" if value is None else "a number")
