"""Text classification: from labeled texts to predicted labels and a confusion matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from seq2see.core.errors import UserError
from seq2see.core.files import write_text
from seq2see.data.examples import Example
from seq2see.data.labeled_dataset import LabeledTextDataset
from seq2see.data.readers.lines import is_blank
from seq2see.data.tokenizers.tokenizer import BOS, EOS
from seq2see.metrics.classification import ConfusionMatrix
from seq2see.runs.model import ScoredText
from seq2see.runs.model_folder import StoredModel
from seq2see.runs.model_tokenizers import Tokenizers
from seq2see.runs.pretrained import source_tokenizer
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.split_fingerprints import DEVELOPMENT_SPLITS
from seq2see.runs.task_protocols import EncodedInput, ProgressCallback, Splits, TaskResult, predict_all

if TYPE_CHECKING:
    from seq2see.runs.recipe import Recipe


class TextClassification:
    """Predict the label of a text."""

    def learn_tokenizers(self, recipe: Recipe, train: Sequence[Example]) -> Tokenizers:
        """Learn a vocabulary; the labels are sorted alphabetically."""
        tokenizer = source_tokenizer(recipe, [example.source for example in train])
        labels = sorted({example.target for example in train})
        if len(labels) < 2:
            raise UserError(
                f"All training texts have the label {labels[0]!r}.",
                location=train[0].location,
                hint="Add texts with other labels.",
            )
        return Tokenizers(tokenizer, tokenizer, tuple(labels))

    def encode(self, recipe: Recipe, tokenizers: Tokenizers, examples: Sequence[Example]) -> LabeledTextDataset:
        """Encode texts and their label indices."""
        return LabeledTextDataset(examples, tokenizers.source, tokenizers.labels, recipe.source_text.max_tokens)

    def sample_examples(self, dataset: LabeledTextDataset, count: int) -> list[Example]:
        """The first texts."""
        return list(dataset.examples[:count])

    def preprocess(self, stored: StoredModel, text: str) -> EncodedInput:
        """Encode a text, truncated at its end."""
        if is_blank(text):
            raise UserError("The text is empty.")
        ids, max_tokens = stored.tokenizers.source.encode(text), stored.config.model.source_text.max_tokens
        return EncodedInput(text, [BOS, *ids[:max_tokens], EOS], len(ids) > max_tokens)

    def postprocess(self, stored: StoredModel, inputs: EncodedInput, scores: Tensor, top_k: int) -> TaskResult:
        """The most probable label, and the probabilities of the `top_k` labels."""
        labels = stored.tokenizers.labels
        log_probabilities, indices = scores[0].topk(min(top_k or len(labels), len(labels)))
        rows = zip(indices.tolist(), log_probabilities.tolist(), strict=True)
        candidates = tuple(ScoredText(labels[index], math.exp(log)) for index, log in rows)
        return TaskResult(inputs, candidates[0].text, float(log_probabilities[0]), (candidates,))

    def size(self, splits: Splits) -> int:
        """The number of texts that are evaluated."""
        return sum(len(examples) for name, examples in splits.items() if name not in DEVELOPMENT_SPLITS)

    def evaluate(
        self, stored: StoredModel, recipe: Recipe, splits: Splits, run: RunFolder, on_progress: ProgressCallback
    ) -> dict[str, Any]:
        """Accuracy, and precision, recall and F1 of each label; every prediction is written to a table."""
        scores: dict[str, Any] = {}
        for name, examples in splits.items():
            if name in DEVELOPMENT_SPLITS or not examples:
                continue
            self.encode(recipe, stored.tokenizers, examples)  # refuses labels that are not in the training data
            results = predict_all(
                self, stored, [example.source for example in examples], top_k=1, on_progress=on_progress
            )
            references, predictions = [example.target for example in examples], [each.text for each in results]
            confusion = ConfusionMatrix.of(stored.tokenizers.labels, references, predictions)
            scores[name] = confusion_scores(confusion)
            write_prediction_table(run.evaluation / f"{name}-predictions.tsv", examples, results)
            if name == "test":
                plot_confusion(confusion, run)
        return scores


def confusion_scores(confusion: ConfusionMatrix) -> dict[str, Any]:
    """The scores of a confusion matrix, as stored in `scores.json`."""
    classes = {
        label: {"precision": each.precision, "recall": each.recall, "f1": each.f1, "support": each.support}
        for label, each in confusion.scores.items()
    }
    totals = {"accuracy": 100 * confusion.accuracy, "macro_f1": 100 * confusion.macro_f1, "examples": confusion.total}
    return {**totals, "classes": classes, "confusion": [list(row) for row in confusion.counts]}


def plot_confusion(confusion: ConfusionMatrix, run: RunFolder) -> None:
    """Draw the confusion matrix."""
    from seq2see.inspection.evaluation_plots import draw_confusion  # matplotlib only where it is used

    draw_confusion(confusion.labels, confusion.counts, run.evaluation / "confusion.png")


def write_prediction_table(
    path: Path, examples: Sequence[Example], results: Sequence[TaskResult], input_name: str = "text"
) -> None:
    """Write a table: input, label, prediction and its probability."""
    rows = [
        (example.source, example.target, each.text, f"{math.exp(each.log_probability):.4f}")
        for example, each in zip(examples, results, strict=True)
    ]
    lines = [[cell.replace("\t", " ").replace("\n", " ").replace("\r", " ") for cell in row] for row in rows]
    header = [input_name, "label", "prediction", "probability"]
    write_text(path, "".join("\t".join(line) + "\n" for line in [header, *lines]))
