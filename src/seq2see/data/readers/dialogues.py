"""The user's own dialogues: JSON Lines with roles, a table, alternating lines, or the text of ChatML.

| format | a record |
|---|---|
| `.jsonl`, `.json` | a line `{"messages": [{"role": "user", "content": "..."}, ...]}` |
| `.csv`, `.tsv` | consecutive rows with the same dialogue id: id, role, text |
| `.txt` | lines of two speakers in alternation, the user first; a blank line ends a dialogue |
| `.txt` from `<|im_start|>` on | ChatML: `<|im_start|>role`, text, `<|im_end|>`; a blank line ends a dialogue |

A record is a dialogue: read = kept + skipped + rejected. A dialogue with an error is rejected as a whole, because a
model would learn wrong answers from a dialogue with a gap.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.core.settings import Settings
from seq2see.data.dialogue import ROLES, Dialogue, Message
from seq2see.data.examples import Example
from seq2see.data.hold_out import check_hold_out, hold_out
from seq2see.data.readers.csv_table import records
from seq2see.data.readers.data_report import DataReport, ErrorPolicy, Location
from seq2see.data.readers.lines import (
    FORBIDDEN,
    Line,
    TextChecker,
    file_name,
    is_blank,
    read_lines,
    without_compression_suffix,
)

ID_NAMES = ("dialogue", "dialog", "id", "conversation", "dialogue_id", "conversation_id")
ROLE_NAMES, TEXT_NAMES = ("role", "speaker"), ("text", "content", "message")
"""The possible names of the three columns of a table."""
SYNONYMS = {"human": "user", "bot": "assistant", "gpt": "assistant", "model": "assistant"}
"""Other names of the roles."""
BEGIN, END = "<|im_start|>", "<|im_end|>"
"""The marks of ChatML."""
EXAMPLE_LINE = '{"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]}'


class UserDialogues(Settings):
    """Your own dialogues: .jsonl with roles, a table (dialogue, role, text), alternating lines, or ChatML."""

    kind: Literal["dialogues"] = "dialogues"
    paths: tuple[str, ...] = Field(min_length=1)
    """The files of the training dialogues."""
    valid: tuple[str, ...] = ()
    """Validation dialogues; by default some of the training dialogues are held out."""
    test: tuple[str, ...] = ()
    """Test dialogues; by default some of the training dialogues are held out."""
    on_error: Literal["error", "skip"] = "error"
    """What happens at an invalid dialogue: stop with its location, or skip it and count it."""
    max_errors: int = Field(100, ge=0)
    """The most dialogues that on_error = "skip" may skip; more are an error."""

    def splits(self) -> dict[str, list[Example]]:
        """Train, valid and test."""
        return self.read()[0]

    def read(self) -> tuple[dict[str, list[Example]], list[DataReport]]:
        """The splits, and the data report of each reading."""
        policy = ErrorPolicy(self.on_error, self.max_errors)
        splits, reports = self._scan()
        for report in reports:
            report.raise_for_errors(policy)
        return hold_out(*splits, allow_overlap=True), reports

    def check(self) -> list[DataReport]:
        """The data report of each reading, without raising an error for invalid data."""
        splits, reports = self._scan()
        check_hold_out(partial(hold_out, *splits, allow_overlap=True), reports[0])
        return reports

    def _scan(self) -> tuple[tuple[list[Example], list[Example] | None, list[Example] | None], list[DataReport]]:
        readings = [scan_dialogues(list(map(Path, paths))) if paths else None for paths in self._files]
        reports = [reading[1] for reading in readings if reading]
        train, valid, test = (list[Example](reading[0]) if reading else None for reading in readings)
        return (train or [], valid, test), reports

    @property
    def _files(self) -> tuple[tuple[str, ...], ...]:
        return self.paths, self.valid, self.test


class RecordError(Exception):
    """An error of one record: the kind of the issue, its line, and the message."""

    def __init__(self, kind: str, line: Line, message: str, hint: str = ""):
        super().__init__(kind, line, message, hint)
        self.kind, self.line, self.message, self.hint = kind, line, message, hint


@dataclass
class DialogueCollector:
    """Collects the dialogues of a file; read = kept + skipped + rejected holds after every record."""

    report: DataReport
    dialogues: list[Dialogue] = field(default_factory=list)
    checker: TextChecker = field(init=False)

    def __post_init__(self) -> None:
        self.checker = TextChecker(self.report)

    def add(self, parse: Callable[[], list[tuple[Message, Line]]], line: Line) -> None:
        """Keep the dialogue that a function parses, or reject it with the error that the function raises."""
        self.report.read += 1
        try:
            rows = parse()
            check_roles([message for message, _ in rows], [row_line for _, row_line in rows] or [line])
        except RecordError as error:
            if error.kind:  # otherwise the issue of an invalid line is in the report already
                location = error.line.location()
                self.report.add_issue(error.kind, location, error.message, text=error.line.text, hint=error.hint)
            self.report.rejected += 1
            return
        self.report.kept += 1
        for message, row_line in rows:
            self.checker.check_text(message.content.replace("\n", " "), row_line, 0)
        if rows[-1][0].role == "user":
            self.report.add_issue("unanswered message", rows[-1][1].location(), "The last message has no reply.")
        self.dialogues.append(Dialogue.of([message for message, _ in rows], f"{line.file}:{line.number}"))

    def skip(self, line: Line) -> None:
        """Count an empty record."""
        self.report.read += 1
        self.report.skipped += 1
        self.report.add_issue("blank record", line.location(), "The line is blank.", text=line.text)


def check_roles(messages: Sequence[Message], lines: Sequence[Line]) -> None:
    """Raise an error unless user and assistant alternate, after at most one message of the system."""
    expected = "user"
    for index, (message, line) in enumerate(zip(messages, lines, strict=False)):
        if is_blank(message.content):
            raise RecordError("empty field", line, f"Message {index + 1} ({message.role}) is empty.")
        if index == 0 and message.role == "system":
            continue
        if message.role != expected:
            text = f"Message {index + 1} is of the {message.role}, expected one of the {expected}."
            raise RecordError("role order", line, text)
        expected = "assistant" if expected == "user" else "user"
    if not any(each.role == "assistant" for each in messages):
        raise RecordError("no reply", lines[0], "The dialogue has no message of the assistant.")


def to_role(text: str, line: Line) -> Any:
    """The role of this name."""
    name = text.strip().lower()
    role = SYNONYMS.get(name, name)
    if role not in ROLES:
        raise RecordError("unknown role", line, f"There is no role '{text.strip()[:20]}'.")
    return role


def valid_line(line: Line) -> Line:
    """The line, unless its characters are invalid, which the report lists already."""
    if not line.is_valid:
        raise RecordError("", line, "")
    return line


# --- JSON Lines ---


def read_jsonl_dialogues(lines: Iterator[Line], collector: DialogueCollector) -> None:
    """A dialogue on every line."""
    for line in lines:
        if line.is_valid and is_blank(line.text):
            collector.skip(line)
        else:
            collector.add(partial(_parse_json, line), line)


def _parse_json(line: Line) -> list[tuple[Message, Line]]:
    hint = f"Write one object per line: {EXAMPLE_LINE}."
    try:
        record = json.loads(valid_line(line).text, object_pairs_hook=partial(_without_duplicates, line))
    except json.JSONDecodeError as error:
        raise RecordError("invalid JSON", line, f"This is not JSON: {error.msg}.", hint) from None
    except (RecursionError, ValueError):
        raise RecordError("invalid JSON", line, "The brackets or numbers are too long.", hint) from None
    messages = _value(record, "messages", list, line, hint)
    rows = []
    for each in messages:
        role, content = (_value(each, key, str, line, hint) for key in ("role", "content"))
        _check_characters(content, line)
        rows.append((Message(to_role(role, line), content), line))
    return rows


def _without_duplicates(line: Line, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    tree = dict(pairs)
    if len(tree) < len(pairs):
        raise RecordError("duplicate key", line, "A key occurs twice in one object.")
    return tree


def _value(record: Any, key: str, expected: type, line: Line, hint: str) -> Any:
    """The value of a key of an object, which must have this type."""
    if not isinstance(record, dict):
        raise RecordError("wrong type", line, f"Expected an object with the key '{key}'.", hint)
    if key not in record:
        raise RecordError("missing key", line, f"The key '{key}' is missing.", hint)
    if not isinstance(record[key], expected):
        name = "a list" if expected is list else "a text"
        raise RecordError("wrong type", line, f"'{key}' must be {name}.", hint)
    return record[key]


def _check_characters(text: str, line: Line) -> None:
    """Raise an error for characters that an escape of JSON can add to a valid line."""
    for letter, (kind, message) in FORBIDDEN.items():
        if letter in text:
            raise RecordError(kind, line, message)
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise RecordError("lone surrogate", line, "There is one half of a surrogate pair, which is no character.")


# --- tables ---

Row = tuple[Line, list[str] | None]
"""A row of a table; None if its quotes are wrong."""


def read_csv_dialogues(lines: Iterator[Line], collector: DialogueCollector) -> None:
    """Rows of dialogue id, role and text, separated by commas."""

    def rows() -> Iterator[Row]:
        for record in records(lines):
            if record.fields is None and record.error[1]:
                column, message = record.error
                location = record.line.location(column)
                collector.report.add_issue("bare quote", location, message, text=record.line.text)
            yield record.line, record.fields

    _read_table(rows(), collector)


def read_tsv_dialogues(lines: Iterator[Line], collector: DialogueCollector) -> None:
    """Rows of dialogue id, role and text, separated by tabs."""
    _read_table(((line, line.text.split("\t") if line.is_valid else None) for line in lines), collector)


def _read_table(rows: Iterator[Row], collector: DialogueCollector) -> None:
    """Consecutive rows with the same id are one dialogue; a row that cannot be read belongs to the dialogue before."""
    first = next(rows, None)
    if first is None:
        return
    columns = _columns(first[1])
    if columns is None:
        columns, rows = (0, 1, 2), chain([first], rows)
    group: list[Row] = []
    name = ""
    for line, cells in rows:
        if cells is not None and all(map(is_blank, cells)):
            collector.skip(line)
            continue
        own = cells[columns[0]].strip() if cells is not None and len(cells) > columns[0] else name
        if group and own != name:
            collector.add(partial(_parse_rows, group, columns), group[0][0])
            group = []
        group, name = [*group, (line, cells)], own
    if group:
        collector.add(partial(_parse_rows, group, columns), group[0][0])


def _columns(header: list[str] | None) -> tuple[int, int, int] | None:
    """The indices of the three columns, if the first row names them."""
    names = [cell.strip().lower() for cell in header or ()]
    found = [
        next((names.index(name) for name in some if name in names), -1) for some in (ID_NAMES, ROLE_NAMES, TEXT_NAMES)
    ]
    return None if -1 in found else (found[0], found[1], found[2])


def _parse_rows(group: list[Row], columns: tuple[int, int, int]) -> list[tuple[Message, Line]]:
    parsed = []
    for line, cells in group:
        if cells is None:
            raise RecordError("", line, "")
        if len(cells) <= max(columns):
            message = f"Expected {max(columns) + 1} columns (dialogue, role, text), found {len(cells)}."
            raise RecordError("wrong column count", line, message)
        parsed.append((Message(to_role(cells[columns[1]], line), cells[columns[2]]), line))
    return parsed


# --- running text ---


def read_text_dialogues(lines: Iterator[Line], collector: DialogueCollector) -> None:
    """Alternating lines, or ChatML if the file begins with its mark; blank lines separate dialogues."""
    parse: Callable[[list[Line]], list[tuple[Message, Line]]] | None = None
    group: list[Line] = []
    is_open = False  # within a message of ChatML, a blank line belongs to the text
    for line in lines:
        if parse is None and (line.is_valid and not is_blank(line.text)):
            parse = _parse_chatml if line.text.lstrip().startswith(BEGIN) else _parse_alternating
        if parse is _parse_chatml and line.is_valid:
            is_open = END not in line.text and (is_open or BEGIN in line.text)
        if line.is_valid and is_blank(line.text) and not is_open:
            if group:
                collector.add(partial(parse or _parse_alternating, group), group[0])
            group = []
        else:
            group.append(line)
    if group:
        collector.add(partial(parse or _parse_alternating, group), group[0])


def _parse_alternating(group: list[Line]) -> list[tuple[Message, Line]]:
    roles = ("user", "assistant")
    return [
        (Message(roles[index % 2], valid_line(line).text.strip()), line)  # type: ignore[arg-type]
        for index, line in enumerate(group)
    ]


def _parse_chatml(group: list[Line]) -> list[tuple[Message, Line]]:
    """The messages between the marks; text outside them is an error."""
    rows: list[tuple[Message, Line]] = []
    role, texts, start = None, list[str](), group[0]
    for line in map(valid_line, group):
        text = line.text
        if role is None:
            if not text.startswith(BEGIN):
                raise RecordError("broken ChatML", line, f"Expected {BEGIN} and a role.")
            role, texts, start = to_role(text.removeprefix(BEGIN), line), [], line
        elif BEGIN in text:
            raise RecordError("broken ChatML", line, f"The message before has no {END}.")
        elif text.rstrip().endswith(END):
            content = "\n".join([*texts, text.rstrip().removesuffix(END)])
            rows.append((Message(role, content), start))
            role = None
        else:
            texts.append(text)
    if role is not None:
        raise RecordError("broken ChatML", start, f"This message has no {END}.")
    return rows


READERS: dict[str, Callable[[Iterator[Line], DialogueCollector], None]] = {
    ".jsonl": read_jsonl_dialogues,
    ".json": read_jsonl_dialogues,
    ".csv": read_csv_dialogues,
    ".tsv": read_tsv_dialogues,
    ".txt": read_text_dialogues,
}


def scan_dialogues(paths: Sequence[Path]) -> tuple[list[Dialogue], DataReport]:
    """The dialogues that can be used, and the data report with all issues, without raising an error for them."""
    report = DataReport(unit="dialogues")
    collector = DialogueCollector(report)
    for path in paths:
        suffix = without_compression_suffix(path).suffix.lower()
        if suffix not in READERS:
            hint = f"Use one of {', '.join(READERS)}."
            raise UserError(
                f"The format is unknown: the file has the suffix '{suffix}'.", location=str(path), hint=hint
            )
        READERS[suffix](read_lines(path, report), collector)
    collector.checker.finish()
    if not collector.dialogues and report.first_error is None:
        report.add_issue("no examples", Location(file_name(paths[0])), "There is no dialogue in it.")
    return collector.dialogues, report


def read_dialogues(paths: Sequence[Path], policy: ErrorPolicy | None = None) -> tuple[list[Dialogue], DataReport]:
    """The dialogues of files and the data report; invalid data raise `UserError`."""
    dialogues, report = scan_dialogues(paths)
    report.raise_for_errors(policy or ErrorPolicy())
    return dialogues, report
