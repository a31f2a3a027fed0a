"""The tables of scores in the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from seq2see.runs.compare import ChangedSentence, ComparedAnswers
    from seq2see.tasks.report_parts import ReportTable
    from seq2see.tasks.task import Task


def print_wrapped(text: str) -> None:
    """Print a text wrapped at 80 columns; signatures are not broken, so that they can be copied."""
    print(textwrap.fill(text, 80, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False))


def print_scores(task: Task, run: object, scores: dict[str, Any]) -> None:
    """Print the scores of an evaluation, and its files."""
    for line in task.score_lines(scores):
        if isinstance(line, str):
            print_wrapped(line)
        else:
            _print_table(line)
    for warning in scores.get("changed_splits", ()):
        print(f"note   {warning}")
    print(f"files  {run}/eval, {run}/report.html")


def _print_table(part: ReportTable) -> None:
    """Print a table whose first columns are texts, the others numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, title in enumerate(part.header):
        table.add_column(str(title), justify="left" if index < part.text_columns else "right")
    for row in part.rows:
        table.add_row(*(Text(str(value)) for value in row))
    Console().print(table)


def print_changes(first: object, second: object, changes: Sequence[ChangedSentence]) -> None:
    """Print the sentences with the largest changes from one run to another."""
    if changes:
        print(f"\nlargest changes from {first} to {second} (gain in chrF2)")
    for each in changes:
        print(f"\n{each.gain:+7.1f}  {each.source}")
        for name, text in (("reference", each.reference), (first, each.first), (second, each.second)):
            print(f"         {name}: {text}")


EXAMPLES_SHOWN = 3
"""The number of examples that only one of the two runs predicts correctly, for each run."""


def print_answers(first: object, second: object, compared: ComparedAnswers) -> None:
    """Print the accuracies of two runs, and examples that only one of them predicts correctly."""
    print(f"accuracy %: {compared.accuracy}")
    for name, rows in ((first, compared.only_first), (second, compared.only_second)):
        print(f"\n{len(rows):,} test examples that {name} predicts better")
        for text, label, first_prediction, second_prediction in rows[:EXAMPLES_SHOWN]:
            print(f"  {text}\n    label: {label}\n    {first}: {first_prediction}\n    {second}: {second_prediction}")
