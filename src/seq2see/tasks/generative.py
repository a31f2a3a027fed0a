"""Generative tasks: the output is a text that is decoded token by token, so predicting is generating."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar

from torch import nn

from seq2see.tasks.model import Model
from seq2see.tasks.model_folder import StoredModel
from seq2see.tasks.report_parts import ReportSection, ReportTable, RunResults, Tree, Words
from seq2see.tasks.task import DEVELOPMENT_SPLITS, Comparison, Evaluation, SplitProgress, Splits, Task
from seq2see.tasks.teacher_forcing import evaluate_teacher_forced
from seq2see.tasks.text_scores import (
    output_table,
    score_outputs,
    text_headline,
    text_score_lines,
    text_sections,
    text_tiles,
)
from seq2see.tasks.token_context import GenerationContext, generation_context

VALIDATION_STREAMS = 16
"""The number of parallel parts of the validation text for recurrent models during training, for speed."""


class GenerativeTask(Task):
    """A task whose output is a text."""

    generates: ClassVar[bool] = True
    comparison: ClassVar[Comparison] = "outputs"
    predicted_unit: ClassVar[str] = "tokens"
    views: ClassVar[tuple[str, ...]] = (*Task.views, "next-token", "decode")

    def open(self, stored: StoredModel, engine: Any) -> Model:
        """The model, which decodes with this engine."""
        return Model(stored, engine, self)

    def token_context(self, model: Model, raw: Any, target: str, token_ids: Sequence[int]) -> GenerationContext:
        """The source and the tokens of the output so far."""
        return generation_context(model, raw, target, token_ids)

    def validate(self, module: nn.Module, valid: Any, check: Callable[[], Any]) -> tuple[float, dict[str, float]]:
        """The mean loss of a token with teacher forcing, and the token accuracy."""
        perplexity, accuracy = evaluate_teacher_forced(module, valid, check, streams=VALIDATION_STREAMS)
        return perplexity.loss / perplexity.count, {"valid_accuracy": accuracy.value}

    @abstractmethod
    def evaluate(
        self, model: Model, recipe: Any, splits: Splits, on_progress: SplitProgress, settings: dict[str, Any]
    ) -> Evaluation:
        """Generate the outputs of the test splits and compute the scores."""

    def tiles(self, scores: Tree) -> list[tuple[Words, str]]:
        """The most important metrics of the test split."""
        return text_tiles(scores)

    def sections(self, results: RunResults) -> list[ReportSection]:
        """The scores of each test split and with teacher forcing, and the best and the worst predictions."""
        return text_sections(results)

    def score_lines(self, scores: Tree) -> Iterable[str | ReportTable]:
        """A row for each test split, and the scores with teacher forcing."""
        return text_score_lines(scores)

    def headline(self, scores: Tree) -> str:
        """BLEU, or another metric."""
        return text_headline(scores)


def generate_splits(
    model: Model, recipe: Any, splits: Splits, on_progress: SplitProgress, settings: dict[str, Any], language: str
) -> Evaluation:
    """Generate the outputs of every test split in this language, score them, and list every output with its score."""
    evaluation = Evaluation()
    for name, examples in splits.items():
        if name in DEVELOPMENT_SPLITS or not examples:
            continue
        predictions = model.predict(model.task.inputs(examples), on_progress=partial(on_progress, name), **settings)
        references, outputs = [each.target for each in examples], [each.text for each in predictions]
        all_references = [each.all_references for each in examples]
        evaluation.scores[name] = score_outputs(recipe.metrics, references, outputs, all_references, language)
        evaluation.tables[name] = output_table(examples, predictions)
    return evaluation


def perplexity_scores(
    module: nn.Module,
    dataset: Any,
    split: str,
    on_progress: Callable[[], Any] = lambda: None,
    unknown_rate: float = 0.0,
) -> dict[str, Any]:
    """Perplexity and token accuracy with teacher forcing, as in `scores.json`."""
    perplexity, accuracy = evaluate_teacher_forced(module, dataset, on_progress)
    return {
        "perplexity": {
            "split": split,
            "unit": perplexity.unit,
            "per_token": perplexity.value,
            "bits_per_character": perplexity.bits_per_character,
            "token_accuracy": 100 * accuracy.value,
            "unknown_rate": 100 * unknown_rate,
        }
    }


def evaluation_split(splits: Splits) -> str:
    """The split that perplexity is computed on: the test split, or the validation split if there is none."""
    return "test" if splits["test"] else "valid"
