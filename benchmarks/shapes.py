"""Drawn shapes by a ViT, its variants and a ResNet: how right, how many weights, how long: results/shapes.json.

    python benchmarks/shapes.py          about ten minutes
    python benchmarks/shapes.py "..."    the same, with a note on what else the machine did meanwhile

The runs are kept in runs/shapes. The second table asks the first of them in sizes that it did not learn from.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json
from seq2see.recipes.table import recipe
from seq2see.workbench.evaluate import evaluate
from seq2see.workbench.predict import load
from seq2see.workbench.run_folder import RunFolder
from seq2see.workbench.train import count_weights, train_recipe

RESULTS = Path(__file__).parent / "results" / "shapes.json"
RUNS = Path("runs") / "shapes"
RECIPES = ("classify-image", "classify-image-mean", "classify-image-hybrid", "classify-image-resnet")
SIDES = (16, 24, 32, 40, 48, 64)
RIGHT = {"key": "right", "title": "test right %", "digits": 1}

Row = dict[str, Any]


def learnt(name: str) -> tuple[Row, RunFolder]:
    """A recipe, trained and judged."""
    began = time.monotonic()
    run = train_recipe(recipe(name), RUNS / name)
    seconds = time.monotonic() - began
    test = evaluate(run)["test"]
    weights = count_weights(load(run.path).module)
    return {"recipe": name, "weights": weights, "seconds": seconds, "right": test["accuracy"]}, run


def main(note: str = "") -> None:
    """Train, judge and store."""
    rows, runs = [], []
    for name in RECIPES:
        row, run = learnt(name)
        print(row, flush=True)
        rows.append(row)
        runs.append(run)
    sizes = [{"side": side, "right": evaluate(runs[0], side=side)["test"]["accuracy"]} for side in SIDES]
    evaluate(runs[0])  # what is left behind is of the size that was learnt
    columns = [{"key": "recipe", "title": "recipe"}, {"key": "weights", "title": "weights", "digits": 0}]
    columns += [{"key": "seconds", "title": "seconds", "digits": 0}, RIGHT]
    write_json(
        RESULTS,
        {
            "command": "python benchmarks/shapes.py",
            "environment": {**describe_machine(), **({"note": note} if note else {})},
            "tables": {
                "recipes": {"columns": columns, "rows": rows},
                "sizes": {"columns": [{"key": "side", "title": "side"}, RIGHT], "rows": sizes},
            },
        },
    )


if __name__ == "__main__":
    main(*sys.argv[1:2])
