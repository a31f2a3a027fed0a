"""Train and score pocket recipes; the rows are stored in results/pocket.json, from which the pages are generated.

python benchmarks/pocket.py                 every pocket recipe, one after another
python benchmarks/pocket.py pocket-gru      one of them; the other rows stay as they are
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json
from seq2see.recipes.registry import RECIPES, recipe
from seq2see.runs.evaluate import evaluate
from seq2see.runs.load import load
from seq2see.runs.train import train_recipe

RESULTS = Path(__file__).parent / "results" / "pocket.json"
SPLITS = ("test", "pairs", "roles", "length")


def measure(name: str) -> dict[str, Any]:
    """One row: train the recipe in a temporary folder, and score it on every split."""
    chosen = recipe(name)
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        run = train_recipe(chosen, Path(folder) / name)
        seconds = time.monotonic() - began
        scores = evaluate(run)
        weights = sum(weight.numel() for weight in load(run.path).module.parameters())
    return row(name, chosen.training.steps, weights, seconds, scores)


def row(name: str, steps: int, weights: int, seconds: float, scores: dict[str, Any]) -> dict[str, Any]:
    """The results of a run in the format of the results file."""
    splits = {
        split: {"bleu": scores[split]["bleu"]["value"], "exact_match": scores[split]["exact_match"]}
        for split in SPLITS
        if split in scores
    }
    error = scores["alignment"]["error_rate"] if "alignment" in scores else None
    training = {"steps": steps, "weights": weights, "seconds": round(seconds, 1)}
    return {"recipe": name, **training, "splits": splits, "alignment_error": error}


def store(rows: list[dict[str, Any]], environment: dict[str, Any]) -> None:
    """Add rows to the results file; a new row replaces the older row of the same recipe."""
    stored = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {"rows": []}
    by_name = {each["recipe"]: each for each in [*stored["rows"], *rows]}
    ordered = [by_name[name] for name in RECIPES if name in by_name]
    command = "python benchmarks/pocket.py"
    write_json(RESULTS, {"environment": environment, "command": command, "rows": ordered})


if __name__ == "__main__":
    names = sys.argv[1:] or [name for name in RECIPES if name.startswith(("pocket-", "puzzle-"))]
    for name in names:
        measured = measure(name)
        print(json.dumps(measured))
        store([measured], describe_machine())
