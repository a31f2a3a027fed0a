"""Text classification: from labeled texts to predicted labels and a confusion matrix."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator
from torch import Tensor

from seq2see.core.errors import UserError
from seq2see.data.catalogue.catalogue import CatalogueCorpus
from seq2see.data.examples import Example
from seq2see.data.generated.pocket.pocket_corpus import PocketTense
from seq2see.data.labeled_dataset import LabeledTextDataset
from seq2see.data.readers.lines import is_blank
from seq2see.data.readers.pair_files import UserLabeledTexts, wrong_file_count
from seq2see.data.tokenizers.tokenizer import BOS, EOS, Tokenizer, train_tokenizer
from seq2see.metrics.classification import ConfusionMatrix
from seq2see.models.settings import Label, Text
from seq2see.tasks.encoder_only import EncoderOnlyTask, TaskResult, predict_all
from seq2see.tasks.model import ScoredText
from seq2see.tasks.model_folder import Candidates, Recipe, StoredModel, TextEncoder, Tokenizers
from seq2see.tasks.report_parts import (
    ReportSection,
    ReportTable,
    ReportText,
    RunResults,
    Tree,
    Words,
    figure_section,
    is_number,
    note,
    section,
    words,
)
from seq2see.tasks.task import (
    DEVELOPMENT_SPLITS,
    BatchAt,
    Capture,
    Comparison,
    EncodedInput,
    EvaluatedRow,
    Evaluation,
    RowKind,
    SplitProgress,
    Splits,
    one_line,
    plain,
    split_sizes,
)
from seq2see.tasks.translate import pair_batches
from seq2see.training.objectives import Classification

CLASSES_SHOWN = 30
"""The number of labels on the terminal, the most frequent first; all are in `scores.json`."""
SHOWN_MISTAKES = 10
"""The number of mistakes in the report."""
LabeledCorpus = Annotated[PocketTense | CatalogueCorpus | UserLabeledTexts, Field(discriminator="kind")]
"""Corpora of texts with labels."""


class EncoderOnlyRecipe(Recipe):
    """What the recipes of all encoder-only models share."""

    objective: Classification = Classification()
    prediction: Candidates = Candidates()

    @model_validator(mode="after")
    def check_batches(self) -> EncoderOnlyRecipe:
        """Refuse batches that are for generative models."""
        if self.training.batches != "bucketed":
            raise ValueError(
                f"{self.training.batches} batches are for generative models: set training.batches=bucketed"
            )
        return self


class ClassifyTextRecipe(EncoderOnlyRecipe):
    """A recipe of the task classify-text: an encoder of the text and a classifier."""

    task: Literal["classify-text"] = "classify-text"
    corpus: LabeledCorpus
    """The source of the examples."""
    source: Text
    target: Label = Label()
    encoder: TextEncoder
    """The encoder of the text."""


class ClassifyText(EncoderOnlyTask):
    """Predict the label of a text."""

    name: ClassVar[str] = "classify-text"
    recipe: ClassVar[type[Recipe]] = ClassifyTextRecipe
    row_kind: ClassVar[RowKind] = "labels"
    comparison: ClassVar[Comparison] = "decisions"
    unit: ClassVar[str] = "texts"

    def corpus(self, paths: tuple[str, ...]) -> UserLabeledTexts:
        """The user's own texts with labels: one table, or two files aligned by line."""
        if len(paths) > 2:
            raise wrong_file_count(len(paths))
        return UserLabeledTexts(paths=paths)

    def fit(self, recipe: Any, train: Sequence[Example], pretrained: StoredModel | None = None) -> Tokenizers:
        """Learn a vocabulary; the labels are sorted alphabetically."""
        tokenizer = source_tokenizer(recipe, [example.source for example in train], pretrained)
        labels = sorted({example.target for example in train})
        if len(labels) < 2:
            raise UserError(
                f"All training texts have the label {labels[0]!r}.",
                location=train[0].location,
                hint="Add texts with other labels.",
            )
        return Tokenizers(tokenizer, tokenizer, self.ordered_labels(labels, pretrained))

    def ordered_labels(self, labels: Sequence[str], pretrained: StoredModel | None) -> tuple[str, ...]:
        """Labels in the order of a pretrained model of this task that has the same, so that its head fits."""
        if pretrained is None or pretrained.config.task != self.name:
            return tuple(labels)
        labels_before = pretrained.tokenizers.labels
        return labels_before if set(labels_before) == set(labels) else tuple(labels)

    def dataset(self, recipe: Any, tokenizers: Tokenizers, examples: Sequence[Example]) -> Any:
        """Encode texts and their label indices."""
        return LabeledTextDataset(examples, tokenizers.source, tokenizers.labels, recipe.source.max_tokens)

    def batches(self, recipe: Any, dataset: Any, full: bool = False, capture: Capture = plain) -> BatchAt:
        """Batches of texts of similar length."""
        return pair_batches(recipe.training, dataset, {"source": recipe.source.tokenizer}, full)

    def summary(self, recipe: Any, tokenizers: Tokenizers, splits: Splits) -> str:
        """The number of texts, and the sizes of the vocabulary and of the label set."""
        source, labels = tokenizers.sizes
        return f"{split_sizes(splits)} texts; vocabulary {source:,}, labels {labels:,}"

    def describe_examples(self, dataset: Any, examples: Sequence[Example], indices: Sequence[int]) -> tuple[str, str]:
        """The unit of the examples of a batch, and the names of some of them, for an error message."""
        return "pairs", super().describe_examples(dataset, examples, indices)[1]

    def encode(self, stored: StoredModel, raw: Any) -> EncodedInput:
        """Encode a text, truncated at its end."""
        if is_blank(raw):
            raise UserError("The text is empty.")
        ids, max_tokens = stored.tokenizers.source.encode(raw), stored.config.model.source_text.max_tokens
        return EncodedInput(raw, [BOS, *ids[:max_tokens], EOS], len(ids) > max_tokens)

    def postprocess(self, stored: StoredModel, inputs: EncodedInput, scores: Tensor, top_k: int) -> TaskResult:
        """The most probable label, and the probabilities of the `top_k` labels."""
        labels = stored.tokenizers.labels
        log_probabilities, indices = scores[0].topk(min(top_k or len(labels), len(labels)))
        rows = zip(indices.tolist(), log_probabilities.tolist(), strict=True)
        candidates = tuple(ScoredText(labels[index], math.exp(log)) for index, log in rows)
        return TaskResult(inputs, candidates[0].text, float(log_probabilities[0]), (candidates,))

    def evaluate(
        self, model: Any, recipe: Any, splits: Splits, on_progress: SplitProgress, settings: dict[str, Any]
    ) -> Evaluation:
        """Accuracy, and precision, recall and F1 of each label; every prediction is a row of a table."""
        evaluation = Evaluation()
        for name, examples in evaluated_splits(splits):
            self.dataset(recipe, model.tokenizers, examples)  # refuses labels that are not in the training data
            progress = partial(on_progress, "test")
            results = predict_all(model, self.inputs(examples), top_k=1, on_progress=progress)
            references, predictions = [example.target for example in examples], [each.text for each in results]
            confusion = ConfusionMatrix.of(model.tokenizers.labels, references, predictions)
            evaluation.scores[name] = confusion_scores(confusion)
            evaluation.tables[f"{name}-predictions"] = prediction_table(examples, results)
            if name == "test":
                evaluation.figures["eval/confusion.png"] = partial(draw_confusion_matrix, confusion)
        return evaluation

    def evaluated_row(self, number: int, cells: Sequence[str]) -> EvaluatedRow:
        """A row of text, label, prediction and probability."""
        text, label, predicted, probability = cells
        correct = [truth == prediction for truth, prediction in self.decisions(label, predicted)]
        return EvaluatedRow(number, text, label, predicted, sum(correct) / len(correct), float(probability))

    def tiles(self, scores: Tree) -> list[tuple[Words, str]]:
        """Accuracy and macro F1."""
        test = scores.get("test", {})
        return [(words(f"test_{key}"), f"{test[key]:.1f}") for key in ("accuracy", "macro_f1") if key in test]

    def sections(self, results: RunResults) -> list[ReportSection]:
        """The scores of each label, the confusion matrix, and the most confident mistakes."""
        splits = {name: part for name, part in results.scores.items() if isinstance(part, dict) and "classes" in part}
        classes = [part for name, scores in splits.items() for part in class_parts(name, scores)]
        return [
            section("scores", *classes),
            figure_section(results, "eval/confusion.png", "confusion"),
            *self.mistakes(results),
        ]

    def mistakes(self, results: RunResults) -> list[ReportSection]:
        """The wrong predictions with the highest probabilities."""
        wrong = [row for row in results.rows("test-predictions", 4) if row[1] != row[2] and is_number(row[3])]
        if not wrong:
            return []
        header = [words(name) for name in ("source", "label", "prediction", "probability")]
        most_confident = sorted(wrong, key=lambda row: -float(row[3]))[:SHOWN_MISTAKES]
        return [section("mistakes", note("mistakes_note"), ReportTable(header, most_confident, text_columns=3))]

    def score_lines(self, scores: Tree) -> Iterator[str | ReportTable]:
        """A row for each label, and the scores over all labels."""
        for name, part in scores.items():
            if isinstance(part, dict) and "classes" in part:
                yield from class_lines(name, part)
        if "image" in scores:
            yield f"image size {scores['image']['size']} x {scores['image']['size']} pixels"

    def headline(self, scores: Tree) -> str:
        """The accuracy."""
        test = scores.get("test", {})
        return f"accuracy {test['accuracy']:.1f} %" if "accuracy" in test else ""


