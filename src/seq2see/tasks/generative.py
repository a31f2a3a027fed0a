"""Generative tasks: the output is a text that is decoded token by token, so predicting is generating."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, ClassVar, Literal

from torch import nn

from seq2see.data.examples import Example
from seq2see.metrics.bleu import (
    BleuTokenizer,
    corpus_bleu,
    corpus_bleu_tokenized,
    corpus_chrf,
    d2l_bleu,
    has_moses,
    sentence_chrf,
)
from seq2see.metrics.classification import sentence_accuracy
from seq2see.metrics.edits import pronunciation_errors
from seq2see.tasks.generation_context import GenerationContext, generation_context
from seq2see.tasks.model import Model, Prediction
from seq2see.tasks.model_folder import StoredModel
from seq2see.tasks.task import DEVELOPMENT_SPLITS, Comparison, Evaluation, SplitProgress, Splits, Task, one_line
from seq2see.tasks.teacher_forcing import evaluate_teacher_forced

Metric = Literal["bleu", "bleu-tokenized", "chrf", "exact_match", "d2l-bleu", "pronunciation", "alignment"]
"""The metrics of generated texts."""
VALIDATION_STREAMS = 16
"""The number of parallel parts of the validation text for recurrent models during training, for speed."""


class GenerativeTask(Task):
    """A task whose output is a text."""

    generates: ClassVar[bool] = True
    comparison: ClassVar[Comparison] = "outputs"
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


def bleu_tokenize(references: list[str]) -> BleuTokenizer:
    """The sacreBLEU tokenizer for these texts: `zh` for Chinese, which has no spaces between words, else `13a`."""
    text = "".join(references[:1000])
    chinese = sum("\u4e00" <= character <= "\u9fff" for character in text)
    return "zh" if chinese > len(text) / 4 else "13a"


def score_outputs(
    metrics: Sequence[Metric],
    references: list[str],
    outputs: list[str],
    all_references: Sequence[Sequence[str]] = (),
    language: str = "en",
) -> dict[str, Any]:
    """Compute these metrics; a metric whose package is not installed is left out.

    `all_references` are the references of each row if there can be several; `language` is that of the outputs.
    """
    scores: dict[str, Any] = {"pairs": len(references)}
    if "bleu" in metrics:
        scores["bleu"] = asdict(corpus_bleu(outputs, references, bleu_tokenize(references), all_references))
    if "bleu-tokenized" in metrics and has_moses():
        scores["bleu-tokenized"] = asdict(corpus_bleu_tokenized(outputs, references, language))
    if "chrf" in metrics:
        scores["chrf"] = asdict(corpus_chrf(outputs, references))
    if "exact_match" in metrics:
        rows = zip(outputs, all_references or [(each,) for each in references], strict=True)
        matches = [output if output in each else each[0] for output, each in rows]  # any reference counts
        scores["exact_match"] = 100 * sentence_accuracy(outputs, matches).value
    if "d2l-bleu" in metrics:
        pairs = zip(outputs, references, strict=True)
        values = [d2l_bleu(output.split(), reference.split()) for output, reference in pairs]
        scores["d2l-bleu"] = sum(values) / len(values)
    if "pronunciation" in metrics:
        scores["pronunciation"] = pronunciation_errors(outputs, all_references or [[each] for each in references])
    return scores


def output_table(examples: Sequence[Example], predictions: Sequence[Prediction]) -> list[list[str]]:
    """A table: source, reference, output, chrF and score of each pair."""
    outputs, references = [each.text for each in predictions], [example.target for example in examples]
    rows = [["source", "reference", "output", "chrf", "score"]]
    for example, prediction, score in zip(examples, predictions, sentence_chrf(outputs, references), strict=True):
        texts = (example.source, example.target, prediction.text)
        rows.append([*map(one_line, texts), f"{score:.2f}", f"{prediction.score:.4f}"])
    return rows
