"""Accuracy of a ViT on drawn shapes in image sizes other than that of training: results/shapes.json.

    python benchmarks/shapes.py          about three minutes
    python benchmarks/shapes.py "..."    the same, with a note on other load of the machine

The run is stored in runs/shapes. `images.py` measures the recipes in the image size of training.
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
IMAGE_SIZES = (16, 24, 32, 40, 48, 64)
COLUMNS = [{"key": "image_size", "title": "image size"}, {"key": "accuracy", "title": "test accuracy %", "digits": 1}]


def main(note: str = "") -> None:
    """Train, evaluate and store."""
    run = train_recipe(recipe("classify-image"), RUN)
    accuracies = {size: evaluate(run, image_size=size)["test"]["accuracy"] for size in IMAGE_SIZES}
    sizes = [{"image_size": size, "accuracy": accuracy} for size, accuracy in accuracies.items()]
    evaluate(run)  # the stored evaluation is that in the image size of training
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
