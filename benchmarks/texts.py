"""Results of the recipes for text tasks: tables of language models, taggers and classifiers.

python benchmarks/texts.py row ptb-lstm --seed 1 --out FOLDER    train and score one run, as `rows.py` does
python benchmarks/texts.py row sst2-minilm --set pretrained=path/to/minilm --out FOLDER
python benchmarks/texts.py collect FOLDER                        its rows into results/texts.json

Recipes are selected on valid, and test is only reported. Where the published test texts have no labels, the development
texts are the test split; Shakespeare's plays have no test split.
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
"""Tables by title: the recipes in the order of the page, and the metrics that it shows."""


def gather(folder: Path, results: Path) -> None:
    """The rows of a folder into the results file."""
    gather_tables(folder, results, COMMAND, TABLES, metrics_table)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line: that of `rows.py`, and `collect`."""
    run_command_or_collect(__doc__ or "", gather, RESULTS, arguments)


if __name__ == "__main__":
    main()