def class_parts(split: str, scores: Tree) -> tuple[ReportText, ReportTable]:
    """The scores over all labels, and a row for each label, the most frequent first."""
    accuracy, f1 = f"{scores['accuracy']:.1f}", f"{scores['macro_f1']:.1f}"
    titles = [words(name) for name in ("precision", "recall", "f1")]
    percent = [(f"{english} %", f"{chinese} %") for english, chinese in titles]
    rows = [[label, f"{each['support']:,}", *_percentages(each)] for label, each in _by_support(scores)]
    return (
        ReportText(words("classes_note", accuracy=accuracy, f1=f1, split=split), is_note=False),
        ReportTable([words("label"), words("support"), *percent], rows),
    )


def class_lines(split: str, scores: Tree) -> Iterator[str | ReportTable]:
    """For the terminal: a row for each label, and the scores over all labels."""
    common = _by_support(scores)
    rows = [[label, f"{each['support']:,}", *_percentages(each)] for label, each in common[:CLASSES_SHOWN]]
    yield ReportTable(["label", f"in {split}", "precision %", "recall %", "F1 %"], rows)
    if more := len(common) - len(rows):
        yield f"... and {more:,} more labels, in eval/scores.json"
    yield (
        f"{split}: accuracy {scores['accuracy']:.1f} % of {scores['examples']:,}, macro F1 {scores['macro_f1']:.1f} %"
    )
    if "spans" in scores:
        yield f"{split}: F1 of spans {100 * scores['spans']['f1']:.1f} %"


