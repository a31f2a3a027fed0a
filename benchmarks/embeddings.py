"""One-hot, learned and pre-trained vectors of words under the same small classifier: results/embeddings.json.

    python benchmarks/embeddings.py          about three minutes
    python benchmarks/embeddings.py "..."    the same, with a note on what else the machine did meanwhile

The question is classify-text's: when does a sentence of the pocket world happen? The classifier is Kim's, with windows
of words. One-hot vectors are as wide as the vocabulary and are never trained. Pre-trained ones come from a model
of the same shape that has filled blanks in 4,000 sentences without labels; they are only where training starts.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2see.api import resolve
from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json, write_text
from seq2see.metrics.classes import Confusion
from seq2see.models.convolutional import WindowEncoderSettings
from seq2see.models.settings import Tokens
from seq2see.recipes.table import recipe
from seq2see.sequences.tokenisers import Words
from seq2see.sources.pocket.times import PocketTimes
from seq2see.workbench.classify import Classify
from seq2see.workbench.model_folder import ModelConfig, StoredModel, read_model
from seq2see.workbench.prepare import prepare
from seq2see.workbench.questions import say_all
from seq2see.workbench.recipe import Recipe
from seq2see.workbench.run_folder import RunFolder
from seq2see.workbench.train import batches, new_trainer, train_recipe

RESULTS = Path(__file__).parent / "results" / "embeddings.json"
SIZES, SEEDS = (100, 400), (1, 2, 3)
WIDTH, STEPS = 63, 150
SETTINGS = {"source.tokeniser": Words(min_count=2), "training.tokens": 512, "training.steps": STEPS}

Row = dict[str, Any]


def pre_trained(folder: Path) -> RunFolder:
    """A model that has filled blanks in sentences, and never saw their labels."""
    text = "".join(f"{example.source}\n" for example in PocketTimes().splits()["train"])
    write_text(folder / "sentences.txt", text)
    changes = SETTINGS | {
        "source.longest": 64,
        "encoder.kind": "windows",
        "encoder.width": WIDTH,
        "encoder.dropout": 0.0,
    }
    changes |= {"training.steps": 600, "training.tokens": 1024, "source.frontend": Tokens(positions="none")}
    return train_recipe(resolve("fill", [folder / "sentences.txt"], changes), folder / "fill")


def classifier(run: RunFolder, size: int, seed: int, width: int, vectors: str) -> Recipe:
    """The classifier, with the vocabulary of the run."""
    changes = SETTINGS | {"corpus.size": size, "training.seed": seed, "training.patience": 0}
    changes["source.frontend"] = Tokens(positions="none", vectors=vectors)
    base = recipe("classify-text-windows").with_(**changes)
    encoder = WindowEncoderSettings(width=width, dropout=0.2)
    return base.model_copy(update={"start": str(run.path), "encoder": encoder})


def accuracy(chosen: Recipe, table: Tensor | None, *, trained: bool = True) -> float:
    """Train a classifier whose words begin with these vectors; the share of test sentences that it gets right."""
    prepared = prepare(chosen, lambda text: None)
    trainer = new_trainer(chosen.model_copy(update={"start": None}), prepared)
    words = trainer.model.source.table.weight
    if table is not None:
        words.data.copy_(table)
    words.requires_grad_(trained)
    batch_at = batches(chosen, prepared)
    for step in range(1, STEPS + 1):
        trainer.advance(batch_at(step))
    stored = StoredModel(ModelConfig.of(chosen, STEPS), trainer.model.eval(), prepared.tokenisers)
    test = prepared.splits["test"]
    said = say_all(Classify(), stored, [example.source for example in test], most=1)
    labels = prepared.tokenisers.labels
    found = Confusion.of(labels, [example.target for example in test], [each.text for each in said])
    return 100 * found.accuracy


def main(note: str = "") -> None:
    """Train, judge and store."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        run = pre_trained(Path(folder))
        learnt = read_model(run.model, torch.device("cpu")).module.source.table.weight.detach()  # type: ignore[union-attr]
        vocabulary = len(learnt)
        for size in SIZES:
            row: Row = {"sentences": size, "one-hot": [], "learned": [], "pre-trained": []}
            for seed in SEEDS:
                wide = classifier(run, size, seed, vocabulary, "plain")
                row["one-hot"].append(accuracy(wide, torch.eye(vocabulary), trained=False))
                narrow = classifier(run, size, seed, WIDTH, "scaled")
                row["learned"].append(accuracy(narrow, None))
                row["pre-trained"].append(accuracy(narrow, learnt))
            rows.append(row)
            print(row, flush=True)
    columns = [{"key": "sentences", "title": "labelled sentences"}]
    columns += [{"key": key, "title": f"{key} %", "digits": 1} for key in ("one-hot", "learned", "pre-trained")]
    write_json(
        RESULTS,
        {
            "command": "python benchmarks/embeddings.py",
            "environment": {**describe_machine(), "vocabulary": vocabulary, **({"note": note} if note else {})},
            "columns": columns,
            "rows": rows,
        },
    )


if __name__ == "__main__":
    main(*sys.argv[1:2])
