"""The question "which label has this text?": from labeled texts to a label, and to who was taken for whom."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from seq2see.core.errors import UserError
from seq2see.core.files import write_text
from seq2see.metrics.classification import ConfusionMatrix
from seq2see.runs.model import ScoredText
from seq2see.runs.model_folder import StoredModel
from seq2see.runs.model_tokenizers import Tokenizers
from seq2see.runs.pretrained import source_tokenizer
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.split_fingerprints import DEVELOPMENT_SPLITS
from seq2see.runs.task_protocols import EncodedInput, ProgressCallback, Splits, TaskResult, predict_all
from seq2see.sequences.labeled import LabeledTextDataset
from seq2see.sequences.tokenizers import BOS, EOS
from seq2see.sources.examples import Example
from seq2see.sources.lines import is_blank

if TYPE_CHECKING:
    from seq2see.runs.recipe import Recipe


class TextClassification:
    """Name the label of a text."""

    def learn_tokenizers(self, recipe: Recipe, train: Sequence[Example]) -> Tokenizers:
        """A vocabulary, and the labels in the order of the alphabet."""
        tokenizer = source_tokenizer(recipe, [example.source for example in train])
        labels = sorted({example.target for example in train})
        if len(labels) < 2:
            raise UserError(
                f"All training texts have the label {labels[0]!r}.",
                location=train[0].place,
                hint="Give texts of other labels too.",
            )
        return Tokenizers(tokenizer, tokenizer, tuple(labels))

    def encode(self, recipe: Recipe, tokenizers: Tokenizers, examples: Sequence[Example]) -> LabeledTextDataset:
        """Texts and the numbers of their labels."""
        return LabeledTextDataset(examples, tokenizers.source, tokenizers.labels, recipe.source_text.max_tokens)

    def sample_examples(self, dataset: LabeledTextDataset, count: int) -> list[Example]:
        """The first texts."""
        return list(dataset.examples[:count])

    def read(self, stored: StoredModel, text: str) -> EncodedInput:
        """A text, or its beginning."""
        if is_blank(text):
            raise UserError("There is nothing to read in an empty text.")
        ids, longest = stored.tokenizers.source.encode(text), stored.config.model.source_text.max_tokens
        return EncodedInput(text, [BOS, *ids[:longest], EOS], len(ids) > longest)

    def postprocess(self, stored: StoredModel, inputs: EncodedInput, scores: Tensor, top_k: int) -> TaskResult:
        """The likeliest label, and how likely all are."""
        labels = stored.tokenizers.labels
        chances, numbers = scores[0].topk(min(top_k or len(labels), len(labels)))
        rows = zip(numbers.tolist(), chances.tolist(), strict=True)
        choices = tuple(ScoredText(labels[number], math.exp(chance)) for number, chance in rows)
        return TaskResult(inputs, choices[0].text, float(chances[0]), (choices,))

    def size(self, splits: Splits) -> int:
        """How many texts are judged."""
        return sum(len(examples) for name, examples in splits.items() if name not in DEVELOPMENT_SPLITS)

    def evaluate(
        self, stored: StoredModel, recipe: Recipe, splits: Splits, run: RunFolder, on_progress: ProgressCallback
    ) -> dict[str, Any]:
        """Accuracy, and for each label precision, recall and F1; every answer goes into a table."""
        scores: dict[str, Any] = {}
        for name, examples in splits.items():
            if name in DEVELOPMENT_SPLITS or not examples:
                continue
            self.encode(recipe, stored.tokenizers, examples)  # a label that was not learned is told
            results = predict_all(
                self, stored, [example.source for example in examples], top_k=1, on_progress=on_progress
            )
            references, answers = [example.target for example in examples], [each.text for each in results]
            confusion = ConfusionMatrix.of(stored.tokenizers.labels, references, answers)
            scores[name] = confusion_scores(confusion)
            write_answer_table(run.evaluation / f"{name}-answers.tsv", examples, results)
            if name == "test":
                plot_confusion(confusion, run)
        return scores


def confusion_scores(confusion: ConfusionMatrix) -> dict[str, Any]:
    """A confusion as it is stored."""
    classes = {
        label: {"precision": each.precision, "recall": each.recall, "f1": each.f1, "count": each.count}
        for label, each in confusion.scores.items()
    }
    figures = {"accuracy": 100 * confusion.accuracy, "macro_f1": 100 * confusion.macro_f1, "answers": confusion.total}
    return {**figures, "classes": classes, "confusion": [list(row) for row in confusion.counts]}


def plot_confusion(confusion: ConfusionMatrix, run: RunFolder) -> None:
    """An image of who was taken for whom."""
    from seq2see.inspection.confusion_plot import draw_confusion  # matplotlib only where it is used

    draw_confusion(confusion.labels, confusion.counts, run.evaluation / "confusion.png")


def write_answer_table(
    path: Path, examples: Sequence[Example], results: Sequence[TaskResult], asked: str = "text"
) -> None:
    """Write text, label, answer and its probability, of each text; or of what else was asked about."""
    rows = [
        (example.source, example.target, each.text, f"{math.exp(each.log_probability):.4f}")
        for example, each in zip(examples, results, strict=True)
    ]
    lines = [[cell.replace("\t", " ").replace("\n", " ").replace("\r", " ") for cell in row] for row in rows]
    head = [asked, "label", "answer", "probability"]
    write_text(path, "".join("\t".join(line) + "\n" for line in [head, *lines]))
