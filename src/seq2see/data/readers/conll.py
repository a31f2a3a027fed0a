"""Sentences of tagged words: CoNLL (a word and its tag on a line) and CoNLL-U (ten columns), blank lines between."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from seq2see.core.settings import Settings
from seq2see.data.examples import Example
from seq2see.data.hold_out import Splits, check_hold_out, hold_out
from seq2see.data.readers.data_report import DataReport, ErrorPolicy
from seq2see.data.readers.lines import Line, TextChecker, is_blank, read_lines, without_compression_suffix
from seq2see.data.readers.pair_files import usual_column_count

COLUMNS, WORD, TAG = 10, 1, 3
"""CoNLL-U: the number of columns, and the indices of the word and of its universal part of speech."""


class UserTaggedTexts(Settings):
    """Your own tagged words, as CoNLL or CoNLL-U."""

    kind: Literal["tagged"] = "tagged"
    paths: tuple[str, ...] = Field(min_length=1)
    """The training files."""
    valid: tuple[str, ...] = ()
    """Validation files; by default some of the training sentences are held out."""
    test: tuple[str, ...] = ()
    """Test files; by default some of the training sentences are held out."""

    def splits(self) -> Splits:
        """Train, valid and test."""
        return self.read()[0]

    def read(self) -> tuple[Splits, list[DataReport]]:
        """The splits, and the data report of each file."""
        readings = {
            name: [read_tagged(Path(path)) for path in getattr(self, name)] for name in ("paths", "valid", "test")
        }
        examples = {name: [each for sentences, _ in files for each in sentences] for name, files in readings.items()}
        return _split(examples), [report for files in readings.values() for _, report in files]

    def check(self) -> list[DataReport]:
        """The data report of each file, without raising an error for invalid data."""
        readings = {name: [_scan(Path(path)) for path in getattr(self, name)] for name in ("paths", "valid", "test")}
        examples = {name: [each for sentences, _ in files for each in sentences] for name, files in readings.items()}
        check_hold_out(lambda: _split(examples), readings["paths"][0][1])
        return [report for files in readings.values() for _, report in files]


def _split(examples: dict[str, list[Example]]) -> Splits:
    """The splits; hold-out keeps every tag in training."""
    valid, test = examples["valid"] or None, examples["test"] or None
    return hold_out(examples["paths"], valid, test, allow_overlap=True, labels=lambda each: each.source_tags)


def read_tagged(path: Path) -> tuple[list[Example], DataReport]:
    """The sentences of one file; a line without a tag, or with too many columns, is an error with its location."""
    examples, report = _scan(path)
    report.raise_for_errors(ErrorPolicy())
    return examples, report


def _scan(path: Path) -> tuple[list[Example], DataReport]:
    """The sentences of a file, and its data report; a sentence with an invalid word is rejected."""
    report = DataReport(unit="sentences")
    is_conllu = without_compression_suffix(path).suffix.lower() == ".conllu"
    sentences: list[list[tuple[Line, list[str]]]] = [[]]
    checker = TextChecker(report)
    for line in read_lines(path, report):
        if not line.text.strip():
            sentences.append([])
        elif not line.is_valid:
            sentences[-1].append((line, []))
        elif not (is_conllu and line.text.startswith("#")):
            cells = line.text.split("\t") if is_conllu else line.text.split()
            if _is_word(cells, is_conllu):
                sentences[-1].append((line, cells))
                checker.check_text(line.text.replace("\t", " "), line, 1)
    checker.finish()
    # The number of columns is that of most words, not that of the first word, which may be wrong.
    columns = COLUMNS if is_conllu else usual_column_count(len(cells) for words in sentences for _, cells in words)
    read = [(_example(words, columns, is_conllu, report), len(words)) for words in sentences if words]
    examples = [example for example, words in read if len(example.source_words) == words]
    report.read, report.kept, report.rejected = len(read), len(examples), len(read) - len(examples)
    if not read and report.first_error is None:
        location, message = Line(report.files[-1], 0, 0, "").location(), "There is no tagged word in it."
        report.add_issue("no examples", location, message, hint="Use a file with a word and its tag on each line.")
    return examples, report


def _is_word(cells: Sequence[str], is_conllu: bool) -> bool:
    """Whether a line is a word: CoNLL-U also has lines for multiword tokens (1-2) and empty nodes (1.1)."""
    return cells[0].isdigit() or len(cells) != COLUMNS if is_conllu else cells[0] != "-DOCSTART-"


def _example(lines: Sequence[tuple[Line, list[str]]], columns: int, is_conllu: bool, report: DataReport) -> Example:
    words, tags = [], []
    expected = "the second is the word, and the fourth its tag" if is_conllu else "a word and its tag"
    hint = "Give every word one tag" + (", with tabs between the ten columns." if is_conllu else ".")
    for line, cells in lines:
        if not line.is_valid:  # its issue is already in the report
            continue
        if len(cells) != columns:
            message = f"This word has {len(cells)} columns, and {columns} are expected: {expected}."
            report.add_issue("wrong column count", line.location(), message, text=line.text, hint=hint)
            continue
        word, tag = (cells[WORD], cells[TAG]) if is_conllu else (cells[0], cells[-1])
        if is_blank(word) or is_blank(tag):
            message = "There is a tag without a word." if is_blank(word) else f"The word {word[:40]!r} has no tag."
            report.add_issue("empty field", line.location(), message, text=line.text, hint=hint)
            continue
        words.append(word.replace(" ", "\u00a0"))  # a word with a space inside ("1 000") remains one word
        tags.append(tag)
    first = lines[0][0]
    location = f"{first.file}:{first.number}"
    source, target = " ".join(words), " ".join(tags)
    return Example(source, target, source_words=tuple(words), source_tags=tuple(tags), location=location)
