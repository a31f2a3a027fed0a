"""Evaluation of a run: predict its test splits, compute the metrics, and store every prediction with its score.

Stored predictions are read back as rows, each with the quality and the confidence of its prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from seq2see.core.documents import load_json
from seq2see.core.errors import UserError
from seq2see.core.files import write_json, write_text
from seq2see.data.readers.texts import read_text
from seq2see.metrics.classification import ConfusionMatrix
from seq2see.runs.load import load
from seq2see.runs.prepare import changed_splits
from seq2see.runs.run_folder import RunFolder, read_rows
from seq2see.tasks.generative import perplexity_scores
from seq2see.tasks.model import Model
from seq2see.tasks.task import EvaluatedRow, Evaluation, task_of

MAX_WINDOW = 1024
"""The window size in tokens for texts given with `--file`; pretrained models often support longer windows."""
ProgressCallback = Callable[[str, int], Any]


def evaluate(
    run: RunFolder, on_progress: ProgressCallback = lambda split, count: None, **settings: Any
) -> dict[str, Any]:
    """Score every test split of a run's corpus, and write the scores to `eval/scores.json`.

    `settings` override the decoding settings of the run, or `image_size`.
    """
    run.refuse_links()
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


ENDING = "-predictions"
"""The file names of label tables end with this after the split; those of text tables are the split alone."""
TOKEN_LOSSES = "token_losses"
"""The name under which running text is listed: it is evaluated token by token, not row by row."""


SORT_KEYS: dict[str, Callable[[EvaluatedRow], Any]] = {
    "worst": lambda row: (row.quality, -row.confidence, row.number),
    "best": lambda row: (-row.quality, -row.confidence, row.number),
    "most-confident": lambda row: (-row.confidence, row.number),
    "least-confident": lambda row: (row.confidence, row.number),
    "file": lambda row: row.number,
}
"""Sort keys. Of equally wrong predictions, those with the highest confidence are the worst."""


def not_evaluated(name: str) -> UserError:
    """The error for a run without an evaluation."""
    return UserError("This run is not evaluated yet.", location=name, hint=f"Evaluate it with `seq2see eval {name}`.")


def splits(folder: RunFolder) -> dict[str, Path]:
    """The existing tables by split, the test split first."""
    tables = {path.stem.removesuffix(ENDING): path for path in sorted(folder.evaluation.glob("*.tsv"))}
    if (folder.evaluation / f"{TOKEN_LOSSES}.json").exists():
        tables[TOKEN_LOSSES] = folder.evaluation / f"{TOKEN_LOSSES}.json"
    return dict(sorted(tables.items(), key=lambda item: item[0] != "test"))


def evaluated_rows(folder: RunFolder, model: Model, split: str) -> list[EvaluatedRow]:
    """All rows of one split, in the order of the file."""
    tables = splits(folder)
    if not tables:
        raise not_evaluated(folder.path.name)
    if split not in tables:
        raise UserError(f"There is no table of the split '{split}'.", hint=f"There are: {', '.join(tables)}.")
    path = tables[split]
    try:
        if path.suffix == ".json":
            return model.task.evaluated_rows(model, load_json(path))
        header, *rows = read_rows(path)
        return model.task.evaluated_rows(model, [row for row in rows if len(row) == len(header)])
    except (ValueError, LookupError, TypeError):
        hint = "Evaluate the run again."
        raise UserError("This table is damaged.", location=path.name, hint=hint) from None


def confusion(rows: Sequence[EvaluatedRow], model: Model) -> ConfusionMatrix:
    """The confusion matrix of the rows, so that each cell can be linked to its rows."""
    pairs = [pair for row in rows for pair in model.task.decisions(row.truth, row.prediction)]
    return ConfusionMatrix.of(
        model.tokenizers.labels, [truth for truth, _ in pairs], [predicted for _, predicted in pairs]
    )


def filter_rows(
    rows: Sequence[EvaluatedRow], model: Model, cell: tuple[str, str] | None, search: str
) -> list[EvaluatedRow]:
    """The rows of one cell of the confusion matrix (or all rows) whose texts contain a search text."""
    decisions, pattern = model.task.decisions, search.casefold()
    in_cell = [row for row in rows if cell is None or cell in decisions(row.truth, row.prediction)]
    return [row for row in in_cell if any(pattern in each.casefold() for each in (row.text, row.truth, row.prediction))]
