"""What the page is told about a recurrent network is what its cells computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from writers import SOURCE, writer

from seq2see.core.errors import UserError
from seq2see.explorer.bench import Bench, OpenRun
from seq2see.explorer.records import AboutInput
from seq2see.explorer.views import recurrent

TARGET = "你有一支笔"
RNN, LSTM, TRANSFORMER = "r1", "r2", "r3"


@pytest.fixture(scope="module")
def bench() -> Bench:
    runs = {}
    for id, name in ((RNN, "rnn"), (LSTM, "lstm"), (TRANSFORMER, "transformer")):
        runs[id] = OpenRun(id, name, None, Path(name))
        runs[id].__dict__["model"] = writer(name)
    return Bench(runs)


def asked(kind=AboutInput, run: str = RNN, **more):
    return kind(run=run, text=SOURCE, target=TARGET, **more)


def test_cells_are_told_with_what_they_show(bench: Bench):
    told = recurrent.read(bench, asked())
    assert [(each["name"], each["side"], each["direction"]) for each in told["cells"]] == [
        ("encoder.reader.ahead.0", "source", "ahead"),
        ("encoder.reader.back.0", "source", "back"),
        ("decoder.stack.cells.0", "target", "ahead"),
    ]
    assert told["cells"][0]["shows"] == ["hidden", "reset", "update", "candidate"]
    assert told["cells"][0]["units"] == 8
    assert told["tokens"]["source"][:-1] == list(SOURCE)
    assert told["tokens"]["written"][:-1] == list(TARGET)
    assert told["look"] == "attention"
    assert recurrent.read(bench, asked(run=LSTM))["look"] == "never"
    assert recurrent.read(bench, asked(run=LSTM))["cells"][0]["shows"][:2] == ["hidden", "cell"]


@pytest.mark.parametrize("way", ["ahead", "back"])
@torch.no_grad()
def test_states_and_gates_are_those_of_the_cell_in_the_order_of_the_text(bench: Bench, way: str):
    model = writer("rnn")
    vectors = model.module.source(model.reading(SOURCE, TARGET).batch.source).values
    cell = getattr(model.module.encoder.reader, way)[0]
    given = vectors if way == "ahead" else vectors.flip(1)
    hidden, _ = cell.read_plainly(given, cell.first_state(1, given))
    first = cell.gates(cell.project(given[:, 0]), cell.first_state(1, given))
    name = f"encoder.reader.{way}.0"
    found = recurrent.states(bench, asked(recurrent.StatesAsked, cell=name)).array
    begins = 0 if way == "ahead" else -1
    np.testing.assert_allclose(found, (hidden if way == "ahead" else hidden.flip(1))[0], atol=1e-5)
    for gate in ("reset", "update", "candidate"):
        seen = recurrent.states(bench, asked(recurrent.StatesAsked, cell=name, shows=gate)).array
        np.testing.assert_allclose(seen[begins], first[gate][0], atol=1e-5)


def test_an_lstm_also_shows_what_it_keeps(bench: Bench):
    told = recurrent.read(bench, asked(run=LSTM))["cells"][0]
    states, kept, output = (
        recurrent.states(bench, asked(recurrent.StatesAsked, LSTM, cell=told["name"], shows=shows)).array
        for shows in ("hidden", "cell", "output")
    )
    np.testing.assert_allclose(states, output * np.tanh(kept), atol=1e-5)


def test_what_is_left_is_told_for_every_time(bench: Bench):
    found = recurrent.left(bench, asked(recurrent.LeftAsked, cell="encoder.reader.ahead.0", word=1)).array
    assert found.shape == (3, len(SOURCE) + 1)
    np.testing.assert_allclose(found[:, 1], 1, atol=1e-6)
    assert (found[:2, 0] == 0).all()
    with pytest.raises(UserError, match="6 tokens"):
        recurrent.left(bench, asked(recurrent.LeftAsked, cell="encoder.reader.ahead.0", word=6))


@torch.no_grad()
def test_contexts_come_with_what_the_one_vector_would_do(bench: Bench):
    model = writer("rnn")
    batch = model.reading(SOURCE, TARGET).batch
    given = recurrent.given(bench, asked()).array
    assert given.shape == (1 + len(TARGET) + 1, 16)
    np.testing.assert_allclose(given[0], model.module.encode(batch.source).summary[0], atol=1e-6)
    right = model.module(batch).softmax(-1)[0].gather(-1, batch.labels[0][:, None])[:, 0]
    needed = recurrent.needed(bench, asked()).array
    np.testing.assert_allclose(needed[0], right, atol=1e-6)
    assert np.abs(needed[0] - needed[1]).max() > 1e-3


def test_what_a_model_does_not_have_is_refused(bench: Bench):
    with pytest.raises(UserError, match="no recurrent cells"):
        recurrent.read(bench, asked(run=TRANSFORMER))
    with pytest.raises(UserError, match="no attention"):
        recurrent.needed(bench, asked(run=LSTM))
    with pytest.raises(UserError, match="There is:"):
        recurrent.states(bench, asked(recurrent.StatesAsked, cell="encoder.reader.sideways.0"))
    with pytest.raises(UserError, match="up to 1,000"):
        recurrent.read(bench, AboutInput(run=LSTM, text="我" * 1001, target="有"))
