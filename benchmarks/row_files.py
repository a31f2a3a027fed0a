"""One measured run, one file: train a recipe, translate what it is judged on, and write down the figures.

A row file is written by one process and read by `collect`, so that many runs can go on side by side. It
also carries the outputs, so that whatever needs them (significance, examples, a score that wants another
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
from seq2see.core.files import write_json
from seq2see.workbench.evaluate import score_outputs
from seq2see.workbench.predict import load
from seq2see.workbench.prepare import read_corpus
from seq2see.workbench.run_folder import RunFolder
from seq2see.workbench.terminal import Terminal
from seq2see.workbench.train import count_weights, train_recipe

SPLITS = ("valid", "test")
"""What is translated: everything is chosen on valid, and test is only told."""


@dataclass(frozen=True)
class Row:
    """What one run gave."""

    recipe: str
    seed: int
    label: str = ""
    """What was changed, in words; empty for the recipe as it is."""
    overrides: dict[str, Any] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    """steps, weights, seconds (training), and every score of both splits as valid_bleu, test_bleu, ..."""
    signatures: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, list[str]] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What its files are called after."""
        words = re.sub(r"\W+", "-", self.label.lower()).strip("-")
        return "-".join(filter(None, [self.recipe, words, f"seed{self.seed}"]))


def make_row(asked: Row, out: Path) -> Row:
    """Train what is asked for (unless its run is there, finished) and score it; gives the completed row."""
    chosen = resolve(asked.recipe, [], {**asked.overrides, "training.seed": asked.seed})
    run = RunFolder(out / "runs" / asked.name)
    if not (run.finished and run.recipe() == chosen):
        began = time.monotonic()
        with Terminal("train", chosen.training.steps) as terminal:
            run = train_recipe(chosen, run.path, terminal)
        write_json(run.path / "seconds.json", {"seconds": round(time.monotonic() - began, 1)})
    kept = run.path / "seconds.json"
    return score_row(asked, run, json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {})


def score_row(asked: Row, run: RunFolder, figures: Mapping[str, float]) -> Row:
    """Translate valid and test with a finished run; figures that only training knows are handed in."""
    model, recipe = load(run.path), run.recipe()
    corpus, _ = read_corpus(recipe)
    found: dict[str, float] = {"steps": model.config.step, "weights": count_weights(model.module), **figures}
    outputs: dict[str, list[str]] = {}
    signatures: dict[str, str] = {}
    for split in SPLITS:
        began = time.monotonic()
        predictions = model.predict([example.source for example in corpus[split]])
        found[f"{split}_decoding_seconds"] = round(time.monotonic() - began, 1)
        outputs[split] = [prediction.text for prediction in predictions]
        references, answers = [each.target for each in corpus[split]], [each.right for each in corpus[split]]
        scores = score_outputs(recipe, references, outputs[split], answers)
        found |= {f"{split}_{name}": value for name, value in _values(scores)}
        signatures |= {name: score["signature"] for name, score in scores.items() if _is_signed(score)}
    return Row(
        asked.recipe, asked.seed, asked.label, asked.overrides, found, signatures, outputs, describe_machine()
    )  # fmt: skip


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
