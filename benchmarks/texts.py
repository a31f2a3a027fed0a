"""What the recipes of text tasks reach: language models, taggers and classifiers, each with its peers in a table.

python benchmarks/texts.py row ptb-lstm --seed 1 --out FOLDER    train and score one run, as `rows.py` does
python benchmarks/texts.py row sst2-minilm --set start=path/to/minilm --out FOLDER
python benchmarks/texts.py collect FOLDER                        all rows into results/texts.json

Recipes are chosen on valid, and test is only told. What was published as development texts is tested on where the test
texts have no labels; Shakespeare's plays have nothing but what they are validated on.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from collect_rows import environment_of, figures_table
from row_files import read_rows
from rows import obey_or_collect

from seq2see.core.errors import UserError
from seq2see.core.files import write_json

RESULTS = Path(__file__).parent / "results" / "texts.json"
COMMAND = "python benchmarks/texts.py"
COUNTED = ("accuracy", "macro_f1")
TABLES = {
    "shakespeare": (("shakespeare", "shakespeare-large"), ("loss", "bits_per_character")),
    "ptb": (("ptb-counting", "ptb-gpt", "ptb-lstm", "ptb-awd-lstm"), ("perplexity", "bits_per_character")),
    "labels": (("sst2-windows", "sst2-lstm", "sst2-transformer", "sst2-minilm", "chnsenticorp-windows"), COUNTED),
    "tags": (("ud-english-ewt", "ud-chinese-gsd"), COUNTED),
}
"""Recipes in the order in which a page shows them, and what it shows of them."""


def gather(folder: Path, results: Path) -> None:
    """All rows of a folder as one results file; a recipe without rows is left out, and one without a table refused."""
    rows = read_rows(folder)
    for row in rows:
        if not any(row.recipe in names for names, _ in TABLES.values()):
            raise UserError(f"No table shows {row.recipe}.", where=str(folder), remedy="Take its row away.")
    tables = {
        title: figures_table([row for name in names for row in rows if row.recipe == name], metrics)
        for title, (names, metrics) in TABLES.items()
    }
    write_json(results, {"command": COMMAND, "environment": environment_of(rows), "tables": tables})
    print(f"{results}: {len(rows)} rows")


def main(words: Sequence[str] | None = None) -> None:
    """The command line: that of `rows.py`, and `collect`."""
    obey_or_collect(__doc__ or "", gather, RESULTS, words)


if __name__ == "__main__":
    main()
