"""Running text as a corpus: the user's own files, or the source of Python's standard library.

A text is an example without a source. Where nothing else is given, the end of the texts is held out: the first 90 %
are learned from, the next 5 % are validated on and the last 5 % are tested on, because neighboring sentences know
too much of each other to be dealt out at random.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.core.settings import Settings
from seq2see.sources.compression import read_chunks
from seq2see.sources.data_report import DataReport, ErrorPolicy, Location
from seq2see.sources.examples import Example
from seq2see.sources.lines import file_name, read_lines
from seq2see.sources.text_checks import TextChecker

Splits = dict[str, list[Example]]
MAX_CHARACTERS = 2_000_000
"""Characters of Python that are learned from, about."""
HELD_OUT = 0.05
"""The share of all characters that is validated on, and the share that is tested on, where nothing else is given."""
PLAIN_BYTES = bytes({*range(0x20, 0x7F), *b"\t\n"} - {*b"<"})
"""The bytes of which nobody suspects anything in running text (`TextChecker`); a `<` may begin a special's name."""


class UserTexts(Settings):
    """Your own text: one or more files of running text, in their order."""

    kind: Literal["texts"] = "texts"
    paths: tuple[str, ...] = Field(min_length=1)
    """The files to learn from."""
    valid: tuple[str, ...] = ()
    """Files to validate on; without them the end of the text is held out."""
    test: tuple[str, ...] = ()
    """Files to test on; without them the end of the text is held out."""

    def splits(self) -> Splits:
        """Train, valid and test."""
        return self.read()[0]

    def read(self) -> tuple[Splits, list[DataReport]]:
        """The splits, and a report of everything that was noticed, for each file."""
        given, reports = {}, []
        for name, paths in (("train", self.paths), ("valid", self.valid), ("test", self.test)):
            found = [read_text(Path(path)) for path in paths]
            given[name] = [text for text, _ in found]
            reports += [report for _, report in found]
        splits = hold_out_end(given)
        self._check_usable(given["train"], splits)
        return splits, reports

    def check(self) -> list[DataReport]:
        """A report of each file, whatever is wrong with it."""
        return [_scan(Path(path))[1] for path in (*self.paths, *self.valid, *self.test)]

    def _check_usable(self, texts: Sequence[Example], splits: Splits) -> None:
        """Refuse what nothing can be learned from, or judged by, however a model reads it."""
        location, size = ", ".join(self.paths), sum(len(text.target) for text in texts)
        if not all(splits.values()):
            message = f"The text is too short: of {size} characters nothing is left to validate or test on."
            raise UserError(
                message, location=location, hint="Give a longer text, or files of their own as corpus.valid and test."
            )
        letters = set().union(*(text.target for text in texts))
        if len(seen := sorted(letter for letter in letters if not letter.isspace())) < 2:
            message = f"The text consists of nothing but '{seen[0]}': there is nothing to guess."
            raise UserError(message, location=location, hint="Give a text of at least two different characters.")


class PythonLibrary(Settings):
    """The source of Python's standard library, which every computer that runs this has: real text, of its own kind."""

    kind: Literal["python-library"] = "python-library"

    def splits(self) -> Splits:
        """Train, valid and test: modules in the order of their names, until there is enough."""
        texts, size = [], 0
        for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
            text = path.read_text(encoding="utf-8", errors="replace")
            texts.append(Example("", text, location=path.name))
            size += len(text)
            if size >= MAX_CHARACTERS:
                break
        return hold_out_end({"train": texts, "valid": [], "test": []})


def read_text(path: Path) -> tuple[Example, DataReport]:
    """One file as one text; what cannot be read as text is an error that names its place."""
    text, report = _scan(path)
    report.raise_for_errors(ErrorPolicy())
    return Example("", text, location=file_name(path)), report


def _scan(path: Path) -> tuple[str, DataReport]:
    """The text of a file, and everything there is to say about it."""
    report, kept = DataReport(unit="lines"), list[str]()
    if text := _read_plain_ascii(path):
        report.files.append(file_name(path))
        report.read = report.kept = text.count("\n")
        return text, report
    checker = TextChecker(report)
    for line in read_lines(path, report):
        report.read += 1
        if line.is_valid:
            kept.append(line.text + "\n")
            checker.check_text(line.text.replace("\t", " "), line, 1)  # in running text a tab is a space
    checker.finish()
    report.kept, report.rejected = len(kept), report.read - len(kept)
    text = "".join(kept)
    if not text.strip() and report.first_error is None:
        message, hint = "There is no text in this file.", "Give a file with text in it."
        report.add_issue("empty file", Location(report.files[0]), message, hint=hint)
    return text, report


def _read_plain_ascii(path: Path) -> str:
    """The text of a file of which there is nothing to say, as is soon seen; of any other nothing.

    That is one of lines which all have an end and none of which is long, made of ASCII's letters and signs, with
    something to read among them. Line by line a megabyte would take a fifth of a second.
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


def hold_out_end(given: Splits) -> Splits:
    """The splits, with what is not given cut off from the end of the training texts: first test, then valid."""
    texts = given["train"]
    size = sum(len(text.target) for text in texts)
    for name in ("test", "valid"):
        if not given[name]:
            texts, held = _cut(texts, int(HELD_OUT * size))
            given = {**given, name: held}
    return {**given, "train": texts}


def _cut(texts: Sequence[Example], wanted: int) -> tuple[list[Example], list[Example]]:
    """Texts without their end, and the end: so many characters, and the line that they begin in from its beginning.

    A line that would make it more than twice as many is cut instead: else a text that has few ends of lines would be
    held out as a whole.
    """
    kept, held = list(texts), list[Example]()
    while kept and wanted >= len(kept[-1].target):
        wanted -= len(kept[-1].target)
        held.insert(0, kept.pop())
    if kept and wanted:
        last = kept.pop()
        middle = len(last.target) - wanted
        place = last.target.rfind("\n", 0, middle) + 1
        if place == 0 or middle - place > wanted:
            place = middle
        kept.append(Example("", last.target[:place], location=last.location))
        held.insert(0, Example("", last.target[place:], location=last.location))
    return kept, held
