"""Word embeddings of a model: neighbors and analogies in its embedding table, and one word in several contexts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seq2see.core.batch import Batch, Sequences
from seq2see.core.devices import device_of
from seq2see.core.errors import UserError
from seq2see.data.tokenizers.tokenizer import BOS, EOS, MASK_TEXT, UNK, Tokenizer
from seq2see.inspection.embedding_space import Embeddings, Neighbor, cosine, pca
from seq2see.inspection.trace import trace
from seq2see.models.settings import Text
from seq2see.tasks.model_folder import StoredModel

if TYPE_CHECKING:
    from seq2see.tasks.model import Model

BYTE = re.compile("<0x[0-9A-F]{2}>")
"""The names of byte tokens, which encode rare characters."""
SPECIAL_TOKENS = UNK + 1
"""The number of special tokens at the beginning of a vocabulary."""


class WordEmbeddings:
    """The embedding table of a trained model: of its source if that is text, otherwise of its target."""

    def __init__(self, stored: StoredModel):
        self.stored, module = stored, stored.module
        self.has_source = isinstance(stored.config.model.source, Text)
        self.embedding: Any = getattr(module, "source" if self.has_source else "target", None)
        if not isinstance(getattr(self.embedding, "table", None), nn.Embedding):
            raise UserError(
                "This model has no embedding table.",
                hint="N-gram models, ensembles and forecasting models have none.",
            )
        self.tokenizer: Tokenizer = stored.tokenizers.source if self.has_source else stored.tokenizers.target

    @staticmethod
    def of(model: Model) -> WordEmbeddings:
        """The embeddings of a loaded model."""
        module: Any = model.module
        return WordEmbeddings(StoredModel(model.config, module, model.tokenizers))

    @property
    def embeddings(self) -> Embeddings:
        """The embedding table, and the token of each row."""
        return Embeddings(self._table(), self.tokenizer.tokens(range(len(self.tokenizer))))

    def ids(self, word: str) -> list[int]:
        """The token ids of a word: a single token if there is one, with or without a space before it."""
        encodings = [self.tokenizer.encode(text) for text in (f" {word}", word)]
        shortest = min((ids for ids in encodings if ids and UNK not in ids), key=len, default=[])
        if not word or all(BYTE.fullmatch(token) for token in self.tokenizer.tokens(shortest)):
            shortest = []  # byte tokens spell any word, so their embeddings mean nothing
        if not shortest:
            raise UserError(f"The word '{word}' is not in the vocabulary.", hint="Use a word of the training text.")
        return shortest

    def vector(self, word: str) -> Tensor:
        """The embedding of a word; of several tokens, their mean."""
        return self._table()[self.ids(word)].mean(0)

    def neighbors(self, word: str, count: int) -> list[Neighbor]:
        """The nearest tokens to a word, without its own."""
        return self.embeddings.nearest(self.vector(word), count, {*self.non_word_ids(), *self.ids(word)})

    def analogy(self, words: Sequence[str], count: int) -> tuple[list[Neighbor], list[Neighbor]]:
        """The nearest tokens to first - second + third (Mikolov et al. 2013).

        The first list may contain the three words themselves, and mostly does; the second excludes them, as published
        scores do.
        """
        first, second, third = (self.vector(word) for word in words)
        query, input_ids = first - second + third, {token_id for word in words for token_id in self.ids(word)}
        nearest, excluded = self.embeddings.nearest, self.non_word_ids()
        return nearest(query, count, excluded), nearest(query, count, excluded | input_ids)

    def map(self, count: int) -> WordMap:
        """A PCA of the first tokens of the vocabulary in two dimensions, without special and byte tokens."""
        embeddings, excluded = self.embeddings, self.non_word_ids()
        ids = [token_id for token_id in range(len(embeddings.tokens)) if token_id not in excluded][:count]
        if len(ids) < 3:
            raise UserError("There are too few words for a map.")
        result = pca(embeddings.vectors[ids].numpy())
        tokens = [embeddings.tokens[token_id] for token_id in ids]
        return WordMap(tokens, result.coordinates.astype(np.float32), result.explained_variance_ratio)

    def contexts(self, word: str, sentences: Sequence[str]) -> WordContexts:
        """One word in several sentences: its embedding, and its hidden states before the first and after each block."""
        if getattr(self.stored.config.model.source, "kind", "text") != "text":
            raise UserError("This is a captioning model.", hint="Choose a model whose source is text.")
        layers: dict[str, list[Tensor]] = {}
        for sentence in sentences:
            ids = self.tokenizer.encode(sentence)
            positions = self._positions(word, sentence)
            table = self._table()[[ids[position] for position in positions]]
            for name, vectors in [("table", table), *self._hidden_states(ids, positions)]:
                layers.setdefault(name, []).append(vectors.mean(0))
        return WordContexts(word, tuple(sentences), layers)

    def _table(self) -> Tensor:
        return self.embedding.table.weight.detach().float().cpu()

    def non_word_ids(self) -> set[int]:
        """Special tokens, [MASK] and byte tokens; the embeddings of bytes may be untrained."""
        tokens = self.tokenizer.tokens(range(len(self.tokenizer)))
        last = {len(tokens) - 1} if tokens[-1] == MASK_TEXT else set()
        return {
            *range(SPECIAL_TOKENS),
            *last,
            *(token_id for token_id, token in enumerate(tokens) if BYTE.fullmatch(token)),
        }

    def _positions(self, word: str, sentence: str) -> list[int]:
        """The token positions of the first occurrence of a word in a sentence."""
        # A word in ASCII letters must not be a part of a longer word; Chinese has no word boundaries.
        pattern = rf"\b{re.escape(word)}\b" if word.isascii() else re.escape(word)
        match = re.search(pattern, sentence)
        offsets = self.tokenizer.offsets(sentence)
        positions = [index for index, (start, end) in enumerate(offsets) if match and _overlaps(start, end, match)]
        if not positions:
            raise UserError(f"The word '{word}' is not in '{sentence}'.", hint="Every sentence must contain it.")
        return positions

    @torch.inference_mode()
    def _hidden_states(self, ids: list[int], positions: list[int]) -> list[tuple[str, Tensor]]:
        """The hidden states at some positions, before the first block and after each block."""
        module, device = self.stored.module, device_of(self.stored.module)
        generates = self.stored.config.model.generates
        before, after = ([] if self.has_source and generates else [BOS]), ([EOS] if self.has_source else [])
        tokens = Sequences.of([[*before, *ids, *after]]).to(device)
        with trace(module, ("embedding", "stream")) as activations:
            if self.has_source:
                module.encode(tokens)  # type: ignore[operator]
            else:
                labels = torch.zeros_like(tokens.values)
                module(Batch(None, tokens, labels, torch.zeros(1, dtype=torch.long)))
        shifted = [position + len(before) for position in positions]
        layers = [("input", each) for each in activations.of("embedding")]
        layers += [(f"block {number}", each) for number, each in enumerate(activations.of("stream"), 1)]
        return [(name, each.values[0, shifted].float().cpu()) for name, each in layers]


@dataclass(frozen=True)
class WordMap:
    """Words, their coordinates on the first two principal axes, and the explained variance of the axes."""

    tokens: list[str]
    points: NDArray[np.float32]
    explained_variance_ratio: tuple[float, ...]


@dataclass(frozen=True)
class WordContexts:
    """The embedding and hidden states of one word in several sentences, by layer."""

    word: str
    sentences: tuple[str, ...]
    layers: dict[str, list[Tensor]]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """All pairs of sentences, counted from 0."""
        return list(combinations(range(len(self.sentences)), 2))

    @property
    def cosines(self) -> dict[str, list[float]]:
        """For each layer, the cosine similarity of the word's vectors in each pair of sentences."""
        return {
            name: [cosine(vectors[first], vectors[second]) for first, second in self.pairs]
            for name, vectors in self.layers.items()
        }


def _overlaps(start: int, end: int, match: re.Match[str]) -> bool:
    return start < match.end() and end > match.start()
