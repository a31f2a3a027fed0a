"""Does attention find the words that translate each other? Attention read as a word alignment, and scored.

A target word is linked to the source word it looks at most; the links are compared with a gold alignment
by the alignment error rate (Och & Ney 2003). Models work with pieces and gold alignments with words, so
attention is first carried over from pieces to words.
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
"""For each piece the word it belongs to; None for <bos>, <eos> and other tokens that are no word."""


@dataclass(frozen=True)
class GoldAlignment:
    """What annotators say: links that must be there (S), and all links that are not wrong (P, holds S)."""

    sure: frozenset[Link]
    possible: frozenset[Link]

    @staticmethod
    def of(sure: Iterable[Link], possible: Iterable[Link] = ()) -> GoldAlignment:
        """Gold from lists of links; a sure link need not be repeated among the possible ones."""
        certain = frozenset((source, target) for source, target in sure)
        return GoldAlignment(certain, certain | frozenset((source, target) for source, target in possible))

    @property
    def target_words(self) -> list[int]:
        """Target words that have a counterpart; the others have nothing right to look at."""
        return sorted({target for _, target in self.possible})


@dataclass(frozen=True)
class SentenceAttention:
    """The attention in one sentence, and the words that its pieces belong to.

    A row of `weights` belongs to the target piece that is being *written* while the model looks there.
    """

    weights: Tensor | NDArray[Any]  # ... target piece, source piece
    source_words: WordIds
    target_words: WordIds


def word_attention(sentence: SentenceAttention) -> NDArray[np.float64]:
    """Attention between words (..., target word, source word).

    A source word gets what all its pieces get together: attention is a share, and shares add up. A
    target word has as many rows as pieces, each a complete share, so they are averaged. What goes to
    special tokens is left out.
    """
    weights = as_array(sentence.weights)
    if weights.shape[-2:] != (len(sentence.target_words), len(sentence.source_words)):
        raise ValueError(
            f"weights {weights.shape} but {len(sentence.target_words)} target and "
            f"{len(sentence.source_words)} source pieces"
        )
    source, target = _membership(sentence.source_words), _membership(sentence.target_words)
    pieces = np.maximum(target.sum(axis=1, keepdims=True), 1)  # a word without pieces keeps a row of zeros
    return (target / pieces) @ weights @ source.T


def align(sentence: SentenceAttention, gold: GoldAlignment) -> set[Link]:
    """Link each target word that has a counterpart in gold to the source word it looks at most."""
    words = word_attention(sentence)
    if words.ndim != 2:
        raise ValueError(f"one attention map is aligned at a time, not {words.shape}")
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
    """Which heads of which layer are read as the alignment; found on validation data, used on test data."""

    layer: int
    heads: tuple[int, ...]
    error_rate: float
    """Alignment error rate on the sentences it was chosen on."""

    @staticmethod
    def of(state: dict[str, Any]) -> HeadSelection:
        """The inverse of `dataclasses.asdict`, also after a journey through JSON."""
        return HeadSelection(int(state["layer"]), tuple(map(int, state["heads"])), float(state["error_rate"]))


def select_heads(
    sentences: Sequence[SentenceAttention], golds: Sequence[GoldAlignment], most_heads: int = 3
) -> HeadSelection:
    """The layer and heads whose mean attention aligns best; weights are (layer, head, target, source).

    In each layer three kinds of candidates compete: every head alone, the mean of all heads, and a few
    heads found greedily (start with the best, add the one that helps most while one helps). Of equally
    good candidates the first wins, so a single head is preferred to several.
    """
    table = _Table.of(sentences, golds)
    layers, heads = table.weights.shape[:2]
    best = HeadSelection(-1, (), float("inf"))
    for layer in range(layers):
        singles = [table.choice(layer, (head,)) for head in range(heads)]
        grown = _add_heads(table, min(singles, key=_error), heads, most_heads)
        best = min([best, *singles, table.choice(layer, tuple(range(heads))), grown], key=_error)
    return best


def score_heads(choice: HeadSelection, sentences: Sequence[SentenceAttention], golds: Sequence[GoldAlignment]) -> float:
    """The alignment error rate of heads that were chosen before, on other sentences."""
    return _Table.of(sentences, golds).choice(choice.layer, choice.heads).error_rate


def _add_heads(table: _Table, choice: HeadSelection, heads: int, most_heads: int) -> HeadSelection:
    while len(choice.heads) < min(most_heads, heads):
        others = [head for head in range(heads) if head not in choice.heads]
        longer = min((table.choice(choice.layer, (*choice.heads, head)) for head in others), key=_error)
        if longer.error_rate >= choice.error_rate:
            break
        choice = longer
    return choice


def _error(choice: HeadSelection) -> float:
    return choice.error_rate


@dataclass(frozen=True)
class _Table:
    """The scored target words of all sentences under each other, so that a candidate costs one argmax."""

    weights: NDArray[np.float64]  # layer, head, row, source word; -1 where a sentence has no such word
    is_sure: NDArray[np.bool_]  # row, source word
    is_possible: NDArray[np.bool_]
    sure: int  # |S|, with the links of words that got no row

    @staticmethod
    def of(sentences: Sequence[SentenceAttention], golds: Sequence[GoldAlignment]) -> _Table:
        pieces = []  # for each sentence: its attention between words, and the rows that are scored
        for sentence, gold in zip(sentences, golds, strict=True):
            words = word_attention(sentence)
            scored = [target for target in gold.target_words if target in sentence.target_words]
            if scored and words.shape[-1]:
                pieces.append((words[..., scored, :], scored, gold))
        if not pieces:
            raise UserError("Heads cannot be chosen: none of these sentences has gold links.")
        rows = sum(len(scored) for _, scored, _ in pieces)
        width = max(words.shape[-1] for words, _, _ in pieces)
        weights = np.full((*pieces[0][0].shape[:2], rows, width), -1.0)
        is_sure, is_possible = np.zeros((rows, width), dtype=bool), np.zeros((rows, width), dtype=bool)
        start = 0
        for words, scored, gold in pieces:
            weights[:, :, start : start + len(scored), : words.shape[-1]] = words
            row_of = {target: start + place for place, target in enumerate(scored)}
            _mark(is_sure, gold.sure, row_of)
            _mark(is_possible, gold.possible, row_of)
            start += len(scored)
        return _Table(weights, is_sure, is_possible, sum(len(gold.sure) for gold in golds))

    def choice(self, layer: int, heads: tuple[int, ...]) -> HeadSelection:
        """These heads with their alignment error rate."""
        best = self.weights[layer, list(heads)].mean(axis=0).argmax(axis=1)
        rows = np.arange(len(best))
        sure_hits, possible_hits = self.is_sure[rows, best].sum(), self.is_possible[rows, best].sum()
        return HeadSelection(layer, heads, error_rate(int(sure_hits), int(possible_hits), len(rows), self.sure))


def _mark(table: NDArray[np.bool_], links: Iterable[Link], row_of: dict[int, int]) -> None:
    for source, target in links:
        if target in row_of and source < table.shape[1]:  # pieces that were cut off have no row or column
            table[row_of[target], source] = True


def as_array(weights: Tensor | NDArray[Any]) -> NDArray[np.float64]:
    """A tensor of any device and precision, or an array, as a float64 array."""
    if isinstance(weights, Tensor):
        return weights.detach().double().cpu().numpy()
    return np.asarray(weights, dtype=np.float64)


def _membership(word_ids: WordIds) -> NDArray[np.float64]:
    """(word, piece): 1 where the piece belongs to the word; a matrix product with it adds up pieces."""
    count = max((word for word in word_ids if word is not None), default=-1) + 1
    words = np.array([-1 if word is None else word for word in word_ids], dtype=np.int64)
    return (np.arange(count)[:, None] == words).astype(np.float64)
