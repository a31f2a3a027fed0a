"""Word alignment from attention, and the alignment error rate (Och & Ney 2003).

A target word is linked to the source word with the highest attention weight; the links are compared with a gold
alignment. Models use subword tokens and gold alignments use words, so the attention weights of tokens are first
converted to weights of words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from seq2see.core.errors import UserError

Link = tuple[int, int]
"""(source word, target word), both counted from 0."""

WordIds = Sequence[int | None]
"""For each token the index of its word; None for <bos>, <eos> and other special tokens."""


@dataclass(frozen=True)
class GoldAlignment:
    """The links of annotators: sure links (S), and possible links (P, which includes S)."""

    sure: frozenset[Link]
    possible: frozenset[Link]

    @staticmethod
    def of(sure: Iterable[Link], possible: Iterable[Link] = ()) -> GoldAlignment:
        """Create a gold alignment from lists of links; sure links are added to the possible ones."""
        sure_links = frozenset((source, target) for source, target in sure)
        return GoldAlignment(sure_links, sure_links | frozenset((source, target) for source, target in possible))

    @property
    def target_words(self) -> list[int]:
        """The target words with at least one gold link; for the other words no alignment is right."""
        return sorted({target for _, target in self.possible})


@dataclass(frozen=True)
class SentenceAttention:
    """The attention weights of one sentence, and the words of its tokens.

    A row of `weights` belongs to the target token that the model *predicts* with these weights.
    """

    weights: Tensor | NDArray[Any]  # ... target token, source token
    source_words: WordIds
    target_words: WordIds


def word_attention(sentence: SentenceAttention) -> NDArray[np.float64]:
    """The attention weights between words (..., target word, source word).

    The weight of a source word is the sum of the weights of its tokens, because the weights of a row sum to 1. A target
    word has one row for each of its tokens, and these rows are averaged. Weights of special tokens are ignored.
    """
    weights = as_array(sentence.weights)
    if weights.shape[-2:] != (len(sentence.target_words), len(sentence.source_words)):
        raise ValueError(
            f"weights {weights.shape} but {len(sentence.target_words)} target and "
            f"{len(sentence.source_words)} source tokens"
        )
    source, target = _membership(sentence.source_words), _membership(sentence.target_words)
    token_counts = np.maximum(target.sum(axis=1, keepdims=True), 1)  # a word without tokens has a row of zeros
    return (target / token_counts) @ weights @ source.T


def align(sentence: SentenceAttention, gold: GoldAlignment) -> set[Link]:
    """Link each target word with a gold link to the source word with the highest attention weight."""
    words = word_attention(sentence)
    if words.ndim != 2:
        raise ValueError(f"`align` needs one attention map (target, source), but the shape is {words.shape}")
    if words.shape[1] == 0:
        return set()
    best = words.argmax(axis=1)
    return {(int(best[target]), target) for target in gold.target_words if target in sentence.target_words}


def alignment_error_rate(links: Sequence[set[Link]], golds: Sequence[GoldAlignment]) -> float:
    """AER = 1 - (|A∩S| + |A∩P|) / (|A| + |S|) over all sentences (Och & Ney 2003); 0 is perfect."""
    pairs = list(zip(links, golds, strict=True))
    return error_rate(
        sure_hits=sum(len(predicted & gold.sure) for predicted, gold in pairs),
        possible_hits=sum(len(predicted & gold.possible) for predicted, gold in pairs),
        predicted=sum(len(predicted) for predicted, _ in pairs),
        sure=sum(len(gold.sure) for _, gold in pairs),
    )


def error_rate(sure_hits: int, possible_hits: int, predicted: int, sure: int) -> float:
    """The alignment error rate from its four counts."""
    if predicted + sure == 0:
        raise UserError("An alignment error rate needs gold links, but these sentences have none.")
    return 1.0 - (sure_hits + possible_hits) / (predicted + sure)


@dataclass(frozen=True)
class HeadSelection:
    """The layer and the heads whose mean attention is the alignment; they are selected on validation data."""

    layer: int
    heads: tuple[int, ...]
    error_rate: float
    """The alignment error rate on the sentences of the selection."""

    @staticmethod
    def of(state: dict[str, Any]) -> HeadSelection:
        """The inverse of `dataclasses.asdict`; values may come from JSON."""
        return HeadSelection(int(state["layer"]), tuple(map(int, state["heads"])), float(state["error_rate"]))


def select_heads(
    sentences: Sequence[SentenceAttention], golds: Sequence[GoldAlignment], max_heads: int = 3
) -> HeadSelection:
    """Find the layer and heads whose mean attention aligns best; weights are (layer, head, target, source).

    The candidates of each layer are every single head, the mean of all heads, and a greedy selection: it starts with
    the best head and adds the head that lowers the error rate most, as long as one does. Among equally good candidates
    the first one is selected, so a single head is preferred to several.
    """
    table = _AlignmentTable.of(sentences, golds)
    layers, heads = table.weights.shape[:2]
    best = HeadSelection(-1, (), float("inf"))
    for layer in range(layers):
        singles = [table.evaluate(layer, (head,)) for head in range(heads)]
        greedy = _add_heads(table, min(singles, key=_error), heads, max_heads)
        best = min([best, *singles, table.evaluate(layer, tuple(range(heads))), greedy], key=_error)
    return best


def score_heads(
    selection: HeadSelection, sentences: Sequence[SentenceAttention], golds: Sequence[GoldAlignment]
) -> float:
    """The alignment error rate of selected heads on other sentences."""
    return _AlignmentTable.of(sentences, golds).evaluate(selection.layer, selection.heads).error_rate


def _add_heads(table: _AlignmentTable, selection: HeadSelection, heads: int, max_heads: int) -> HeadSelection:
    while len(selection.heads) < min(max_heads, heads):
        other_heads = [head for head in range(heads) if head not in selection.heads]
        candidates = (table.evaluate(selection.layer, (*selection.heads, head)) for head in other_heads)
        best = min(candidates, key=_error)
        if best.error_rate >= selection.error_rate:
            break
        selection = best
    return selection


def _error(selection: HeadSelection) -> float:
    return selection.error_rate


@dataclass(frozen=True)
class _AlignmentTable:
    """The target words of all sentences in one table, so that evaluating a candidate is one argmax."""

    weights: NDArray[np.float64]  # layer, head, row, source word; -1 where a sentence has no such word
    is_sure: NDArray[np.bool_]  # row, source word
    is_possible: NDArray[np.bool_]
    sure: int  # |S|, including the links of words without a row

    @staticmethod
    def of(sentences: Sequence[SentenceAttention], golds: Sequence[GoldAlignment]) -> _AlignmentTable:
        parts = []  # for each sentence: its word attention, the target words with gold links, and the gold alignment
        for sentence, gold in zip(sentences, golds, strict=True):
            words = word_attention(sentence)
            targets = [target for target in gold.target_words if target in sentence.target_words]
            if targets and words.shape[-1]:
                parts.append((words[..., targets, :], targets, gold))
        if not parts:
            raise UserError("Heads cannot be selected: none of these sentences has gold links.")
        rows = sum(len(targets) for _, targets, _ in parts)
        width = max(words.shape[-1] for words, _, _ in parts)
        weights = np.full((*parts[0][0].shape[:2], rows, width), -1.0)
        is_sure, is_possible = np.zeros((rows, width), dtype=bool), np.zeros((rows, width), dtype=bool)
        start = 0
        for words, targets, gold in parts:
            weights[:, :, start : start + len(targets), : words.shape[-1]] = words
            row_of = {target: start + index for index, target in enumerate(targets)}
            _mark(is_sure, gold.sure, row_of)
            _mark(is_possible, gold.possible, row_of)
            start += len(targets)
        return _AlignmentTable(weights, is_sure, is_possible, sum(len(gold.sure) for gold in golds))

    def evaluate(self, layer: int, heads: tuple[int, ...]) -> HeadSelection:
        """Return these heads with their alignment error rate."""
        best = self.weights[layer, list(heads)].mean(axis=0).argmax(axis=1)
        rows = np.arange(len(best))
        sure_hits, possible_hits = self.is_sure[rows, best].sum(), self.is_possible[rows, best].sum()
        return HeadSelection(layer, heads, error_rate(int(sure_hits), int(possible_hits), len(rows), self.sure))


def _mark(table: NDArray[np.bool_], links: Iterable[Link], row_of: dict[int, int]) -> None:
    for source, target in links:
        if target in row_of and source < table.shape[1]:  # truncated words have no row or column
            table[row_of[target], source] = True


def as_array(weights: Tensor | NDArray[Any]) -> NDArray[np.float64]:
    """Convert a tensor of any device and precision, or an array, to a float64 array."""
    if isinstance(weights, Tensor):
        return weights.detach().double().cpu().numpy()
    return np.asarray(weights, dtype=np.float64)


def _membership(word_ids: WordIds) -> NDArray[np.float64]:
    """A matrix (word, token), 1 where the token belongs to the word; multiplication by it sums the tokens of a word."""
    count = max((word for word in word_ids if word is not None), default=-1) + 1
    words = np.array([-1 if word is None else word for word in word_ids], dtype=np.int64)
    return (np.arange(count)[:, None] == words).astype(np.float64)
