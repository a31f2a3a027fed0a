"""Words as points: what the page is told is what the command line tells."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError
from text_models import run_of, text_model, workspace

from seq2see.explorer.views import embeddings
from seq2see.explorer.workspace import Workspace
from seq2see.inspection.pca import pca
from seq2see.runs.word_embeddings import WordEmbeddings
from seq2see.sequences.tokenizers import UNK

RUN = run_of("transformer")


def table():
    return text_model("transformer").module.source.table.weight.detach().numpy()


def test_a_map_leaves_out_what_is_no_word_and_lies_on_principal_axes():
    asked = embeddings.EmbeddingMapRequest(run=RUN, count=20)
    told = embeddings.words(workspace(), asked)
    first = UNK + 1
    assert told["pieces"] == text_model("transformer").tokenizers.source.pieces(range(first, first + 20))
    expected = pca(table()[first : first + 20])
    np.testing.assert_allclose(embeddings.map_points(workspace(), asked).array, expected.places, atol=1e-5)
    assert told["explained_variance"] == pytest.approx(expected.shares)


def test_the_axes_of_a_map_are_found_once(monkeypatch):
    on, found, asked = Workspace(dict(workspace().runs)), [], embeddings.EmbeddingMapRequest(run=RUN, count=21)
    find = WordEmbeddings.map
    monkeypatch.setattr(WordEmbeddings, "map", lambda words, count: found.append(count) or find(words, count))
    assert len(embeddings.words(on, asked)["pieces"]) == len(embeddings.map_points(on, asked).array) == 21
    assert found == [21]


def test_neighbors_are_sorted_by_cosine_and_leave_out_the_word():
    found = embeddings.neighbors(workspace(), embeddings.NeighborsRequest(run=RUN, word="书", count=5))
    rows, number = table(), text_model("transformer").tokenizers.source.encode("书")[0]
    cosines = rows @ rows[number] / np.linalg.norm(rows, axis=1) / np.linalg.norm(rows[number])
    cosines[[*range(UNK + 1), number]] = -2
    best = np.argsort(-cosines)[:5]
    assert [each["token"] for each in found["neighbors"]] == text_model("transformer").tokenizers.source.pieces(
        best.tolist()
    )
    assert [each["cosine"] for each in found["neighbors"]] == pytest.approx(cosines[best].tolist(), abs=1e-5)


def test_in_the_table_a_word_is_the_same_in_every_sentence():
    asked = embeddings.ContextsRequest(run=RUN, word="书", sentences=("我有书", "书是你的"))
    found = embeddings.contexts(workspace(), asked)
    assert found["lens"] == ["table", "input", "block 1", "block 2"]
    assert found["cosines"]["table"] == [pytest.approx(1)]
    assert found["cosines"]["block 2"][0] < 0.999


@pytest.mark.parametrize("words", [("书",), ("书", "笔", ""), ("书",) * 4])
def test_a_sum_has_three_words(words):
    with pytest.raises(ValidationError):
        embeddings.AnalogyRequest(run=RUN, words=words)
