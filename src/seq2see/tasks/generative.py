"""Generative tasks: the output is a text that is decoded token by token, so predicting is generating.

Loss, accuracy and attention of whole splits are computed with teacher forcing, in parallel.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from seq2see.core.batch import IGNORE_INDEX
from seq2see.core.devices import device_of
from seq2see.data.examples import Example
from seq2see.data.image_dataset import ImageDataset
from seq2see.data.pair_dataset import PairDataset
from seq2see.data.series_dataset import SeriesDataset
from seq2see.data.tokenizers.tokenizer import Tokenizer
from seq2see.data.windows import TextDataset, contiguous_batches
from seq2see.inspection.trace import trace
from seq2see.metrics.alignment import GoldAlignment, SentenceAttention
from seq2see.metrics.perplexity import Accuracy, Perplexity, token_accuracy
from seq2see.models.recurrent import RecurrentDecoder
from seq2see.tasks.model import Model
from seq2see.tasks.model_folder import StoredModel, Tokenizers
from seq2see.tasks.report_parts import ReportSection, ReportTable, RunResults, Tree, Words, section
from seq2see.tasks.task import DEVELOPMENT_SPLITS, Comparison, Evaluation, SplitProgress, Splits, Task
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
        return text_tiles(scores) if scores else []

    def sections(self, results: RunResults) -> list[ReportSection]:
        """The scores of each test split and with teacher forcing, and the best and the worst predictions."""
        return text_sections(results) if results.scores else [section("scores"), section("predictions")]

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


BATCH_SIZE = 64
LOSS_WINDOWS, LOSS_WINDOW_TOKENS = 4, 128
"""The number of windows shown with the loss of every token, and the tokens of each."""
MAX_SCORES = 2**27
"""Maximum number of logits in memory at one time: half a gigabyte."""


@torch.inference_mode()
def evaluate_teacher_forced(
    module: nn.Module,
    pairs: PairDataset | TextDataset | ImageDataset,
    check: Callable[[], Any] = lambda: None,
    positions: slice = slice(None),
    streams: int = 1,
) -> tuple[Perplexity, Accuracy]:
    """Perplexity and token accuracy of a split, at some `positions` of each row.

    A recurrent language model carries its state through the whole text. With several `streams` (contiguous parts of the
    text, one per row) this is faster, but the state starts anew in each.
    """
    loss, correct, total = 0.0, 0, 0
    if isinstance(pairs, TextDataset) and is_recurrent(module):
        batches = _carried_logits(module, pairs, streams)
    else:
        batches = _logits(module, pairs)
    for logits, labels in batches:
        check()
        logits, labels = logits[:, positions].float(), labels[:, positions]
        batch_loss = nn.functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE_INDEX, reduction="sum"
        )
        accuracy = token_accuracy(logits.argmax(-1), labels)
        loss, correct, total = loss + float(batch_loss), correct + accuracy.correct, total + accuracy.total
    # The <eos> of a pair is predicted too, so the number of predictions exceeds that of the text's tokens.
    unit = pairs.unit if isinstance(pairs, TextDataset) else "token"
    return Perplexity(loss, total, unit, pairs.characters), Accuracy(correct, total)


@torch.inference_mode()
def token_losses(module: nn.Module, texts: TextDataset) -> list[dict[str, Any]]:
    """The first tokens of a few windows, with -log p of each given the tokens before it."""
    windows = []
    for index in range(0, len(texts), max(1, len(texts) // LOSS_WINDOWS))[:LOSS_WINDOWS]:
        batch = texts.batch(np.array([index])).to(device_of(module))
        mask = batch.labels[0] != IGNORE_INDEX
        scores = module(batch)[0][mask][:LOSS_WINDOW_TOKENS].float().log_softmax(-1)
        ids = batch.labels[0][mask][:LOSS_WINDOW_TOKENS]
        losses = -scores.gather(1, ids[:, None])[:, 0]
        tokens = texts.tokenizer.tokens(ids.tolist())
        windows.append({"tokens": tokens, "losses": [round(each, 3) for each in losses.tolist()]})
    return windows


def is_recurrent(module: nn.Module) -> bool:
    """Whether the decoder is recurrent, so that its state can be carried through a whole text."""
    return isinstance(getattr(module, "decoder", None), RecurrentDecoder)


def batch_count(module: nn.Module, texts: TextDataset) -> int:
    """The number of batches of an evaluation."""
    return len(texts) if is_recurrent(module) else -(-len(texts) // _batch_size(texts))


def _logits(module: nn.Module, pairs: PairDataset | TextDataset | ImageDataset) -> Iterator[tuple[Tensor, Tensor]]:
    """Logits and labels, batch by batch, of independent examples."""
    for indices in _index_batches(pairs, _batch_size(pairs)):
        batch = pairs.batch(indices).to(device_of(module))
        yield module(batch), batch.labels


def _carried_logits(module: Any, texts: TextDataset, streams: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Logits and labels, segment by segment, with the recurrent state carried from one segment to the next."""
    rows = min(streams, len(texts), _batch_size(texts))
    state = module.start(None, rows, 0)
    for batch in contiguous_batches(texts, rows):
        assert batch.target is not None
        logits, state = module.step(batch.target.values.to(device_of(module)), state)
        yield logits, batch.labels.to(device_of(module))


