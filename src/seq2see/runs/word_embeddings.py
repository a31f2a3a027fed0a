"""Words as a model has them: neighbors and analogies in its table, and one word in several contexts."""

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
from seq2see.inspection.nearest_neighbors import Embeddings, Neighbor, cosine
from seq2see.inspection.pca import pca
from seq2see.inspection.trace import trace
from seq2see.models.image_settings import ImageSource
from seq2see.models.settings import Text
from seq2see.runs.model_folder import StoredModel
from seq2see.sequences.tokenizers import BOS, EOS, MASK_TEXT, UNK, Tokenizer

if TYPE_CHECKING:
    from seq2see.runs.model import Model

BYTE = re.compile("<0x[0-9A-F]{2}>")
"""How vocabularies of pieces call the bytes that rare characters fall into."""
SPECIAL_TOKENS = UNK + 1
"""So many ids at the beginning of a vocabulary are no pieces of text."""


class WordEmbeddings:
    """The words of a trained model; of one that reads texts, those of its source."""

    def __init__(self, stored: StoredModel):
        self.stored, module = stored, stored.module
        self.has_source = isinstance(stored.config.model.source, Text)
        self.embedding: Any = getattr(module, "source" if self.has_source else "target", None)
        if not isinstance(getattr(self.embedding, "table", None), nn.Embedding):
            raise UserError(
                "This model has no table of vectors to look at.",
                hint="Models that count have none, nor has an ensemble, nor a model of numbers.",
            )
        self.tokenizer: Tokenizer = stored.tokenizers.source if self.has_source else stored.tokenizers.target

    @staticmethod
    def of(model: Model) -> WordEmbeddings:
        """The words of a model that is open."""
        module: Any = model.module
        return WordEmbeddings(StoredModel(model.config, module, model.tokenizers))

    @property
    def embeddings(self) -> Embeddings:
        """The table, and the name of each of its rows."""
        return Embeddings(self._table(), self.tokenizer.tokens(range(len(self.tokenizer))))

    def ids(self, word: str) -> list[int]:
        """The pieces of a word: one if there is one, with or without the space before it."""
        cuts = [self.tokenizer.encode(text) for text in (f" {word}", word)]
        found = min((ids for ids in cuts if ids and UNK not in ids), key=len, default=[])
        if not word or all(BYTE.fullmatch(piece) for piece in self.tokenizer.tokens(found)):
            found = []  # bytes can spell any word, and say nothing of it
        if not found:
            raise UserError(f"The model does not know the word '{word}'.", hint="Give a word of its training text.")
        return found

    def vector(self, word: str) -> Tensor:
        """The vector of a word; of one that is cut into pieces, their mean."""
        return self._table()[self.ids(word)].mean(0)

    def neighbors(self, word: str, count: int) -> list[Neighbor]:
        """The pieces nearest to a word, less its own."""
        return self.embeddings.nearest(self.vector(word), count, {*self.non_word_ids(), *self.ids(word)})

    def analogy(self, words: Sequence[str], count: int) -> tuple[list[Neighbor], list[Neighbor]]:
        """What is to the third word as the first to the second: first - second + third.

        Mikolov et al. 2013. The first list may name the words that were given, and mostly does; the second leaves them
        out, as published scores do.
        """
        first, second, third = (self.vector(word) for word in words)
        wanted, given = first - second + third, {number for word in words for number in self.ids(word)}
        nearest, controls = self.embeddings.nearest, self.non_word_ids()
        return nearest(wanted, count, controls), nearest(wanted, count, controls | given)

    def map(self, count: int) -> WordMap:
        """The first words of the vocabulary on their two principal axes; what is no word is left out."""
        known, hidden = self.embeddings, self.non_word_ids()
        kept = [number for number in range(len(known.tokens)) if number not in hidden][:count]
        if len(kept) < 3:
            raise UserError("There are too few words for a map.")
        found = pca(known.vectors[kept].numpy())
        return WordMap([known.tokens[number] for number in kept], found.coordinates.astype(np.float32), found.explained_variance_ratio)

    def contexts(self, word: str, sentences: Sequence[str]) -> WordContexts:
        """One word in several sentences: its vector in the table, before the first block, and after each."""
        if isinstance(self.stored.config.model.source, ImageSource):
            raise UserError("This model writes about what it sees.", hint="Ask one that reads texts.")
        layers: dict[str, list[Tensor]] = {}
        for sentence in sentences:
            ids = self.tokenizer.encode(sentence)
            places = self._places(word, sentence)
            table = self._table()[[ids[place] for place in places]]
            for name, vectors in [("table", table), *self._stream(ids, places)]:
                layers.setdefault(name, []).append(vectors.mean(0))
        return WordContexts(word, tuple(sentences), layers)

    def _table(self) -> Tensor:
        return self.embedding.table.weight.detach().float().cpu()

    def non_word_ids(self) -> set[int]:
        """Rows of the table that control, or stand for a single byte: no text may ever have had that byte."""
        tokens = self.tokenizer.tokens(range(len(self.tokenizer)))
        last = {len(tokens) - 1} if tokens[-1] == MASK_TEXT else set()
        return {
            *range(SPECIAL_TOKENS),
            *last,
            *(number for number, piece in enumerate(tokens) if BYTE.fullmatch(piece)),
        }

    def _places(self, word: str, sentence: str) -> list[int]:
        """Which pieces of a sentence the word is made of, where it stands first."""
        # A word of letters must not be part of a longer one; Chinese has no such borders.
        pattern = rf"\b{re.escape(word)}\b" if word.isascii() else re.escape(word)
        found = re.search(pattern, sentence)
        offsets = self.tokenizer.offsets(sentence)
        places = [number for number, (start, end) in enumerate(offsets) if found and _overlap(start, end, found)]
        if not places:
            raise UserError(f"The word '{word}' is not in '{sentence}'.", hint="Every sentence must have it.")
        return places

    @torch.inference_mode()
    def _stream(self, ids: list[int], places: list[int]) -> list[tuple[str, Tensor]]:
        """The vectors of some pieces, at every station of their way."""
        module, device = self.stored.module, device_of(self.stored.module)
        writes = self.stored.config.model.generates
        before, after = ([] if self.has_source and writes else [BOS]), ([EOS] if self.has_source else [])
        tokens = Sequences.of([[*before, *ids, *after]]).to(device)
        with trace(module, ("embedding", "stream")) as seen:
            if self.has_source:
                module.encode(tokens)  # type: ignore[operator]
            else:
                nothing = torch.zeros_like(tokens.values)
                module(Batch(None, tokens, nothing, torch.zeros(1, dtype=torch.long)))
        wanted = [place + len(before) for place in places]
        stations = [("entering", each) for each in seen.of("embedding")]
        stations += [(f"block {number}", each) for number, each in enumerate(seen.of("stream"), 1)]
        return [(name, each.values[0, wanted].float().cpu()) for name, each in stations]


@dataclass(frozen=True)
class WordMap:
    """Words of a table, where they lie on the plane that shows most of it, and how much that is."""

    tokens: list[str]
    points: NDArray[np.float32]
    shares: tuple[float, ...]


@dataclass(frozen=True)
class WordContexts:
    """The vectors of one word in several sentences, by layer."""

    word: str
    sentences: tuple[str, ...]
    layers: dict[str, list[Tensor]]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Which sentences are compared: any two, counted from 0."""
        return list(combinations(range(len(self.sentences)), 2))

    @property
    def cosines(self) -> dict[str, list[float]]:
        """For each layer how alike the word's vectors are in each pair of sentences."""
        return {
            name: [cosine(vectors[first], vectors[second]) for first, second in self.pairs]
            for name, vectors in self.layers.items()
        }


def _overlap(start: int, end: int, found: re.Match[str]) -> bool:
    return start < found.end() and end > found.start()
