"""Drawn shapes in sizes that a ViT did not learn from: results/shapes.json.

    python benchmarks/shapes.py          about three minutes
    python benchmarks/shapes.py "..."    the same, with a note on what else the machine did meanwhile

The run is kept in runs/shapes. What the recipes reach in the size that they learned from is told by `images.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json
from seq2see.recipes.registry import recipe
from seq2see.runs.evaluate import evaluate
from seq2see.runs.train import train_recipe

RESULTS = Path(__file__).parent / "results" / "shapes.json"
RUN = Path("runs") / "shapes" / "classify-image"
SIDES = (16, 24, 32, 40, 48, 64)
COLUMNS = [{"key": "side", "title": "side"}, {"key": "right", "title": "test right %", "digits": 1}]


def main(note: str = "") -> None:
    """Train, judge and store."""
    run = train_recipe(recipe("classify-image"), RUN)
    sizes = [{"side": side, "right": evaluate(run, side=side)["test"]["accuracy"]} for side in SIDES]
    evaluate(run)  # what is left behind is of the size that was learned
    write_json(
        RESULTS,
        {
            "command": "python benchmarks/shapes.py",
            "environment": {**describe_machine(), **({"note": note} if note else {})},
            "tables": {"sizes": {"columns": COLUMNS, "rows": sizes}},
        },
    )


if __name__ == "__main__":
    main(*sys.argv[1:2])
