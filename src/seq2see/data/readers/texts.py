"""Running text as a corpus: the user's own files, or the source of Python's standard library.

A text is an example without a source. By default the end of the texts is held out: the first 90 % are the training
split, the next 5 % validation and the last 5 % test. A random split would leak information between neighboring
sentences.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.core.settings import Settings
from seq2see.data.examples import Example
from seq2see.data.readers.data_report import DataReport, ErrorPolicy, Location
from seq2see.data.readers.lines import TextChecker, file_name, read_chunks, read_lines

Splits = dict[str, list[Example]]
MAX_CHARACTERS = 2_000_000
"""The approximate number of characters that are read from Python's library."""
HELD_OUT = 0.05
"""The share of all characters that each of valid and test holds out, if no files are given for it."""
PLAIN_BYTES = bytes({*range(0x20, 0x7F), *b"\t\n"} - {*b"<"})
"""The bytes that need no check in running text (`TextChecker`); a `<` may begin the text of a special token."""


class UserTexts(Settings):
    """Your own text: one or more files of running text, in their order."""

    kind: Literal["texts"] = "texts"
    paths: tuple[str, ...] = Field(min_length=1)
    """The training files."""
    valid: tuple[str, ...] = ()
    """Validation files; by default the end of the text is held out."""
    test: tuple[str, ...] = ()
    """Test files; by default the end of the text is held out."""

    def splits(self) -> Splits:
        """Train, valid and test."""
        return self.read()[0]

    def read(self) -> tuple[Splits, list[DataReport]]:
        """The splits, and the data report of each file."""
        texts, reports = {}, []
        for name, paths in (("train", self.paths), ("valid", self.valid), ("test", self.test)):
            readings = [read_text(Path(path)) for path in paths]
            texts[name] = [text for text, _ in readings]
            reports += [report for _, report in readings]
        splits = hold_out_end(texts)
        self._check_usable(texts["train"], splits)
        return splits, reports

    def check(self) -> list[DataReport]:
        """The data report of each file, without raising an error for invalid data."""
        return [_scan(Path(path))[1] for path in (*self.paths, *self.valid, *self.test)]

    def _check_usable(self, texts: Sequence[Example], splits: Splits) -> None:
        """Raise an error if the text cannot be used by any model: an empty split, or a single character."""
        location, size = ", ".join(self.paths), sum(len(text.target) for text in texts)
        if not all(splits.values()):
            message = f"The text is too short: {size} characters cannot be split into train, valid and test."
            hint = "Use a longer text, or give files as corpus.valid and corpus.test."
            raise UserError(message, location=location, hint=hint)
        letters = set().union(*(text.target for text in texts))
        if len(visible := sorted(letter for letter in letters if not letter.isspace())) < 2:
            message = f"The text has no other character than '{visible[0]}': there is nothing to predict."
            raise UserError(message, location=location, hint="Use a text with at least two different characters.")


class PythonLibrary(Settings):
    """The source of Python's standard library: real text that is already on every machine that runs seq2see."""

    kind: Literal["python-library"] = "python-library"

    def splits(self) -> Splits:
        """Train, valid and test: modules in alphabetical order, up to `MAX_CHARACTERS`."""
        texts, size = [], 0
        for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
            text = path.read_text(encoding="utf-8", errors="replace")
            texts.append(Example("", text, location=path.name))
            size += len(text)
            if size >= MAX_CHARACTERS:
                break
        return hold_out_end({"train": texts, "valid": [], "test": []})


def read_text(path: Path) -> tuple[Example, DataReport]:
    """One file as one text; invalid data are an error with its location."""
    text, report = _scan(path)
    report.raise_for_errors(ErrorPolicy())
    return Example("", text, location=file_name(path)), report


def _scan(path: Path) -> tuple[str, DataReport]:
    """The text of a file, and its data report."""
    report, lines = DataReport(unit="lines"), list[str]()
    if text := _read_plain_ascii(path):
        report.files.append(file_name(path))
        report.read = report.kept = text.count("\n")
        return text, report
    checker = TextChecker(report)
    for line in read_lines(path, report):
        report.read += 1
        if line.is_valid:
            lines.append(line.text + "\n")
            checker.check_text(line.text.replace("\t", " "), line, 1)  # in running text a tab is a space
    checker.finish()
    report.kept, report.rejected = len(lines), report.read - len(lines)
    text = "".join(lines)
    if not text.strip() and report.first_error is None:
        message, hint = "There is no text in this file.", "Use a file that contains text."
        report.add_issue("empty file", Location(report.files[0]), message, hint=hint)
    return text, report


def _read_plain_ascii(path: Path) -> str:
    """The text of a file of plain ASCII without any issue; an empty string for all other files.

    All its lines have a line ending, none is too long, and it is not blank. This is a fast path: the line-by-line
    reader needs a fifth of a second for a megabyte.
    """
    chunks = []
    try:
        for chunk in read_chunks(path):
            if chunk.translate(None, PLAIN_BYTES) or b"\n" not in chunk:
                return ""
            chunks.append(chunk)
    except UserError:
        return ""
    text = b"".join(chunks).decode("ascii")
    return text if text.endswith("\n") and text.strip() else ""


def hold_out_end(splits: Splits) -> Splits:
    """The splits; missing ones are cut off from the end of the training texts: first test, then valid."""
    texts = splits["train"]
    size = sum(len(text.target) for text in texts)
    for name in ("test", "valid"):
        if not splits[name]:
            texts, held = _cut(texts, int(HELD_OUT * size))
            splits = {**splits, name: held}
    return {**splits, "train": texts}


def _cut(texts: Sequence[Example], size: int) -> tuple[list[Example], list[Example]]:
    """The texts without their end, and the end: `size` characters, extended to the beginning of their first line.

    If that would more than double the size, the line is cut instead: otherwise a text with few line endings would be
    held out as a whole.
    """
    remaining, end = list(texts), list[Example]()
    while remaining and size >= len(remaining[-1].target):
        size -= len(remaining[-1].target)
        end.insert(0, remaining.pop())
    if remaining and size:
        last = remaining.pop()
        middle = len(last.target) - size
        start = last.target.rfind("\n", 0, middle) + 1
        if start == 0 or middle - start > size:
            start = middle
        remaining.append(Example("", last.target[:start], location=last.location))
        end.insert(0, Example("", last.target[start:], location=last.location))
    return remaining, end
