"""One file per measured run: train a recipe, evaluate it as `seq2see eval` does, and store the metrics.

A row file is written by one process and read by `collect`, so that many runs can be measured concurrently. The row file
of a translator also has its outputs, so that significance, examples and scores of other packages can be computed later
on another machine.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from seq2see.core.devices import describe_machine
from seq2see.core.errors import UserError
from seq2see.core.files import write_json
from seq2see.recipes.registry import resolve
from seq2see.runs.evaluate import evaluate, test_size
from seq2see.runs.load import load
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.terminal import Terminal
from seq2see.runs.train import count_weights, train_recipe
from seq2see.tasks.generative import evaluate_teacher_forced
from seq2see.tasks.model import Model
from seq2see.tasks.model_folder import Recipe
from seq2see.tasks.task import task_of
from seq2see.tasks.text_scores import score_outputs
from seq2see.training.loop import read_metrics

SPLITS = ("valid", "test")
"""The evaluated splits: models are selected on valid, and test is only reported."""
EVALUATION_METRICS = {
    "accuracy": "accuracy",
    "macro_f1": "macro_f1",
    "per_token": "perplexity",
    "perplexity": "perplexity",
    "bits_per_character": "bits_per_character",
    "token_accuracy": "accuracy",
}
"""The metrics of an evaluation and their names in a row; tables of classes and confusions stay in the run folder."""


@dataclass(frozen=True)
class Row:
    """The results of one run."""

    recipe: str
    seed: int
    label: str = ""
    """The change in words; empty for the unchanged recipe."""
    overrides: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    """steps, weights, seconds (training), and every score of both splits as valid_bleu, test_accuracy, ..."""
    signatures: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, list[str]] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of its files."""
        words = re.sub(r"\W+", "-", self.label.lower()).strip("-")
        return "-".join(filter(None, [self.recipe, words, f"seed{self.seed}"]))


def make_row(request: Row, out: Path) -> Row:
    """Train the recipe of a request (unless a finished run exists) and score it; returns the completed row."""
    chosen = resolve(request.recipe, [], request.overrides)
    if "training" in type(chosen).model_fields:  # an n-gram model is counted: nothing is random
        chosen = chosen.with_(**{"training.seed": request.seed})
    run = RunFolder(out / "runs" / request.name)
    if not (run.finished and run.recipe() == chosen):
        began = time.monotonic()
        with Terminal("train", chosen.training.steps) as terminal:
            run = train_recipe(chosen, run.path, terminal)
        write_json(run.path / "seconds.json", {"seconds": round(time.monotonic() - began, 3)})
    path = run.path / "seconds.json"
    return score_row(request, run, json.loads(path.read_text(encoding="utf-8")) if path.exists() else {})


def score_row(request: Row, run: RunFolder, training_time: Mapping[str, float]) -> Row:
    """Evaluate a finished run on valid and test; the training time is passed, or read from the run's metrics log."""
    model, recipe = load(run.path), run.recipe()
    if model.task.comparison == "errors":
        raise UserError("A series has no row here.", hint="`python benchmarks/series.py` measures series.")
    metrics = {**_seconds(run), **training_time}
    if "training" in type(recipe).model_fields:  # an n-gram model has no weights and no training steps
        metrics |= {"steps": model.config.step, "weights": count_weights(model.module)}
    row = Row(request.recipe, request.seed, request.label, request.overrides, metrics, environment=_trained_on(run))
    if model.task.comparison == "outputs":
        _translate(row, model, recipe)
    else:
        row.metrics.update(_evaluate_valid(model, recipe))
        with Terminal("eval", test_size(run)) as terminal:
            row.metrics.update(_evaluation_metrics(evaluate(run, terminal.advance)))
    return row


def _seconds(run: RunFolder) -> dict[str, float]:
    """The training time without interruptions; empty for a run without training steps."""
    path = run.path / "timing.jsonl"
    lines = read_metrics(path) if path.exists() else []
    return {"seconds": round(sum(line["seconds"] for line in lines), 3)} if lines else {}


def _trained_on(run: RunFolder) -> dict[str, Any]:
    """The machine of the training, which may differ from the machine of the evaluation."""
    path = run.path / "env.json"
    environment = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {key: environment.get(key, value) for key, value in describe_machine().items()}


def _translate(row: Row, model: Model, recipe: Recipe) -> None:
    """Translate or caption valid and test, and score the outputs, which are stored in the row."""
    corpus, _ = task_of(recipe).read(recipe)
    for split in SPLITS:
        began = time.monotonic()
        predictions = model.predict(model.task.inputs(corpus[split]))
        row.metrics[f"{split}_decoding_seconds"] = round(time.monotonic() - began, 1)
        row.outputs[split] = [prediction.text for prediction in predictions]
        references = [each.target for each in corpus[split]]
        all_references = [each.all_references for each in corpus[split]]
        scores = score_outputs(recipe.slot("metrics"), references, row.outputs[split], all_references)
        row.metrics.update({f"{split}_{name}": value for name, value in _values(scores)})
        row.signatures.update({name: score["signature"] for name, score in scores.items() if _is_signed(score)})


def _evaluate_valid(model: Model, recipe: Recipe) -> dict[str, float]:
    """The validation metrics of the stored model, which may be the best or an average of checkpoints."""
    corpus, _ = task_of(recipe).read(recipe)
    valid = task_of(recipe).dataset(recipe, model.tokenizers, corpus["valid"])
    perplexity, accuracy = evaluate_teacher_forced(model.module, valid)
    metrics = {"valid_loss": perplexity.loss / perplexity.count, "valid_accuracy": 100 * accuracy.value}
    if model.task.generates:
        metrics |= {"valid_perplexity": perplexity.value, "valid_bits_per_character": perplexity.bits_per_character}
    return metrics


def _evaluation_metrics(scores: dict[str, Any]) -> dict[str, float]:
    """The metrics of an evaluation, by split."""
    metrics: dict[str, float] = {}
    for name, part in scores.items():
        split = {"masked_tokens": "test", "next_sentence": "test_next_sentence"}.get(name, part.get("split", name))
        metrics |= {
            f"{split}_{EVALUATION_METRICS[key]}": float(value)
            for key, value in part.items()
            if key in EVALUATION_METRICS
        }
        if "spans" in part:
            metrics[f"{split}_spans_f1"] = 100 * part["spans"]["f1"]
    return metrics


def _is_signed(score: Any) -> bool:
    return isinstance(score, dict) and "signature" in score


def _values(scores: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Every score as a name and a number; a metric with several numbers also has their names."""
    for name, score in scores.items():
        if _is_signed(score):
            yield name, float(score["value"])
        elif isinstance(score, dict):
            yield from _values(score)
        elif name != "pairs":
            yield name, float(score)


def write_row(row: Row, out: Path) -> Path:
    """Write the file of a row; returns its path."""
    path = out / f"{row.name}.json"
    write_json(path, asdict(row))
    return path


def read_rows(folder: Path) -> list[Row]:
    """Every row file of a folder, by name and seed."""
    rows = [Row(**json.loads(path.read_text(encoding="utf-8"))) for path in sorted(folder.glob("*.json"))]
    return sorted(rows, key=lambda row: (row.recipe, row.label, row.seed))


def same_seeds(first: Sequence[Row], second: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Rows of two systems in pairs of equal seed; a seed that only one of them has is left out."""
    by_seed = {row.seed: row for row in second}
    return [(row, by_seed[row.seed]) for row in first if row.seed in by_seed]
