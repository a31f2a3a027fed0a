"""The ladder from a plain RNN to the Transformer on Multi30k, English to German: trained, scored, compared.

python benchmarks/multi30k.py row multi30k-gru --seed 2 --out FOLDER      train and score one run
python benchmarks/multi30k.py row multi30k-transformer --seed 1 --set objective.r_drop=0 \
    --label "without R-Drop" --out FOLDER                                 the same with changed settings
python benchmarks/multi30k.py score RUN --out FOLDER                      score an existing run: an ensemble
python benchmarks/multi30k.py collect FOLDER                              all rows into results/multi30k.json

Everything is selected on valid (Multi30k's val); test (its test_2016_flickr) is only reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from collect_rows import Corpus, collect
from row_files import Row, read_rows
from rows import run_command_or_collect

from seq2see.core.files import write_json
from seq2see.metrics.bleu import corpus_bleu_tokenized
from seq2see.recipes.registry import recipe
from seq2see.tasks.task import task_of

RESULTS = Path(__file__).parent / "results" / "multi30k.json"
COMMAND = "python benchmarks/multi30k.py"
LADDER = (
    "multi30k-rnn",
    "multi30k-gru",
    "multi30k-gru-attention",
    "multi30k-lstm-attention",
    "multi30k-transformer",
    "multi30k-ensemble",
)


def gather(folder: Path, results: Path) -> None:
    """Combine all rows of a folder into one results file; scores that need another package are computed here."""
    splits, _ = task_of(recipe(LADDER[0])).read(recipe(LADDER[0]))
    corpus = {
        split: Corpus([each.source for each in splits[split]], [each.target for each in splits[split]])
        for split in ("valid", "test")
    }
    rows = [with_tokenized(each, corpus) for each in read_rows(folder)]
    write_json(results, {"command": COMMAND, **collect(rows, LADDER, corpus["test"])})
    print(f"{results}: {len(rows)} rows, {results.stat().st_size:,} bytes")


def with_tokenized(row: Row, corpus: dict[str, Corpus]) -> Row:
    """The row with its lower-cased tokenized BLEU."""
    for split, outputs in row.outputs.items():
        bleu = corpus_bleu_tokenized(outputs, corpus[split].references, "de")
        row.metrics[f"{split}_bleu-tokenized"] = bleu.value
        row.signatures["bleu-tokenized"] = bleu.signature
    return row


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line: that of `rows.py`, and `collect`."""
    run_command_or_collect(__doc__ or "", gather, RESULTS, arguments)


if __name__ == "__main__":
    main()
