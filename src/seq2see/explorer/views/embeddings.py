"""The view "Embeddings": a map of the word embeddings of a model, nearest neighbors, and analogies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from seq2see.explorer.inputs import check_length
from seq2see.explorer.schemas import ArrayResponse, InputText, RunRequest
from seq2see.explorer.workspace import Workspace
from seq2see.inspection.embedding_space import Neighbor
from seq2see.runs.word_embeddings import WordEmbeddings, WordMap

MAX_WORDS = 10_000
"""The maximum number of words of a map; vocabularies start with the most frequent words."""


Word = Annotated[str, Field(min_length=1, max_length=100)]
Count = Annotated[int, Field(ge=1, le=100)]


class EmbeddingMapRequest(RunRequest):
    """A request for a map of the first words of a vocabulary."""

    count: Annotated[int, Field(ge=3, le=MAX_WORDS)] = MAX_WORDS


class NeighborsRequest(RunRequest):
    """A request for the nearest neighbors of a word."""

    word: Word
    count: Count = 10


class AnalogyRequest(RunRequest):
    """A request for the nearest neighbors of first - second + third."""

    words: Annotated[tuple[Word, ...], Field(min_length=3, max_length=3)]
    count: Count = 8


class ContextsRequest(RunRequest):
    """A request about one word in several sentences."""

    word: Word
    sentences: Annotated[tuple[InputText, ...], Field(min_length=2, max_length=8)]


def word_embeddings_of(workspace: Workspace, run: str) -> WordEmbeddings:
    """The word embeddings of a run's model."""
    return WordEmbeddings.of(workspace.run(run).model)


def map_tokens(workspace: Workspace, request: EmbeddingMapRequest) -> dict[str, Any]:
    """The words of a map, and the share of the variance that each of its axes explains."""
    word_map = _map(workspace, request)
    return {"tokens": word_map.tokens, "explained_variance": word_map.explained_variance_ratio}


def map_points(workspace: Workspace, request: EmbeddingMapRequest) -> ArrayResponse:
    """(word, 2): the coordinates of the words of a map."""
    return ArrayResponse(_map(workspace, request).points)


def _map(workspace: Workspace, request: EmbeddingMapRequest) -> WordMap:
    """The cached map: the page requests the words and the coordinates separately."""
    return workspace.cached(
        ("map", request.run, request.count), lambda: word_embeddings_of(workspace, request.run).map(request.count)
    )


def neighbors(workspace: Workspace, request: NeighborsRequest) -> dict[str, Any]:
    """The tokens of a word, and its nearest neighbors."""
    embeddings = word_embeddings_of(workspace, request.run)
    tokens = embeddings.tokenizer.tokens(embeddings.ids(request.word))
    return {"tokens": tokens, "neighbors": _neighbor_list(embeddings.neighbors(request.word, request.count))}


def analogy(workspace: Workspace, request: AnalogyRequest) -> dict[str, Any]:
    """The nearest neighbors of first - second + third, with and without the three words themselves."""
    neighbors, others = word_embeddings_of(workspace, request.run).analogy(request.words, request.count)
    return {"all": _neighbor_list(neighbors), "others": _neighbor_list(others)}


def contexts(workspace: Workspace, request: ContextsRequest) -> dict[str, Any]:
    """The cosine similarity of the vectors of one word in each pair of sentences, layer by layer."""
    embeddings = word_embeddings_of(workspace, request.run)
    for sentence in request.sentences:
        check_length(len(embeddings.tokenizer.encode(sentence)))
    result = embeddings.contexts(request.word, request.sentences)
    return {"layers": list(result.layers), "pairs": result.pairs, "cosines": result.cosines}


def _neighbor_list(neighbors: Sequence[Neighbor]) -> list[dict[str, Any]]:
    return [{"token": each.token, "cosine": each.cosine} for each in neighbors]
