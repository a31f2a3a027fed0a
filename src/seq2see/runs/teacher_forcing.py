"""Reading pairs with the truth given at every step: loss, accuracy and attention of whole splits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from seq2see.core.batch import IGNORE_INDEX
from seq2see.core.devices import device_of
from seq2see.inspection.trace import trace
from seq2see.metrics.accuracy import Accuracy, token_accuracy
from seq2see.metrics.alignment import GoldAlignment, SentenceAttention
from seq2see.metrics.perplexity import Perplexity
from seq2see.models.recurrent import RecurrentDecoder
from seq2see.runs.model_tokenizers import Tokenizers
from seq2see.sequences.contiguous import contiguous_batches
from seq2see.sequences.image_dataset import ImageDataset
from seq2see.sequences.pair_dataset import PairDataset
from seq2see.sequences.series_dataset import SeriesDataset
from seq2see.sequences.tokenizers import Tokenizer
from seq2see.sequences.windows import TextDataset
from seq2see.sources.examples import Example

BATCH_SIZE = 64
LOSS_WINDOWS, LOSS_WINDOW_TOKENS = 4, 128
"""Windows of which every token is shown with its loss, and how many tokens of each."""
MAX_SCORES = 2**27
"""Scores that are held at one time, at most: half a gigabyte of them."""


@torch.inference_mode()
def evaluate_teacher_forced(
    module: nn.Module,
    pairs: PairDataset | TextDataset | ImageDataset,
    check: Callable[[], Any] = lambda: None,
    places: slice = slice(None),
    streams: int = 1,
) -> tuple[Perplexity, Accuracy]:
    """How surprised the model is by a split, and how often its first choice is right; at some places of each row.

    A recurrent language model reads a text from its beginning to its end and never forgets; in several `streams` it is
    faster, and forgets as often.
    """
    loss, right, asked = 0.0, 0, 0
    if isinstance(pairs, TextDataset) and is_recurrent(module):
        scored = _carried_scores(module, pairs, streams)
    else:
        scored = _scores(module, pairs)
    for scores, answers in scored:
        check()
        logits, labels = scores[:, places].float(), answers[:, places]
        flat = nn.functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE_INDEX, reduction="sum"
        )
        found = token_accuracy(logits.argmax(-1), labels)
        loss, right, asked = loss + float(flat), right + found.correct, asked + found.total
    # A pair's <eos> is guessed too, so a text of so many characters is more than so many guesses.
    unit = pairs.unit if isinstance(pairs, TextDataset) else "token"
    return Perplexity(loss, asked, unit, pairs.characters), Accuracy(right, asked)


@torch.inference_mode()
def token_losses(module: nn.Module, texts: TextDataset) -> list[dict[str, Any]]:
    """The first tokens of a few windows, as pieces and -log p of each after those before it: for the eye."""
    found = []
    for index in range(0, len(texts), max(1, len(texts) // LOSS_WINDOWS))[:LOSS_WINDOWS]:
        batch = texts.batch(np.array([index])).to(device_of(module))
        asked = batch.labels[0] != IGNORE_INDEX
        scores, ids = (
            module(batch)[0][asked][:LOSS_WINDOW_TOKENS].float().log_softmax(-1),
            batch.labels[0][asked][:LOSS_WINDOW_TOKENS],
        )
        lost = -scores.gather(1, ids[:, None])[:, 0]
        pieces = texts.tokenizer.tokens(ids.tolist())
        found.append({"tokens": pieces, "losses": [round(each, 3) for each in lost.tolist()]})
    return found


def is_recurrent(module: nn.Module) -> bool:
    """Whether this model's state does not grow, so that it need not forget the beginning of a text."""
    return isinstance(getattr(module, "decoder", None), RecurrentDecoder)


def batch_count(module: nn.Module, texts: TextDataset) -> int:
    """In how many batches texts are read."""
    return len(texts) if is_recurrent(module) else -(-len(texts) // _rows_at_once(texts))


def _scores(module: nn.Module, pairs: PairDataset | TextDataset | ImageDataset) -> Iterator[tuple[Tensor, Tensor]]:
    """Scores and labels, batch by batch, of examples that know nothing of each other."""
    for indices in _in_order(pairs, _rows_at_once(pairs)):
        batch = pairs.batch(indices).to(device_of(module))
        yield module(batch), batch.labels


def _carried_scores(module: Any, texts: TextDataset, streams: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Scores and labels, stretch by stretch, each read with the state that the one before it left behind."""
    rows = min(streams, len(texts), _rows_at_once(texts))
    state = module.start(None, rows, 0)
    for batch in contiguous_batches(texts, rows):
        assert batch.target is not None
        scores, state = module.step(batch.target.values.to(device_of(module)), state)
        yield scores, batch.labels.to(device_of(module))


@torch.inference_mode()
def evaluate_series(module: nn.Module, series: SeriesDataset, check: Callable[[], Any] = lambda: None) -> float:
    """The mean squared error of the next number, on the scale that the model reads."""
    device, error, asked = device_of(module), 0.0, 0
    for indices in _in_order(series):
        check()
        batch = series.batch(indices).to(device)
        apart = (module(batch).squeeze(-1) - batch.labels)[batch.label_mask].double()
        error, asked = error + float((apart**2).sum()), asked + apart.numel()
    return error / asked


@torch.inference_mode()
def collect_attention(
    module: nn.Module, pairs: PairDataset, tokenizers: Tokenizers
) -> tuple[list[SentenceAttention], list[GoldAlignment]]:
    """The attention of every sentence with gold links, read while the model writes the reference."""
    device = device_of(module)
    sentences, golds = [], []
    for indices in _in_order(pairs):
        batch = pairs.batch(indices).to(device)
        with trace(module) as seen:
            module(batch)
        across = (
            torch.stack([each.values for each in seen.of("attention") if each.is_cross_attention]).float().cpu().numpy()
        )
        for row, index in enumerate(indices):
            example = pairs.examples[index]
            if example.sure_links:
                sentences.append(_attended(example, across[:, row], tokenizers))
                golds.append(GoldAlignment.of(example.sure_links, example.possible_links))
    return sentences, golds


def _attended(example: Example, weights: np.ndarray, tokenizers: Tokenizers) -> SentenceAttention:
    source = _words_of_pieces(tokenizers.source, example.source, example.source_words)
    target = _words_of_pieces(tokenizers.target, example.target, example.target_words)
    return SentenceAttention(weights[:, :, : len(target), : len(source)], source, target)


def _words_of_pieces(tokenizer: Tokenizer, text: str, words: tuple[str, ...]) -> list[int | None]:
    """For each piece the word it belongs to; the last is <eos>, which belongs to none."""
    return [*tokenizer.word_ids(text, words), None]


def _in_order(pairs: PairDataset | TextDataset | ImageDataset, rows: int = BATCH_SIZE) -> Iterator[np.ndarray]:
    """All examples, those of like length together; a result never depends on its neighbors."""
    order = np.argsort(pairs.lengths.max(axis=-1), kind="stable")
    for start in range(0, len(order), rows):
        yield order[start : start + rows]


def _rows_at_once(pairs: PairDataset | TextDataset | ImageDataset) -> int:
    """So many that their scores fit into memory: one for each token of the vocabulary, at every time."""
    return max(1, min(BATCH_SIZE, MAX_SCORES // (pairs.vocab_size * int(pairs.lengths.max()))))
