"""`seq2see eval`: score a run, or compare two."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from seq2see.runs.run_folder import RunFolder


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
    from seq2see.cli.scores import print_scores
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
    from seq2see.cli.scores import print_answers, print_changes
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
