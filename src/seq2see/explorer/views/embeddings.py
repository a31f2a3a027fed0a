"""The words of a model as points: a map of them, their neighbours, and what sums and differences lead to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from seq2see.explorer import messages
from seq2see.explorer.bench import Bench
from seq2see.explorer.inputs import refuse_long
from seq2see.explorer.messages import AboutRun, Numbers
from seq2see.inspection.embeddings import Near
from seq2see.workbench.embeddings import WordMap, Words

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


def words_of(bench: Bench, run: str) -> Words:
    """The words of a run's model."""
    return Words.of(bench.run(run).model)


def words(bench: Bench, asked: MapAsked) -> dict[str, Any]:
    """The words of a map, and which share of all variance each of its axes has."""
    found = _map(bench, asked)
    return {"pieces": found.pieces, "shares": found.shares}


def map_of(bench: Bench, asked: MapAsked) -> Numbers:
    """(word, 2): where the words of a map lie."""
    return Numbers(_map(bench, asked).places)


def _map(bench: Bench, asked: MapAsked) -> WordMap:
    """The page asks for the words of a map and then for their places: the axes are found once."""
    return bench.kept(("map", asked.run, asked.count), lambda: words_of(bench, asked.run).map(asked.count))


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
