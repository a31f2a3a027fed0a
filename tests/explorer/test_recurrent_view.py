"""What the page is told about a recurrent network is what its cells computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from text_models import SOURCE, text_model

from seq2see.core.errors import UserError
from seq2see.explorer.traces import TraceRequest
from seq2see.explorer.views import recurrent
from seq2see.explorer.workspace import OpenRun, Workspace

TARGET = "你有一支笔"
RNN, LSTM, TRANSFORMER = "r1", "r2", "r3"


@pytest.fixture(scope="module")
def workspace() -> Workspace:
    runs = {}
    for id, name in ((RNN, "rnn"), (LSTM, "lstm"), (TRANSFORMER, "transformer")):
        runs[id] = OpenRun(id, name, None, Path(name))
        runs[id].__dict__["model"] = text_model(name)
    return Workspace(runs)


def asked(kind=TraceRequest, run: str = RNN, **more):
    return kind(run=run, text=SOURCE, target=TARGET, **more)


def test_cells_are_told_with_what_they_show(workspace: Workspace):
    told = recurrent.read(workspace, asked())
    assert [(each["name"], each["image_size"], each["direction"]) for each in told["cells"]] == [
        ("encoder.stack.forecast.0", "source", "forecast"),
        ("encoder.stack.back.0", "source", "back"),
        ("decoder.stack.cells.0", "target", "forecast"),
    ]
    assert told["cells"][0]["signals"] == ["hidden", "reset", "update", "candidate"]
    assert told["cells"][0]["units"] == 8
    assert told["tokens"]["source"][:-1] == list(SOURCE)
    assert told["tokens"]["target_tokens"][:-1] == list(TARGET)
    assert told["source_access"] == "attention"
    assert recurrent.read(workspace, asked(run=LSTM))["source_access"] == "never"
    assert recurrent.read(workspace, asked(run=LSTM))["cells"][0]["signals"][:2] == ["hidden", "cell"]


@pytest.mark.parametrize("way", ["forecast", "back"])
@torch.no_grad()
def test_states_and_gates_are_those_of_the_cell_in_the_order_of_the_text(workspace: Workspace, way: str):
    model = text_model("rnn")
    vectors = model.module.source(model.named_batch(SOURCE, TARGET).batch.source).values
    cell = getattr(model.module.encoder.stack, way)[0]
    given = vectors if way == "forecast" else vectors.flip(1)
    hidden, _ = cell.unroll_eagerly(given, cell.initial_state(1, given))
    first = cell.gates(cell.project_inputs(given[:, 0]), cell.initial_state(1, given))
    name = f"encoder.stack.{way}.0"
    found = recurrent.states(workspace, asked(recurrent.StatesRequest, cell=name)).array
    begins = 0 if way == "forecast" else -1
    np.testing.assert_allclose(found, (hidden if way == "forecast" else hidden.flip(1))[0], atol=1e-5)
    for gate in ("reset", "update", "candidate"):
        seen = recurrent.states(workspace, asked(recurrent.StatesRequest, cell=name, shows=gate)).array
        np.testing.assert_allclose(seen[begins], first[gate][0], atol=1e-5)


def test_an_lstm_also_shows_what_it_keeps(workspace: Workspace):
    told = recurrent.read(workspace, asked(run=LSTM))["cells"][0]
    states, kept, output = (
        recurrent.states(workspace, asked(recurrent.StatesRequest, LSTM, cell=told["name"], shows=shows)).array
        for shows in ("hidden", "cell", "output")
    )
    np.testing.assert_allclose(states, output * np.tanh(kept), atol=1e-5)


def test_what_is_left_is_told_for_every_time(workspace: Workspace):
    found = recurrent.influence(
        workspace, asked(recurrent.InfluenceRequest, cell="encoder.stack.forecast.0", word=1)
    ).array
    assert found.shape == (3, len(SOURCE) + 1)
    np.testing.assert_allclose(found[:, 1], 1, atol=1e-6)
    assert (found[:2, 0] == 0).all()
    with pytest.raises(UserError, match="6 tokens"):
        recurrent.influence(workspace, asked(recurrent.InfluenceRequest, cell="encoder.stack.forecast.0", word=6))


@torch.no_grad()
def test_contexts_come_with_what_the_one_vector_would_do(workspace: Workspace):
    model = text_model("rnn")
    batch = model.named_batch(SOURCE, TARGET).batch
    given = recurrent.given(workspace, asked()).array
    assert given.shape == (1 + len(TARGET) + 1, 16)
    np.testing.assert_allclose(given[0], model.module.encode(batch.source).pooled[0], atol=1e-6)
    right = model.module(batch).softmax(-1)[0].gather(-1, batch.labels[0][:, None])[:, 0]
    needed = recurrent.needed(workspace, asked()).array
    np.testing.assert_allclose(needed[0], right, atol=1e-6)
    assert np.abs(needed[0] - needed[1]).max() > 1e-3


def test_what_a_model_does_not_have_is_refused(workspace: Workspace):
    with pytest.raises(UserError, match="no recurrent cells"):
        recurrent.read(workspace, asked(run=TRANSFORMER))
    with pytest.raises(UserError, match="no attention"):
        recurrent.needed(workspace, asked(run=LSTM))
    with pytest.raises(UserError, match="There is:"):
        recurrent.states(workspace, asked(recurrent.StatesRequest, cell="encoder.stack.sideways.0"))
    with pytest.raises(UserError, match="up to 1,000"):
        recurrent.read(workspace, TraceRequest(run=LSTM, text="我" * 1001, target="有"))
