"""Collecting the pairs of one file: each record is kept, skipped or rejected, and counted."""

from __future__ import annotations

from collections.abc import Sequence

from seq2see.data.examples import Example
from seq2see.data.readers.data_report import DataReport, escape
from seq2see.data.readers.lines import Line, TextChecker, is_blank
from seq2see.data.readers.table_columns import ColumnRule, Columns, choose_columns, describe

SHOWN_EXAMPLES = 2
"""The number of examples in the line about the columns."""
SHOWN_LENGTH = 30
"""The number of characters of each."""


class PairCollector:
    """Collects the pairs of a file; read = kept + skipped + rejected holds after every record."""

    def __init__(self, report: DataReport, rule: ColumnRule):
        self.report, self.rule = report, rule
        self.examples: list[Example] = []
        self.checker = TextChecker(report)
        self.columns = rule.names[0]  # the names of source and target, unless the file has a header
        self.choice: Columns | None = None  # the columns of a table
        self.counts_before = len(report.files), report.count_severity("error")

    def choose(self, rows: Sequence[Sequence[str]], line: Line) -> Columns | None:
        """The columns of a table with these first rows; None, and an error of the file, if they cannot be chosen."""
        choice = choose_columns(rows, self.rule)
        if choice.fault:
            kind = "duplicate column" if choice.fault.startswith("Two columns are called") else "unclear columns"
            self.report.add_issue(kind, line.location(), choice.fault, text=line.text)
            return None
        self.choice, self.columns = choice, choice.names
        return choice

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
        if self.choice is not None and (self.rule.by_content or self.rule.chosen):
            pairs = [(each.source, each.target) for each in self.examples[:SHOWN_EXAMPLES]]
            self.report.details.append(
                describe(self.choice, self.rule.labeled, pairs, lambda text: escape(text, SHOWN_LENGTH))
            )
        files, errors = self.counts_before
        if not self.examples and self.report.count_severity("error") == errors:
            location = Line(self.report.files[files], 0, 0, "").location()
            record = "pair of texts" if self.report.unit == "pairs" else self.report.unit.removesuffix("s")
            self.report.add_issue("no examples", location, f"There is no {record} in it.")


def reject_column_count(collector: PairCollector, line: Line, expected: int, found: int) -> None:
    """Reject a record with too few or too many columns."""
    message = f"Expected {expected} columns, found {found}."
    collector.report.add_issue("wrong column count", line.location(), message, text=line.text)
    collector.reject()
