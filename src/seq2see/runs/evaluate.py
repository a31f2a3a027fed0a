"""Evaluation of a run: predict its test splits, compute the metrics, and store every prediction with its score."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from seq2see.core.errors import UserError
from seq2see.core.files import write_json, write_text
from seq2see.data.readers.texts import read_text
from seq2see.runs.load import load
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.split_fingerprints import changed_splits
from seq2see.tasks.generative import perplexity_scores
from seq2see.tasks.model import Model
from seq2see.tasks.registry import task_of
from seq2see.tasks.task import Evaluation

MAX_WINDOW = 1024
"""The window size in tokens for texts given with `--file`; pretrained models often support longer windows."""
ProgressCallback = Callable[[str, int], Any]


def evaluate(
    run: RunFolder, on_progress: ProgressCallback = lambda split, count: None, **settings: Any
) -> dict[str, Any]:
    """Score every test split of a run's corpus, and write the scores to `eval/scores.json`.

    `settings` override the decoding settings of the run, or `image_size`.
    """
    model, recipe = load(str(run.path)), run.recipe()
    recipe, scores = model.task.adapt(recipe, settings)
    splits, _ = model.task.read(recipe)
    scores |= changed_splits(run, recipe, splits)
    if settings and not model.task.generates:
        raise UserError("This model generates no text, so decoding settings have no effect.", hint="Leave out --set.")
    evaluation = model.task.evaluate(model, recipe, splits, on_progress, settings)
    scores |= evaluation.scores | ({"decoding": settings} if settings else {})
    write_evaluation(run, evaluation)
    write_json(run.evaluation / "scores.json", scores)
    return scores


def write_evaluation(run: RunFolder, evaluation: Evaluation) -> None:
    """Write the tables and documents of an evaluation, and draw its figures."""
    for name, rows in evaluation.tables.items():
        write_text(run.evaluation / f"{name}.tsv", "".join("\t".join(row) + "\n" for row in rows))
    for name, document in evaluation.documents.items():
        write_json(run.evaluation / f"{name}.json", document)
    for name, draw in evaluation.figures.items():
        if draw is None:
            (run.path / name).unlink(missing_ok=True)  # from an earlier evaluation
        else:
            draw(run.path / name)


def evaluate_texts(model: Model, paths: Sequence[Path]) -> dict[str, Any]:
    """The perplexity of a language model on text files, in consecutive windows; nothing is stored."""
    windows = model.task.text_windows(model, [read_text(path)[0] for path in paths], MAX_WINDOW)
    return perplexity_scores(model.module, windows, "file", unknown_rate=windows.unknown_rate)


def test_size(run: RunFolder) -> int:
    """The total of the counts that `evaluate` reports to `on_progress`: pairs, texts or characters."""
    recipe = run.recipe()
    task = task_of(recipe)
    splits, _ = task.read(recipe)
    return task.size(splits)
