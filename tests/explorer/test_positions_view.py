"""The view "Positions": position encodings of the models, and predictions for reordered tokens."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from text_models import SOURCE, text_model

from seq2see.core.errors import UserError
from seq2see.data.tokenizers.tokenizer import BOS, EOS
from seq2see.explorer.schemas import RunRequest
from seq2see.explorer.views import positions
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.layers.positions import SinusoidalPositions
from seq2see.runs.reordering import full_order

NAMES = {"r1": "transformer", "r2": "rnn", "r3": "gpt", "r4": "bert"}
ORDER = (1, 0, 2, 4, 3)


@pytest.fixture(scope="module")
def workspace() -> Workspace:
    runs = {id: OpenRun(id, name, None, Path(name)) for id, name in NAMES.items()}
    for run in runs.values():
        run.__dict__["model"] = text_model(run.name)
    return Workspace(runs)


def test_each_side_has_its_own_position_encoding(workspace: Workspace):
    kinds = {
        name: [each["kind"] for each in positions.encodings(workspace, RunRequest(run=id))["sides"]]
        for id, name in NAMES.items()
    }
    assert kinds == {
        "transformer": ["sinusoidal", "sinusoidal"],
        "rnn": ["none", "none"],
        "gpt": ["sinusoidal"],
        "bert": ["sinusoidal"],
    }


def test_the_table_has_the_vectors_that_are_added(workspace: Workspace):
    request = positions.PositionTableRequest(run="r1", side="source", length=9)
    expected = SinusoidalPositions(16)(torch.arange(9)[None])[0].numpy()
    np.testing.assert_allclose(positions.table(workspace, request).array, expected, atol=1e-6)
    unit = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(positions.similarity(workspace, request).array, unit @ unit.T, atol=1e-5)
    with pytest.raises(UserError, match="no position encoding"):
        positions.table(workspace, positions.PositionTableRequest(run="r2", side="source"))
    with pytest.raises(UserError, match="no source"):
        positions.table(workspace, positions.PositionTableRequest(run="r3", side="source"))
    with pytest.raises(UserError, match="1 heads"):
        positions.table(workspace, positions.PositionTableRequest(run="r1", side="source", head=1))


@pytest.mark.parametrize("id", NAMES)
def test_in_the_original_order_the_prediction_is_that_of_the_model(workspace: Workspace, id: str):
    text = "我有[MASK]本书" if NAMES[id] == "bert" else SOURCE
    result = positions.predict_reordered(workspace, positions.ReorderRequest(run=id, text=text))
    assert result["text"] == text_model(NAMES[id])(text).text
    assert sum(result["movable"]) == 5


@pytest.mark.parametrize("id", ["r1", "r2", "r3"])
def test_reordered_tokens_are_equal_to_a_text_in_that_order(workspace: Workspace, id: str):
    reordered = "".join(SOURCE[index] for index in ORDER)
    result = positions.predict_reordered(workspace, positions.ReorderRequest(run=id, text=SOURCE, order=ORDER))
    assert result["text"] == text_model(NAMES[id])(reordered).text
    assert (
        result["tokens"]
        == positions.predict_reordered(workspace, positions.ReorderRequest(run=id, text=SOURCE))["tokens"]
    )


def test_without_positions_the_order_has_no_effect_on_an_encoder_but_on_a_decoder(workspace: Workspace):
    def moved(id: str, mode: str):
        return positions.distances(
            workspace, positions.ReorderRequest(run=id, text=SOURCE, order=ORDER, positions=mode)
        ).array

    for id in ("r1", "r4"):
        assert moved(id, "on").max() > 0.01
        assert moved(id, "off").max() < 1e-5
    assert moved("r3", "off")[1:].max() > 0.01  # a causal model attends to other tokens
    np.testing.assert_allclose(moved("r2", "off"), moved("r2", "on"), atol=1e-6)  # this model has no positions
    original = positions.ReorderRequest(run="r1", text=SOURCE, positions="off")
    reordered = original.model_copy(update={"order": ORDER})
    assert (
        positions.predict_reordered(workspace, original)["text"]
        == positions.predict_reordered(workspace, reordered)["text"]
    )


def test_special_tokens_do_not_move_and_orders_are_complete():
    assert full_order([BOS, 7, 8, 9, EOS], [2, 0, 1]) == [0, 3, 1, 2, 4]
    assert full_order([7, 8, EOS], []) == [0, 1, 2]
    for order in ([0, 1], [0, 0, 1], [1, 2, 3]):
        with pytest.raises(UserError, match="each exactly once"):
            full_order([BOS, 7, 8, 9, EOS], order)


def test_the_tokens_of_a_tagger_cannot_be_reordered():
    run = OpenRun("r1", "tagger", None, Path("tagger"))
    run.__dict__["model"] = SimpleNamespace(config=SimpleNamespace(task="tag"))
    with pytest.raises(UserError, match="tags words"):
        positions.predict_reordered(Workspace({"r1": run}), positions.ReorderRequest(run="r1", text=SOURCE))
