"""What the recipes of images and videos reach: they tell apart or describe what is drawn or photographed.

python benchmarks/images.py row classify-image --out FOLDER   train and score one run, as `rows.py` does
python benchmarks/images.py score RUN RUN --out FOLDER        score runs that were trained elsewhere
python benchmarks/images.py collect FOLDER                    its rows into results/images.json

A run's folder tells its seed, how long training took, and on which machine. Recipes are chosen on valid, and test is
only told. What is drawn was measured on two CPU cores, the rest on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from collect_rows import column, gather_tables, metrics_table
from row_files import Row
from rows import run_command_or_collect

RESULTS = Path(__file__).parent / "results" / "images.json"
COMMAND = "python benchmarks/images.py"
SYNTHETIC = ("classify-image", "classify-image-mean", "classify-image-hybrid", "classify-image-resnet")
TABLES = {
    "drawn": (SYNTHETIC, ("accuracy",)),
    "told": (("caption", "caption-video"), ("exact_match", "bleu")),
    "real": (("cifar10-vit", "cifar10-hybrid", "cifar10-resnet", "fashion-mnist-hybrid"), ("accuracy",)),
    "photos": (("flickr8k",), ("bleu", "chrf")),
}
"""Recipes in the order in which the page shows them, and what it shows of them."""


def table_of(rows: Sequence[Row], shown_metrics: Sequence[str]) -> dict[str, Any]:
    """A row for each recipe, with the machines that its runs were trained on."""
    table: dict[str, Any] = metrics_table(rows, shown_metrics)
    for told in table["rows"]:
        found = [row for row in rows if (row.recipe, row.label) == (told["recipe"], told["change"])]
        told["machine"] = ", ".join(dict.fromkeys(str(row.environment.get("device", "")) for row in found))
    table["columns"].append(column("machine", "machine"))
    return table


def gather(folder: Path, results: Path) -> None:
    """The rows of a folder into the results file."""
    gather_tables(folder, results, COMMAND, TABLES, table_of)


def main(words: Sequence[str] | None = None) -> None:
    """The command line: that of `rows.py`, and `collect`."""
    run_command_or_collect(__doc__ or "", gather, RESULTS, words)


if __name__ == "__main__":
    main()
