"""The words of a model as points: a map of them, their neighbours, and what sums and differences lead to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.explorer import messages
from seq2see.explorer.bench import Bench
from seq2see.explorer.inputs import refuse_long
from seq2see.explorer.messages import AboutRun, Numbers
from seq2see.inspection.embeddings import Near
from seq2see.inspection.principal import principal
from seq2see.workbench.embeddings import Words
from seq2see.workbench.model_folder import StoredModel

MOST = 10_000
"""Words that a map shows; vocabularies begin with the commonest."""


OneWord = Annotated[str, Field(min_length=1, max_length=100)]
Count = Annotated[int, Field(ge=1, le=100)]


class MapAsked(AboutRun):
    """A map of the first words of a vocabulary."""

    count: Annotated[int, Field(ge=3, le=MOST)] = MOST


class NearAsked(AboutRun):
    """The words nearest to one."""

    word: OneWord
    count: Count = 10


class AnalogyAsked(AboutRun):
    """What first - second + third leads to."""

    words: Annotated[tuple[OneWord, ...], Field(min_length=3, max_length=3)]
    count: Count = 8


class ContextsAsked(AboutRun):
    """One word in several sentences."""

    word: OneWord
    sentences: Annotated[tuple[messages.Words, ...], Field(min_length=2, max_length=8)]


@dataclass(frozen=True)
class WordMap:
    """Words of a table, where they lie on the plane that shows most of it, and how much that is."""

    pieces: list[str]
    places: NDArray[np.float32]
    shares: tuple[float, ...]


def word_map(words: Words, count: int) -> WordMap:
    """The first words of a vocabulary on their two principal axes; what is no word is left out."""
    known = words.embeddings
    hidden = words.no_words()
    kept = [number for number in range(len(known.pieces)) if number not in hidden][:count]
    if len(kept) < 3:
        raise UserError("There are too few words for a map.")
    found = principal(known.vectors[kept].numpy())
    return WordMap([known.pieces[number] for number in kept], found.places.astype(np.float32), found.shares)


def words_of(bench: Bench, run: str) -> Words:
    """The words of a run's model."""
    model = bench.run(run).model
    module: Any = model.module
    return Words(StoredModel(model.config, module, model.tokenisers))


def words(bench: Bench, asked: MapAsked) -> dict[str, Any]:
    """The words of a map, and which share of all variance each of its axes has."""
    found = word_map(words_of(bench, asked.run), asked.count)
    return {"pieces": found.pieces, "shares": found.shares}


def map_of(bench: Bench, asked: MapAsked) -> Numbers:
    """(word, 2): where the words of a map lie."""
    return Numbers(word_map(words_of(bench, asked.run), asked.count).places)


def near(bench: Bench, asked: NearAsked) -> dict[str, Any]:
    """The pieces of a word, and those nearest to it."""
    known = words_of(bench, asked.run)
    own = known.tokeniser.pieces(known.ids(asked.word))
    return {"pieces": own, "near": _listed(known.neighbours(asked.word, asked.count))}


def analogy(bench: Bench, asked: AnalogyAsked) -> dict[str, Any]:
    """What first - second + third leads to, with and without the three themselves."""
    everything, others = words_of(bench, asked.run).analogy(asked.words, asked.count)
    return {"all": _listed(everything), "others": _listed(others)}


def contexts(bench: Bench, asked: ContextsAsked) -> dict[str, Any]:
    """How alike the vectors of one word are in each two sentences, layer by layer."""
    known = words_of(bench, asked.run)
    for sentence in asked.sentences:
        refuse_long(len(known.tokeniser.encode(sentence)))
    found = known.contexts(asked.word, asked.sentences)
    return {"layers": list(found.layers), "pairs": found.pairs, "cosines": found.cosines}


def _listed(found: Sequence[Near]) -> list[dict[str, Any]]:
    return [{"piece": each.piece, "cosine": each.cosine} for each in found]
