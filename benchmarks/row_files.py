"""One measured run, one file: train a recipe, judge it as `seq2see eval` does, and write down the figures.

A row file is written by one process and read by `collect`, so that many runs can go on side by side. That of a
translator also carries its outputs, so that whatever needs them (significance, examples, a score that wants another
package) can be computed later and elsewhere.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from seq2see.api import resolve
from seq2see.core.devices import describe_machine
from seq2see.core.errors import UserError
from seq2see.core.files import write_json
from seq2see.models.ngram_lm import NgramSettings
from seq2see.models.settings import Series
from seq2see.runs.evaluate import evaluate, inputs_of, score_outputs, test_size
from seq2see.runs.model import Model, load
from seq2see.runs.prepare import encode, read_corpus
from seq2see.runs.recipe import Recipe
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.teacher_forcing import evaluate_teacher_forced
from seq2see.runs.terminal import Terminal
from seq2see.runs.train import count_weights, train_recipe
from seq2see.training.metrics_logger import read_metrics

SPLITS = ("valid", "test")
"""What is judged: everything is chosen on valid, and test is only told."""
EVALUATION_METRICS = {
    "accuracy": "accuracy",
    "macro_f1": "macro_f1",
    "per_token": "perplexity",
    "perplexity": "perplexity",
    "bits_per_character": "bits_per_character",
    "token_accuracy": "accuracy",
}
"""What an evaluation tells of a split, and how a row calls it; tables of classes and confusions stay in the run."""


@dataclass(frozen=True)
class Row:
    """What one run gave."""

    recipe: str
    seed: int
    label: str = ""
    """What was changed, in words; empty for the recipe as it is."""
    overrides: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    """steps, weights, seconds (training), and every score of both splits as valid_bleu, test_accuracy, ..."""
    signatures: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, list[str]] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What its files are called after."""
        words = re.sub(r"\W+", "-", self.label.lower()).strip("-")
        return "-".join(filter(None, [self.recipe, words, f"seed{self.seed}"]))


def make_row(request: Row, out: Path) -> Row:
    """Train what is asked for (unless its run is there, finished) and score it; gives the completed row."""
    chosen = resolve(request.recipe, [], {**request.overrides, "training.seed": request.seed})
    run = RunFolder(out / "runs" / request.name)
    if not (run.finished and run.recipe() == chosen):
        began = time.monotonic()
        with Terminal("train", chosen.training.steps) as terminal:
            run = train_recipe(chosen, run.path, terminal)
        write_json(run.path / "seconds.json", {"seconds": round(time.monotonic() - began, 3)})
    kept = run.path / "seconds.json"
    return score_row(request, run, json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {})


def score_row(request: Row, run: RunFolder, figures: Mapping[str, float]) -> Row:
    """Judge a finished run on valid and test; how long training took is handed in, or read from the run's journal."""
    model, recipe = load(run.path), run.recipe()
    if isinstance(recipe.target, Series):
        raise UserError("A series has no row here.", hint="`python benchmarks/series.py` measures series.")
    known = {**_seconds(run), **figures}
    if not isinstance(recipe.decoder, NgramSettings):  # it has no weights, and takes no steps to find them
        known |= {"steps": model.config.step, "weights": count_weights(model.module)}
    done = Row(request.recipe, request.seed, request.label, request.overrides, known, environment=_trained_on(run))
    if recipe.generates and recipe.source is not None:
        _translate(done, model, recipe)
    else:
        done.metrics.update(_read_valid(model, recipe))
        with Terminal("eval", test_size(run)) as terminal:
            done.metrics.update(_evaluation_metrics(evaluate(run, terminal.advance)))
    return done


def _seconds(run: RunFolder) -> dict[str, float]:
    """How long training took, stops left out; nothing of a run that learned in no steps."""
    metrics_logger = run.path / "timing.jsonl"
    noted = read_metrics(metrics_logger) if metrics_logger.exists() else []
    return {"seconds": round(sum(note["seconds"] for note in noted), 3)} if noted else {}


def _trained_on(run: RunFolder) -> dict[str, Any]:
    """The machine that a run was trained on, which need not be the one that judges it."""
    written = run.path / "env.json"
    known = json.loads(written.read_text(encoding="utf-8")) if written.exists() else {}
    return {key: known.get(key, value) for key, value in describe_machine().items()}


def _translate(row: Row, model: Model, recipe: Recipe) -> None:
    """Translate or describe valid and test, and score that; the outputs are kept."""
    corpus, _ = read_corpus(recipe)
    for split in SPLITS:
        began = time.monotonic()
        predictions = model.predict(inputs_of(corpus[split]))
        row.metrics[f"{split}_decoding_seconds"] = round(time.monotonic() - began, 1)
        row.outputs[split] = [prediction.text for prediction in predictions]
        references, answers = [each.target for each in corpus[split]], [each.all_references for each in corpus[split]]
        scores = score_outputs(recipe, references, row.outputs[split], answers)
        row.metrics.update({f"{split}_{name}": value for name, value in _values(scores)})
        row.signatures.update({name: score["signature"] for name, score in scores.items() if _is_signed(score)})


def _read_valid(model: Model, recipe: Recipe) -> dict[str, float]:
    """What training watched, of the model as it was kept: it may be the best or the mean of several."""
    corpus, _ = read_corpus(recipe)
    valid = encode(recipe, model.tokenizers, corpus["valid"])
    perplexity, accuracy = evaluate_teacher_forced(model.module, valid)
    found = {"valid_loss": perplexity.loss / perplexity.count, "valid_accuracy": 100 * accuracy.value}
    if recipe.generates:
        found |= {"valid_perplexity": perplexity.value, "valid_bits_per_character": perplexity.bits_per_character}
    return found


def _evaluation_metrics(scores: dict[str, Any]) -> dict[str, float]:
    """The figures of an evaluation, by split."""
    found: dict[str, float] = {}
    for name, part in scores.items():
        split = {"masked_tokens": "test", "next_sentence": "test_next_sentence"}.get(name, part.get("split", name))
        found |= {
            f"{split}_{EVALUATION_METRICS[key]}": float(value)
            for key, value in part.items()
            if key in EVALUATION_METRICS
        }
        if "spans" in part:
            found[f"{split}_spans_f1"] = 100 * part["spans"]["f1"]
    return found


def _is_signed(score: Any) -> bool:
    return isinstance(score, dict) and "signature" in score


def _values(scores: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Every score as a name and a number; a metric that gives several numbers gives their names too."""
    for name, score in scores.items():
        if _is_signed(score):
            yield name, float(score["value"])
        elif isinstance(score, dict):
            yield from _values(score)
        elif name != "pairs":
            yield name, float(score)


def write_row(row: Row, out: Path) -> Path:
    """Write a row's file; gives its path."""
    path = out / f"{row.name}.json"
    write_json(path, asdict(row))
    return path


def read_rows(folder: Path) -> list[Row]:
    """Every row file of a folder, by name and seed."""
    rows = [Row(**json.loads(path.read_text(encoding="utf-8"))) for path in sorted(folder.glob("*.json"))]
    return sorted(rows, key=lambda row: (row.recipe, row.label, row.seed))


def same_seeds(first: Sequence[Row], second: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Rows of two systems in pairs of equal seed; a seed that only one of them has is left out."""
    other = {row.seed: row for row in second}
    return [(row, other[row.seed]) for row in first if row.seed in other]
