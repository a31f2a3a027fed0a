"""What the recipes of pictures and films reach: they tell apart or describe what is drawn or photographed.

python benchmarks/pictures.py row classify-image --out FOLDER   train and score one run, as `rows.py` does
python benchmarks/pictures.py score RUN RUN --out FOLDER        score runs that were trained elsewhere
python benchmarks/pictures.py collect FOLDER                    its rows into results/pictures.json

A run's folder tells its seed, how long training took, and on which machine. Recipes are chosen on valid, and test is
only told. What is drawn was measured on two CPU cores, the rest on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from collect_rows import column, figures_table, gather_tables
from row_files import Row
from rows import obey_or_collect

RESULTS = Path(__file__).parent / "results" / "pictures.json"
COMMAND = "python benchmarks/pictures.py"
DRAWN = ("classify-image", "classify-image-mean", "classify-image-hybrid", "classify-image-resnet")
TABLES = {
    "drawn": (DRAWN, ("accuracy",)),
    "told": (("caption", "caption-film"), ("exact", "bleu")),
    "real": (("cifar10-vit", "cifar10-hybrid", "cifar10-resnet", "fashion-mnist-hybrid"), ("accuracy",)),
    "photos": (("flickr8k",), ("bleu", "chrf")),
}
"""Recipes in the order in which the page shows them, and what it shows of them."""


def table_of(rows: Sequence[Row], metrics: Sequence[str]) -> dict[str, Any]:
    """A row for each recipe, with the machines that its runs were trained on."""
    table: dict[str, Any] = figures_table(rows, metrics)
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
    obey_or_collect(__doc__ or "", gather, RESULTS, words)


if __name__ == "__main__":
    main()
