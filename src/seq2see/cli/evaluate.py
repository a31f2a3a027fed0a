"""`seq2see eval`: score a run, or compare two."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from seq2see.runs.compare import ChangedSentence, ComparedAnswers
    from seq2see.runs.run_folder import RunFolder
    from seq2see.tasks.report_parts import ReportTable
    from seq2see.tasks.task import Task


def evaluate(
    run: Annotated[
        str, typer.Argument(help="A run folder, its name, or latest; with --file also a Hugging Face folder.")
    ],
    other: Annotated[str | None, typer.Argument(help="A second run, for a comparison.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="A decoding setting: decoding.num_beams=5.")] = None,
    file: Annotated[list[Path] | None, typer.Option("--file", "-f", help="A text file, for perplexity.")] = None,
) -> None:
    """Score a run on its test splits, or compare two runs."""
    if file:
        _evaluate_texts([run, *([other] if other else [])], file, set_)
        return
    from seq2see.cli.predict import decoding_setting
    from seq2see.metrics.bleu import INSTALL_HINT, has_moses
    from seq2see.runs.evaluate import evaluate, test_size
    from seq2see.runs.report import write_report
    from seq2see.runs.run_folder import find_run, read_scores
    from seq2see.runs.terminal import Terminal
    from seq2see.tasks.task import task_of

    folders = [find_run(name) for name in (run, other) if name]
    settings = dict(map(decoding_setting, set_ or []))
    for folder in folders:
        scores = read_scores(folder) if other and not settings else {}
        if scores and not {"decoding", "image"} & scores.keys():
            continue  # the predictions with the run's own settings are there already
        with Terminal("eval", test_size(folder)) as terminal:
            scores = evaluate(folder, terminal.advance, **settings)
        write_report(folder)
        print_scores(task_of(folder.recipe()), folder, scores)
        if "bleu-tokenized" in (folder.recipe().slot("metrics") or ()) and not has_moses():
            print(INSTALL_HINT)
    if other:
        _compare(*folders)


def _compare(first: RunFolder, second: RunFolder) -> None:
    """Print how two evaluated runs differ."""
    from seq2see.runs.compare import (
        compare,
        compare_answers,
        compare_scores,
        compare_series,
        compare_texts,
        largest_changes,
    )
    from seq2see.tasks.task import task_of

    kinds = {task_of(run.recipe()).comparison for run in (first, second)}
    if "scores" in kinds:
        print(compare_scores(first, second))
    elif kinds == {"errors"}:
        print(compare_series(first, second))
    elif kinds == {"perplexity"}:
        print(compare_texts(first, second))
    elif "decisions" in kinds or "errors" in kinds:
        print_answers(first, second, compare_answers(first, second))
    else:
        print(compare(first, second))
        print_changes(first, second, largest_changes(first, second))


def _evaluate_texts(names: list[str], files: list[Path], settings: list[str] | None) -> None:
    """Print the perplexities of language models on text files; nothing is stored."""
    from seq2see.cli.progress_meter import show_status
    from seq2see.core.errors import UserError
    from seq2see.runs.evaluate import evaluate_texts
    from seq2see.runs.load import load
    from seq2see.tasks.text_scores import perplexity_line, unknown_line

    if settings:
        raise UserError("The perplexity of a text does not depend on decoding settings.", hint="Leave out --set.")
    tokenizers = set[str]()
    for name in names:
        with show_status(f"evaluating {name}"):
            scores = evaluate_texts(model := load(name), files)
        tokenizers.add(model.tokenizers.fingerprint)
        print(f"{name}: {perplexity_line(scores['perplexity'])}")
        if unknown := unknown_line(scores["perplexity"]):
            print(unknown)
    if len(tokenizers) > 1:
        print("perplexities with different tokenizers are not comparable; compare bits per character")


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
    for warning in (*scores.get("changed_splits", ()), *scores.get("notes", ())):
        print(f"note   {warning}")
    print(f"files  {run}/eval, {run}/report.html")


def _print_table(part: ReportTable) -> None:
    """Print a table whose first columns are texts, the others numbers."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

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
