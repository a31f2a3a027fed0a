"""Curves and samples of runs on a disk, where they grow, are damaged, moved and deleted while somebody looks."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from text_models import SOURCE, text_model
from tiny_workspace import (
    SCRIPT,
    Client,
    append_metrics,
    evaluated_run,
    make_app,
    required_fields,
    unfinished_run,
    workspace,
)

from seq2see.explorer.routes import ROUTES, Route
from seq2see.explorer.schemas import RunRequest
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.inspection.downsampling import MAX_POINTS
from seq2see.runs.run_folder import RunFolder


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    return Client(make_app(workspace(tmp_path_factory.mktemp("runs"))))


class TestCurves:
    def test_new_lines_alone_are_given(self, tmp_path):
        on = workspace(tmp_path)
        asking = Client(make_app(on))
        first = asking.post("runs/metrics", run="r6").json()
        assert [line["step"] for line in first["lines"]] == list(range(1, 21))
        assert first["lines"][-1]["loss"] is None  # not a number, for which JSON has no word
        assert (first["samples"], first["finished"]) == ([10], False)
        assert asking.post("runs/metrics", run="r6", since=first["next"]).json()["lines"] == []
        append_metrics(on.run("r6").folder, {"step": 21, "loss": 0.5})
        with on.run("r6").folder.metrics.open("ab") as file:
            file.write(b'{"step": 22, "lo')  # is being written at this moment
        later = asking.post("runs/metrics", run="r6", since=first["next"]).json()
        assert later["lines"] == [{"step": 21, "loss": 0.5}]
        assert later["next"] == 21

    def test_a_run_that_was_resumed_is_told_from_its_beginning(self, client):
        answer = client.post("runs/metrics", run="r6", since=500).json()
        assert answer["first"] == 0
        assert len(answer["lines"]) == 20

    def test_a_damaged_line_is_named(self, tmp_path):
        on = workspace(tmp_path)
        with on.run("r6").folder.metrics.open("ab") as file:
            file.write(b"oh\n")
        answer = Client(make_app(on)).post("runs/metrics", run="r6")
        assert (answer.status_code, answer.json()["message"]) == (422, "Line 21 of metrics.jsonl is damaged.")

    @pytest.mark.parametrize("line", [b"[]", b'"step"', b'{"loss": 1}', b"[" * 100_000, b"{}", b"\xff", b""])
    def test_so_is_whatever_else_is_no_note_of_a_step(self, tmp_path, line):
        run = unfinished_run(tmp_path / "run")
        run.metrics.write_bytes(b'{"step": 1}\n' + line + b"\n")
        answer = Client(make_app(Workspace.open([str(run.path)]))).ask("runs/metrics", run="r1")
        assert (answer.status_code, answer.json()["message"]) == (422, "Line 2 of metrics.jsonl is damaged.")

    def test_of_a_very_long_run_no_spike_is_lost(self, tmp_path):
        run = unfinished_run(tmp_path / "run")
        losses = np.random.default_rng(0).random(50_000)
        losses[12_345], losses[40_000] = 99, -7
        lines = [{"step": step, "loss": loss} for step, loss in enumerate(losses, 1)]
        lines.insert(30_001, {"step": 30_000, "valid_loss": 0.5})
        run.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        asking = Client(make_app(Workspace.open([str(run.path)])))
        told = asking.post("runs/metrics", run="r1").json()
        kept = {line["step"]: line for line in told["lines"] if "loss" in line}
        assert len(told["lines"]) < MAX_POINTS
        assert (kept[12_346]["loss"], kept[40_001]["loss"], kept[50_000]["loss"]) == (99, -7, losses[-1])
        assert {"step": 30_000, "valid_loss": 0.5} in told["lines"]
        assert [line["step"] for line in told["lines"]] == sorted(line["step"] for line in told["lines"])
        means = [line["loss"] for line in told["means"]]
        assert np.mean(means) == pytest.approx(losses.mean(), rel=1e-3)
        assert told["next"] == 50_001
        append_metrics(run, {"step": 50_001, "loss": 0.25})
        later = asking.post("runs/metrics", run="r1", since=told["next"]).json()
        assert (later["first"], later["lines"], later["means"]) == (50_001, [{"step": 50_001, "loss": 0.25}], None)

    def test_samples_of_a_step(self, client):
        answer = client.post("runs/samples", run="r6", step=10).json()
        assert answer["columns"] == ["source", "reference", "output"]
        assert answer["rows"] == [["你好", SCRIPT, "hello"]]
        assert client.post("runs/samples", run="r6", step=11).status_code == 422

    def test_a_run_without_a_model_says_so_and_answers_once_it_has_one(self, tmp_path):
        on = workspace(tmp_path)
        answer = Client(make_app(on)).post("predict", run="r6", texts=[SOURCE])
        assert (answer.status_code, answer.json()["location"]) == (422, "half-done")
        on.run("r6").model = text_model("transformer")
        assert Client(make_app(on)).post("predict", run="r6", texts=[SOURCE]).status_code == 200
        assert Client(make_app(on)).post("mistakes/splits", run="r6").json()["splits"] == []  # it was not judged yet


class TestFoldersThatChange:
    """A run lies on a disk, where others move, delete and write."""

    def test_a_run_that_is_deleted_is_no_mistake_of_ours(self, tmp_path):
        runs = [unfinished_run(tmp_path / "half").path, evaluated_run(tmp_path / "judged").path]
        on = workspace()
        opened = Workspace.open([str(runs[0])])
        on.runs |= {"r6": opened.run("r1"), "r7": OpenRun("r7", "judged", RunFolder(runs[1]), runs[1] / "model")}
        on.run("r7").model = text_model("transformer")
        client = Client(make_app(on))
        for run in runs:
            shutil.rmtree(run)
        assert client.post("runs/metrics", run="r6").json()["lines"] == []
        for route in ROUTES:
            for id in ("r6", "r7"):
                answer = client.post(route, **{"run": id, **required_fields(route)})
                assert answer.status_code in (200, 422), (route, answer.text)
                assert str(tmp_path) not in answer.text

    def test_it_is_listed_all_the_same(self, tmp_path):
        opened = Workspace.open([str(unfinished_run(tmp_path / "half").path)])
        shutil.rmtree(tmp_path / "half")
        assert Client(make_app(opened)).send("GET", "/api/runs").json()["runs"][0]["name"] == "half"

    def test_damaged_samples_are_passed_over(self, tmp_path):
        run = unfinished_run(tmp_path / "half")
        (run.samples / "step-000020.tsv").write_bytes(b"source\treference\toutput\n\xff\t\xff\t\xff\n")
        (told,) = Client(make_app(Workspace.open([str(run.path)]))).send("GET", "/api/runs").json()["runs"]
        assert told["example"]["text"] == "你好"

    def test_the_newest_sample_is_the_example_as_it_was_before_it_was_put_on_one_line(self, tmp_path):
        run = unfinished_run(tmp_path / "half")
        table = "source\treference\toutput\n一⏎二⇥三\t四⏎\tx\n"
        (run.samples / "step-000020.tsv").write_text(table, encoding="utf-8")
        (told,) = Client(make_app(Workspace.open([str(run.path)]))).send("GET", "/api/runs").json()["runs"]
        assert told["example"] == {"text": "一\n二\t三", "target": "四\n"}

    def test_a_file_that_goes_while_it_is_read_is_told(self, monkeypatch):
        def gone(workspace, asked: RunRequest) -> dict:
            raise FileNotFoundError(2, "gone", "/a/secret/place")

        monkeypatch.setitem(ROUTES, "gone", Route(RunRequest, gone))
        answer = Client(make_app(workspace())).post("gone", run="r1")
        assert (answer.status_code, "no longer there" in answer.json()["message"]) == (422, True)
        assert "secret" not in answer.text
