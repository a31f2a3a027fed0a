"""Results of the recipes for images and videos: classification and captioning of synthetic and natural images.

python benchmarks/images.py row classify-image --out FOLDER   train and score one run, as `rows.py` does
python benchmarks/images.py score RUN RUN --out FOLDER        score runs that were trained elsewhere
python benchmarks/images.py collect FOLDER                    its rows into results/images.json

Seed, training time and machine of a run are read from its folder. Recipes are selected on valid, and test is only
reported. Synthetic images were measured on two CPU cores, the rest on a GPU.
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
    "synthetic": (SYNTHETIC, ("accuracy",)),
    "captioning": (("caption", "caption-video"), ("exact_match", "bleu")),
    "natural": (("cifar10-vit", "cifar10-hybrid", "cifar10-resnet", "fashion-mnist-hybrid"), ("accuracy",)),
    "photos": (("flickr8k",), ("bleu", "chrf")),
}
"""Tables by title: the recipes in the order of the page, and the metrics that it shows."""


def table_of(rows: Sequence[Row], shown_metrics: Sequence[str]) -> dict[str, Any]:
    """A row for each recipe, with the machines on which its runs were trained."""
    table: dict[str, Any] = metrics_table(rows, shown_metrics)
    for table_row in table["rows"]:
        runs = [row for row in rows if (row.recipe, row.label) == (table_row["recipe"], table_row["change"])]
        table_row["machine"] = ", ".join(dict.fromkeys(str(row.environment.get("device", "")) for row in runs))
    table["columns"].append(column("machine", "machine"))
    return table


def gather(folder: Path, results: Path) -> None:
    """The rows of a folder into the results file."""
    gather_tables(folder, results, COMMAND, TABLES, table_of)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line: that of `rows.py`, and `collect`."""
    run_command_or_collect(__doc__ or "", gather, RESULTS, arguments)


if __name__ == "__main__":
    main()