def _by_support(scores: Tree) -> list[tuple[str, Tree]]:
    """The labels and their scores, the most frequent first."""
    return sorted(scores["classes"].items(), key=lambda item: -item[1]["support"])


def _percentages(scores: Tree) -> list[str]:
    return [f"{100 * scores[key]:.1f}" for key in ("precision", "recall", "f1")]


def evaluated_splits(splits: Splits) -> Iterator[tuple[str, Sequence[Example]]]:
    """The test splits that have examples."""
    return ((name, each) for name, each in splits.items() if name not in DEVELOPMENT_SPLITS and each)


def confusion_scores(confusion: ConfusionMatrix) -> dict[str, Any]:
    """The scores of a confusion matrix, as stored in `scores.json`."""
    classes = {
        label: {"precision": each.precision, "recall": each.recall, "f1": each.f1, "support": each.support}
        for label, each in confusion.scores.items()
    }
    totals = {"accuracy": 100 * confusion.accuracy, "macro_f1": 100 * confusion.macro_f1, "examples": confusion.total}
    return {**totals, "classes": classes, "confusion": [list(row) for row in confusion.counts]}


def draw_confusion_matrix(confusion: ConfusionMatrix, path: Path) -> None:
    """Draw the confusion matrix."""
    from seq2see.inspection.plotting import draw_confusion  # matplotlib only where it is used

    draw_confusion(confusion.labels, confusion.counts, path)


def prediction_table(
    examples: Sequence[Example], results: Sequence[TaskResult], input_name: str = "text"
) -> list[list[str]]:
    """A table: input, label, prediction and its probability."""
    rows = [
        (example.source, example.target, each.text, f"{math.exp(each.log_probability):.4f}")
        for example, each in zip(examples, results, strict=True)
    ]
    return [[input_name, "label", "prediction", "probability"], *([one_line(cell) for cell in row] for row in rows)]


def source_tokenizer(recipe: Any, texts: Sequence[str], pretrained: StoredModel | None) -> Tokenizer:
    """The tokenizer of the pretrained model, or one learned from texts."""
    if pretrained is not None:
        return pretrained.tokenizers.source
    return train_tokenizer(recipe.source.tokenizer, texts)
