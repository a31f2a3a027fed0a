"""The rows of the tables that `seq2see eval` wrote, each with the quality and the confidence of its prediction."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2see.core.errors import UserError
from seq2see.data.tokenizers.tokenizer import Tokenizer
from seq2see.metrics.classification import ConfusionMatrix
from seq2see.runs.run_folder import RunFolder, read_table
from seq2see.tasks.forecast import context_of
from seq2see.tasks.model import Model

ENDING = "-predictions"
"""The file names of label tables end with this after the split; those of text tables are the split alone."""
FORECASTS = "forecasts"
"""The table of a forecasting model: a row for each time, with the forecasts for several horizons."""
TOKEN_LOSSES = "token_losses"
"""The name under which running text is listed: it is evaluated token by token, not row by row."""


@dataclass(frozen=True)
class EvaluatedRow:
    """One row of an evaluation: input, reference, prediction, and two metrics of the prediction."""

    number: int
    text: str
    truth: str
    prediction: str
    quality: float
    """The quality: chrF of a text, 1 or 0 for a label, the accuracy of tags, or the negative mean loss.

    For a forecast one step ahead: the negative absolute error.
    """
    confidence: float
    """The confidence of the model: log-probability of a text, probability of a label."""
    tokens: tuple[str, ...] = ()
    losses: tuple[float, ...] = ()
    """For running text: the tokens and their losses. For a forecast: `tokens` are the values before it."""


Decisions = Callable[[str, str], list[tuple[str, str]]]
"""(truth, prediction) of each decision of a row (see `Task.decisions`)."""
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


def table_kind(path: Path) -> str:
    """The kind of a table: token losses of running text, forecasts, labels, or texts."""
    if path.stem in (TOKEN_LOSSES, FORECASTS):
        return path.stem
    return "labels" if path.stem.endswith(ENDING) else "texts"


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
    path, kind = tables[split], table_kind(tables[split])
    try:
        if kind == FORECASTS:
            return _forecasts(_forecast_table(path), context_of(model.config.model))
        if kind == TOKEN_LOSSES:
            return _token_losses(json.loads(path.read_text(encoding="utf-8")), model.tokenizers.source)
        return _labels(read_table(path, 4), model.task.decisions) if kind == "labels" else _texts(read_table(path, 5))
    except (ValueError, LookupError, TypeError):
        hint = "Evaluate the run again."
        raise UserError("This table is damaged.", location=path.name, hint=hint) from None


def _texts(rows: Sequence[Sequence[str]]) -> list[EvaluatedRow]:
    return [
        EvaluatedRow(number, source, truth, output, float(chrf), float(score))
        for number, (source, truth, output, chrf, score) in enumerate(rows)
    ]


def _labels(rows: Sequence[Sequence[str]], decisions: Decisions) -> list[EvaluatedRow]:
    evaluated = []
    for number, (text, label, predicted, probability) in enumerate(rows):
        correct = [true_label == predicted_label for true_label, predicted_label in decisions(label, predicted)]
        evaluated.append(EvaluatedRow(number, text, label, predicted, sum(correct) / len(correct), float(probability)))
    return evaluated


def _token_losses(windows: Sequence[dict[str, Any]], tokenizer: Tokenizer) -> list[EvaluatedRow]:
    ids = {token: token_id for token_id, token in enumerate(tokenizer.tokens(range(len(tokenizer))))}
    evaluated = []
    for number, each in enumerate(windows):
        tokens, losses = tuple(each["tokens"]), tuple(each["losses"])
        mean = sum(losses) / max(len(losses), 1)
        text = tokenizer.decode([ids[token] for token in tokens if token in ids])
        evaluated.append(EvaluatedRow(number, text, "", "", -mean, -mean, tokens, losses))
    return evaluated


def _forecast_table(path: Path) -> list[list[str]]:
    """Rows of time, value and forecasts, without the header line."""
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:]]


def _forecasts(rows: Sequence[Sequence[str]], context: int) -> list[EvaluatedRow]:
    """The values that were forecast one step ahead, each with its context; values without a forecast are skipped."""
    values, evaluated = [row[1] for row in rows], []
    for number, (time, value, forecast, *_) in enumerate(rows):
        before = tuple(values[max(number - context, 0) : number])
        if forecast and len(before) == context:
            error = abs(float(value) - float(forecast))
            evaluated.append(EvaluatedRow(number, time, value, forecast, -error, -error, before))
    return evaluated


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