@torch.inference_mode()
def evaluate_series(module: nn.Module, series: SeriesDataset, check: Callable[[], Any] = lambda: None) -> float:
    """The mean squared error of one-step forecasts, on the standardized scale."""
    device, squared_error, count = device_of(module), 0.0, 0
    for indices in _index_batches(series):
        check()
        batch = series.batch(indices).to(device)
        errors = (module(batch).squeeze(-1) - batch.labels)[batch.label_mask].double()
        squared_error, count = squared_error + float((errors**2).sum()), count + errors.numel()
    return squared_error / count


@torch.inference_mode()
def collect_attention(
    module: nn.Module, pairs: PairDataset, tokenizers: Tokenizers
) -> tuple[list[SentenceAttention], list[GoldAlignment]]:
    """The cross-attention of every sentence with gold alignment links, with the reference as decoder input."""
    device = device_of(module)
    sentences, golds = [], []
    for indices in _index_batches(pairs):
        batch = pairs.batch(indices).to(device)
        with trace(module) as activations:
            module(batch)
        layers = [each.values for each in activations.of("attention") if each.is_cross_attention]
        weights = torch.stack(layers).float().cpu().numpy()
        for row, index in enumerate(indices):
            example = pairs.examples[index]
            if example.sure_links:
                sentences.append(_sentence_attention(example, weights[:, row], tokenizers))
                golds.append(GoldAlignment.of(example.sure_links, example.possible_links))
    return sentences, golds


def _sentence_attention(example: Example, weights: np.ndarray, tokenizers: Tokenizers) -> SentenceAttention:
    source = _word_ids(tokenizers.source, example.source, example.source_words)
    target = _word_ids(tokenizers.target, example.target, example.target_words)
    return SentenceAttention(weights[:, :, : len(target), : len(source)], source, target)


def _word_ids(tokenizer: Tokenizer, text: str, words: tuple[str, ...]) -> list[int | None]:
    """The word index of each token; None for <eos>, the last."""
    return [*tokenizer.word_ids(text, words), None]


def _index_batches(
    pairs: PairDataset | TextDataset | ImageDataset, batch_size: int = BATCH_SIZE
) -> Iterator[np.ndarray]:
    """The indices of all examples in batches of similar length; a result does not depend on its batch."""
    order = np.argsort(pairs.lengths.max(axis=-1), kind="stable")
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]


def _batch_size(pairs: PairDataset | TextDataset | ImageDataset) -> int:
    """The batch size whose logits (row, time, vocabulary) fit into memory."""
    return max(1, min(BATCH_SIZE, MAX_SCORES // (pairs.vocab_size * int(pairs.lengths.max()))))
