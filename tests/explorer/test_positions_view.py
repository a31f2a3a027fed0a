"""The page is told the positions that are added, and what another order makes of the answer."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from text_models import SOURCE, STACK, text_model

from seq2see.core.errors import UserError
from seq2see.explorer.schemas import RunRequest
from seq2see.explorer.views import positions
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.layers.positions import SinusoidalPositions
from seq2see.models.settings import ModelSettings, Tags, Text
from seq2see.runs.reordering import full_order
from seq2see.sequences.tokenizers import BOS, EOS

NAMES = {"r1": "transformer", "r2": "rnn", "r3": "gpt", "r4": "bert"}
ORDER = (1, 0, 2, 4, 3)


@pytest.fixture(scope="module")
def workspace() -> Workspace:
    runs = {id: OpenRun(id, name, None, Path(name)) for id, name in NAMES.items()}
    for run in runs.values():
        run.__dict__["model"] = text_model(run.name)
    return Workspace(runs)


def test_each_side_is_told_in_its_own_way(workspace: Workspace):
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


def test_the_table_is_the_one_that_is_added(workspace: Workspace):
    asked = positions.PositionTableRequest(run="r1", side="source", length=9)
    expected = SinusoidalPositions(16)(torch.arange(9)[None])[0].numpy()
    np.testing.assert_allclose(positions.table(workspace, asked).array, expected, atol=1e-6)
    unit = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(positions.position_similarity(workspace, asked).array, unit @ unit.T, atol=1e-5)
    with pytest.raises(UserError, match="not told"):
        positions.table(workspace, positions.PositionTableRequest(run="r2", side="source"))
    with pytest.raises(UserError, match="no source"):
        positions.table(workspace, positions.PositionTableRequest(run="r3", side="source"))
    with pytest.raises(UserError, match="1 heads"):
        positions.table(workspace, positions.PositionTableRequest(run="r1", side="source", head=1))


@pytest.mark.parametrize("id", NAMES)
def test_as_it_stands_the_answer_is_the_models_own(workspace: Workspace, id: str):
    text = "我有[MASK]本书" if NAMES[id] == "bert" else SOURCE
    encodings = positions.answers(workspace, positions.ReorderRequest(run=id, text=text))
    assert encodings["text"] == text_model(NAMES[id])(text).text
    assert sum(encodings["movable"]) == 5


@pytest.mark.parametrize("id", ["r1", "r2", "r3"])
def test_another_order_is_the_same_as_the_text_written_so(workspace: Workspace, id: str):
    turned = "".join(SOURCE[place] for place in ORDER)
    encodings = positions.answers(workspace, positions.ReorderRequest(run=id, text=SOURCE, order=ORDER))
    assert encodings["text"] == text_model(NAMES[id])(turned).text
    assert encodings["tokens"] == positions.answers(workspace, positions.ReorderRequest(run=id, text=SOURCE))["tokens"]


def test_with_positions_off_the_order_is_nothing_to_an_encoder_but_much_to_a_decoder(workspace: Workspace):
    def moved(id: str, way: str):
        return positions.distances(
            workspace, positions.ReorderRequest(run=id, text=SOURCE, order=ORDER, positions=way)
        ).array

    for id in ("r1", "r4"):
        assert moved(id, "told").max() > 0.01
        assert moved(id, "off").max() < 1e-5
    assert moved("r3", "off")[1:].max() > 0.01  # who looks back only still sees another past
    np.testing.assert_allclose(moved("r2", "off"), moved("r2", "told"), atol=1e-6)  # there was nothing to turn off
    text = positions.ReorderRequest(run="r1", text=SOURCE, positions="off")
    turned = text.model_copy(update={"order": ORDER})
    assert positions.answers(workspace, text)["text"] == positions.answers(workspace, turned)["text"]


def test_ends_stay_where_they_are_and_orders_are_whole():
    assert full_order([BOS, 7, 8, 9, EOS], [2, 0, 1]) == [0, 3, 1, 2, 4]
    assert full_order([7, 8, EOS], []) == [0, 1, 2]
    for wrong in ([0, 1], [0, 0, 1], [1, 2, 3]):
        with pytest.raises(UserError, match="each of them once"):
            full_order([BOS, 7, 8, 9, EOS], wrong)


def test_the_pieces_of_words_that_are_asked_about_are_not_moved():
    settings = ModelSettings(source=Text(), encoder=STACK, target=Tags())
    run = OpenRun("r1", "tagger", None, Path("tagger"))
    run.__dict__["model"] = SimpleNamespace(config=SimpleNamespace(model=settings))
    with pytest.raises(UserError, match="asked about words"):
        positions.answers(Workspace({"r1": run}), positions.ReorderRequest(run="r1", text=SOURCE))
