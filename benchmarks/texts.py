"""What the recipes of text tasks reach: language models, taggers and classifiers, each with its peers in a table.

python benchmarks/texts.py row ptb-lstm --seed 1 --out FOLDER    train and score one run, as `rows.py` does
python benchmarks/texts.py row sst2-minilm --set pretrained=path/to/minilm --out FOLDER
python benchmarks/texts.py collect FOLDER                        its rows into results/texts.json

Recipes are chosen on valid, and test is only told. What was published as development texts is tested on where the test
texts have no labels; Shakespeare's plays have nothing but what they are validated on.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from collect_rows import gather_tables, metrics_table
from rows import run_command_or_collect

RESULTS = Path(__file__).parent / "results" / "texts.json"
COMMAND = "python benchmarks/texts.py"
ACCURACY_METRICS = ("accuracy", "macro_f1")
TABLES = {
    "shakespeare": (("shakespeare", "shakespeare-large"), ("loss", "bits_per_character")),
    "ptb": (("ptb-ngram", "ptb-gpt", "ptb-lstm", "ptb-awd-lstm"), ("perplexity", "bits_per_character")),
    "labels": (
        ("sst2-text-cnn", "sst2-lstm", "sst2-transformer", "sst2-minilm", "chnsenticorp-text-cnn"),
        ACCURACY_METRICS,
    ),
    "tags": (("ud-english-ewt", "ud-chinese-gsd"), ACCURACY_METRICS),
}
"""Recipes in the order in which a page shows them, and what it shows of them."""


def gather(folder: Path, results: Path) -> None:
    """The rows of a folder into the results file."""
    gather_tables(folder, results, COMMAND, TABLES, metrics_table)


def main(words: Sequence[str] | None = None) -> None:
    """The command line: that of `rows.py`, and `collect`."""
    run_command_or_collect(__doc__ or "", gather, RESULTS, words)


if __name__ == "__main__":
    main()
