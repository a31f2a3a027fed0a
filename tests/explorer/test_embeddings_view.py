"""The responses of the view "Embeddings" are the results of the command line."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError
from text_models import run_of, text_model, workspace

from seq2see.data.tokenizers.tokenizer import UNK
from seq2see.explorer.views import embeddings
from seq2see.explorer.workspace import Workspace
from seq2see.inspection.embedding_space import pca
from seq2see.runs.word_embeddings import WordEmbeddings

RUN = run_of("transformer")


def table():
    return text_model("transformer").module.source.table.weight.detach().numpy()


def test_a_map_has_the_principal_components_of_words_without_special_tokens():
    request = embeddings.EmbeddingMapRequest(run=RUN, count=20)
    result = embeddings.map_tokens(workspace(), request)
    first = UNK + 1
    assert result["tokens"] == text_model("transformer").tokenizers.source.tokens(range(first, first + 20))
    expected = pca(table()[first : first + 20])
    np.testing.assert_allclose(embeddings.map_points(workspace(), request).array, expected.coordinates, atol=1e-5)
    assert result["explained_variance"] == pytest.approx(expected.explained_variance_ratio)


def test_the_axes_of_a_map_are_computed_once(monkeypatch):
    opened, counts, request = Workspace(dict(workspace().runs)), [], embeddings.EmbeddingMapRequest(run=RUN, count=21)
    compute = WordEmbeddings.map
    monkeypatch.setattr(WordEmbeddings, "map", lambda words, count: counts.append(count) or compute(words, count))
    assert (
        len(embeddings.map_tokens(opened, request)["tokens"]) == len(embeddings.map_points(opened, request).array) == 21
    )
    assert counts == [21]


def test_neighbors_are_sorted_by_cosine_and_exclude_the_word():
    found = embeddings.neighbors(workspace(), embeddings.NeighborsRequest(run=RUN, word="书", count=5))
    rows, number = table(), text_model("transformer").tokenizers.source.encode("书")[0]
    cosines = rows @ rows[number] / np.linalg.norm(rows, axis=1) / np.linalg.norm(rows[number])
    cosines[[*range(UNK + 1), number]] = -2
    best = np.argsort(-cosines)[:5]
    assert [each["token"] for each in found["neighbors"]] == text_model("transformer").tokenizers.source.tokens(
        best.tolist()
    )
    assert [each["cosine"] for each in found["neighbors"]] == pytest.approx(cosines[best].tolist(), abs=1e-5)


def test_the_embedding_of_a_word_is_equal_in_every_sentence_before_the_first_block():
    request = embeddings.ContextsRequest(run=RUN, word="书", sentences=("我有书", "书是你的"))
    found = embeddings.contexts(workspace(), request)
    assert found["layers"] == ["table", "input", "block 1", "block 2"]
    assert found["cosines"]["table"] == [pytest.approx(1)]
    assert found["cosines"]["block 2"][0] < 0.999


@pytest.mark.parametrize("words", [("书",), ("书", "笔", ""), ("书",) * 4])
def test_an_analogy_has_three_words(words):
    with pytest.raises(ValidationError):
        embeddings.AnalogyRequest(run=RUN, words=words)
