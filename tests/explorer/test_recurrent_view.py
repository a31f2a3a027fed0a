"""The responses of the view "Recurrent" are what the cells compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from text_models import SOURCE, text_model

from seq2see.core.errors import UserError
from seq2see.explorer.inputs import TraceRequest
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


def request(kind=TraceRequest, run: str = RNN, **fields):
    return kind(run=run, text=SOURCE, target=TARGET, **fields)


def test_cells_are_listed_with_their_signals(workspace: Workspace):
    info = recurrent.list_cells(workspace, request())
    assert [(each["name"], each["side"], each["direction"]) for each in info["cells"]] == [
        ("encoder.stack.forward_cells.0", "source", "forward"),
        ("encoder.stack.backward_cells.0", "source", "backward"),
        ("decoder.stack.cells.0", "target", "forward"),
    ]
    assert info["cells"][0]["signals"] == ["hidden", "reset", "update", "candidate"]
    assert info["cells"][0]["units"] == 8
    assert info["tokens"]["source"][:-1] == list(SOURCE)
    assert info["tokens"]["labels"][:-1] == list(TARGET)
    assert info["source_access"] == "attention"
    assert recurrent.list_cells(workspace, request(run=LSTM))["source_access"] == "none"
    assert recurrent.list_cells(workspace, request(run=LSTM))["cells"][0]["signals"][:2] == ["hidden", "cell"]


@pytest.mark.parametrize("cells", ["forward_cells", "backward_cells"])
@torch.no_grad()
def test_states_and_gates_are_those_of_the_cell_in_the_order_of_the_text(workspace: Workspace, cells: str):
    model = text_model("rnn")
    vectors = model.module.source(model.named_batch(SOURCE, TARGET).batch.source).values
    cell = getattr(model.module.encoder.stack, cells)[0]
    inputs = vectors if cells == "forward_cells" else vectors.flip(1)
    hidden, _ = cell.unroll_eagerly(inputs, cell.initial_state(1, inputs))
    first = cell.gates(cell.project_inputs(inputs[:, 0]), cell.initial_state(1, inputs))
    name = f"encoder.stack.{cells}.0"
    found = recurrent.states(workspace, request(recurrent.StatesRequest, cell=name)).array
    start = 0 if cells == "forward_cells" else -1
    np.testing.assert_allclose(found, (hidden if cells == "forward_cells" else hidden.flip(1))[0], atol=1e-5)
    for gate in ("reset", "update", "candidate"):
        values = recurrent.states(workspace, request(recurrent.StatesRequest, cell=name, signal=gate)).array
        np.testing.assert_allclose(values[start], first[gate][0], atol=1e-5)


def test_an_lstm_also_has_a_cell_state(workspace: Workspace):
    info = recurrent.list_cells(workspace, request(run=LSTM))["cells"][0]
    states, cell_state, output = (
        recurrent.states(workspace, request(recurrent.StatesRequest, LSTM, cell=info["name"], signal=signal)).array
        for signal in ("hidden", "cell", "output")
    )
    np.testing.assert_allclose(states, output * np.tanh(cell_state), atol=1e-5)


def test_the_influence_of_a_word_has_a_value_for_every_time_step(workspace: Workspace):
    found = recurrent.influence(
        workspace, request(recurrent.InfluenceRequest, cell="encoder.stack.forward_cells.0", word=1)
    ).array
    assert found.shape == (3, len(SOURCE) + 1)
    np.testing.assert_allclose(found[:, 1], 1, atol=1e-6)
    assert (found[:2, 0] == 0).all()
    with pytest.raises(UserError, match="6 tokens"):
        recurrent.influence(
            workspace, request(recurrent.InfluenceRequest, cell="encoder.stack.forward_cells.0", word=6)
        )


@torch.no_grad()
def test_context_vectors_and_the_ablation_are_those_of_the_model(workspace: Workspace):
    model = text_model("rnn")
    batch = model.named_batch(SOURCE, TARGET).batch
    contexts = recurrent.context_vectors(workspace, request()).array
    assert contexts.shape == (1 + len(TARGET) + 1, 16)
    np.testing.assert_allclose(contexts[0], model.module.encode(batch.source).pooled[0], atol=1e-6)
    expected = model.module(batch).softmax(-1)[0].gather(-1, batch.labels[0][:, None])[:, 0]
    ablation = recurrent.attention_ablation(workspace, request()).array
    np.testing.assert_allclose(ablation[0], expected, atol=1e-6)
    assert np.abs(ablation[0] - ablation[1]).max() > 1e-3


def test_missing_cells_signals_and_attention_are_errors(workspace: Workspace):
    with pytest.raises(UserError, match="no recurrent cells"):
        recurrent.list_cells(workspace, request(run=TRANSFORMER))
    with pytest.raises(UserError, match="no attention"):
        recurrent.attention_ablation(workspace, request(run=LSTM))
    with pytest.raises(UserError, match="Modules with"):
        recurrent.states(workspace, request(recurrent.StatesRequest, cell="encoder.stack.sideways.0"))
    with pytest.raises(UserError, match="1,000"):
        recurrent.list_cells(workspace, TraceRequest(run=LSTM, text="我" * 1001, target="有"))
