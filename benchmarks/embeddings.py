"""One-hot, learned and pre-trained word embeddings with the same small classifier: results/embeddings.json.

    python benchmarks/embeddings.py          about three minutes
    python benchmarks/embeddings.py "..."    the same, with a note on other load of the machine

The task is that of classify-text: the tense of a sentence of the pocket corpus. The classifier is Kim's TextCNN.
One-hot vectors are as wide as the vocabulary and are frozen. Pre-trained embeddings come from a masked language model
of the same architecture, trained on 4,000 sentences without labels; they are the initial values and are fine-tuned.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json, write_text
from seq2see.data.generated.pocket.pocket_corpus import PocketTense
from seq2see.data.tokenizers.tokenizer import WordLevel
from seq2see.metrics.classification import ConfusionMatrix
from seq2see.models.convolutional import TextCNNSettings
from seq2see.models.settings import TokenEmbeddingSettings
from seq2see.recipes.registry import recipe, resolve
from seq2see.runs.load import open_model, read_model
from seq2see.runs.prepare import prepare
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.train import batches, new_trainer, train_recipe
from seq2see.tasks.model_folder import ModelConfig, Recipe, StoredModel

RESULTS = Path(__file__).parent / "results" / "embeddings.json"
SIZES, SEEDS = (100, 400), (1, 2, 3)
WIDTH, STEPS = 63, 150
SETTINGS = {"source.tokenizer": WordLevel(min_count=2), "training.batch_tokens": 512, "training.steps": STEPS}

Row = dict[str, Any]


def pre_trained(folder: Path) -> RunFolder:
    """A masked language model, trained on the sentences without their labels."""
    text = "".join(f"{example.source}\n" for example in PocketTense().splits()["train"])
    write_text(folder / "sentences.txt", text)
    changes = SETTINGS | {
        "source.max_tokens": 64,
        "encoder.kind": "text-cnn",
        "encoder.width": WIDTH,
        "encoder.dropout": 0.0,
    }
    changes |= {
        "training.steps": 600,
        "training.batch_tokens": 1024,
        "source.embedding": TokenEmbeddingSettings(positions="none"),
    }
    return train_recipe(resolve("fill", [folder / "sentences.txt"], changes), folder / "fill")


def classifier(run: RunFolder, size: int, seed: int, width: int, scale: bool) -> Recipe:
    """The recipe of the classifier, with the vocabulary of the run."""
    changes = SETTINGS | {"corpus.size": size, "training.seed": seed, "training.patience": 0}
    changes["source.embedding"] = TokenEmbeddingSettings(positions="none", scale=scale)
    base = recipe("classify-text-cnn").with_(**changes)
    encoder = TextCNNSettings(width=width, dropout=0.2)
    return base.model_copy(update={"pretrained": str(run.path), "encoder": encoder})


def accuracy(chosen: Recipe, table: Tensor | None, *, trained: bool = True) -> float:
    """The test accuracy of a classifier that is trained with these initial word embeddings."""
    prepared = prepare(chosen, lambda text: None)
    trainer = new_trainer(chosen.model_copy(update={"pretrained": None}), prepared)
    words = trainer.model.source.table.weight
    if table is not None:
        words.data.copy_(table)
    words.requires_grad_(trained)
    batch_at = batches(chosen, prepared)
    for step in range(1, STEPS + 1):
        trainer.train_step(batch_at(step))
    stored = StoredModel(ModelConfig.of(chosen, STEPS), trainer.model.eval(), prepared.tokenizers)
    test = prepared.splits["test"]
    outputs = open_model(stored).predict([example.source for example in test], top_k=1)
    labels = prepared.tokenizers.labels
    confusions = ConfusionMatrix.of(labels, [example.target for example in test], [each.text for each in outputs])
    return 100 * confusions.accuracy


def main(note: str = "") -> None:
    """Train, evaluate and store."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        run = pre_trained(Path(folder))
        learned = read_model(run.model, torch.device("cpu")).module.source.table.weight.detach()  # type: ignore[union-attr]
        vocabulary = len(learned)
        for size in SIZES:
            row: Row = {"sentences": size, "one-hot": [], "learned": [], "pre-trained": []}
            for seed in SEEDS:
                wide = classifier(run, size, seed, vocabulary, False)
                row["one-hot"].append(accuracy(wide, torch.eye(vocabulary), trained=False))
                narrow = classifier(run, size, seed, WIDTH, True)
                row["learned"].append(accuracy(narrow, None))
                row["pre-trained"].append(accuracy(narrow, learned))
            rows.append(row)
            print(row, flush=True)
    columns = [{"key": "sentences", "title": "labeled sentences"}]
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
