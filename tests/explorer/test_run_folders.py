"""Training curves and samples of run folders that grow, are damaged, moved and deleted while they are open."""

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
from seq2see.explorer.views.runs import MAX_POINTS
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.runs.run_folder import RunFolder


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    return Client(make_app(workspace(tmp_path_factory.mktemp("runs"))))


class TestCurves:
    def test_only_new_lines_are_sent(self, tmp_path):
        opened = workspace(tmp_path)
        client = Client(make_app(opened))
        first = client.post("runs/metrics", run="r6").json()
        assert [line["step"] for line in first["lines"]] == list(range(1, 21))
        assert first["lines"][-1]["loss"] is None  # NaN, which JSON does not have
        assert (first["samples"], first["finished"]) == ([10], False)
        assert client.post("runs/metrics", run="r6", since=first["next"]).json()["lines"] == []
        append_metrics(opened.run("r6").folder, {"step": 21, "loss": 0.5})
        with opened.run("r6").folder.metrics.open("ab") as file:
            file.write(b'{"step": 22, "lo')  # an incomplete line
        later = client.post("runs/metrics", run="r6", since=first["next"]).json()
        assert later["lines"] == [{"step": 21, "loss": 0.5}]
        assert later["next"] == 21

    def test_all_lines_of_a_resumed_run_are_sent_again(self, client):
        response = client.post("runs/metrics", run="r6", since=500).json()
        assert response["first"] == 0
        assert len(response["lines"]) == 20

    def test_a_damaged_line_is_named(self, tmp_path):
        opened = workspace(tmp_path)
        with opened.run("r6").folder.metrics.open("ab") as file:
            file.write(b"oh\n")
        response = Client(make_app(opened)).post("runs/metrics", run="r6")
        assert (response.status_code, response.json()["message"]) == (422, "Line 21 of metrics.jsonl is damaged.")

    @pytest.mark.parametrize("line", [b"[]", b'"step"', b'{"loss": 1}', b"[" * 100_000, b"{}", b"\xff", b""])
    def test_a_line_without_a_step_is_damaged(self, tmp_path, line):
        run = unfinished_run(tmp_path / "run")
        run.metrics.write_bytes(b'{"step": 1}\n' + line + b"\n")
        response = Client(make_app(Workspace.open([str(run.path)]))).post("runs/metrics", run="r1")
        assert (response.status_code, response.json()["message"]) == (422, "Line 2 of metrics.jsonl is damaged.")

    def test_downsampling_of_a_long_run_keeps_spikes(self, tmp_path):
        run = unfinished_run(tmp_path / "run")
        losses = np.random.default_rng(0).random(50_000)
        losses[12_345], losses[40_000] = 99, -7
        lines = [{"step": step, "loss": loss} for step, loss in enumerate(losses, 1)]
        lines.insert(30_001, {"step": 30_000, "valid_loss": 0.5})
        run.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        client = Client(make_app(Workspace.open([str(run.path)])))
        info = client.post("runs/metrics", run="r1").json()
        rows = {line["step"]: line for line in info["lines"] if "loss" in line}
        assert len(info["lines"]) < MAX_POINTS
        assert (rows[12_346]["loss"], rows[40_001]["loss"], rows[50_000]["loss"]) == (99, -7, losses[-1])
        assert {"step": 30_000, "valid_loss": 0.5} in info["lines"]
        assert [line["step"] for line in info["lines"]] == sorted(line["step"] for line in info["lines"])
        means = [line["loss"] for line in info["means"]]
        assert np.mean(means) == pytest.approx(losses.mean(), rel=1e-3)
        assert info["next"] == 50_001
        append_metrics(run, {"step": 50_001, "loss": 0.25})
        later = client.post("runs/metrics", run="r1", since=info["next"]).json()
        assert (later["first"], later["lines"], later["means"]) == (50_001, [{"step": 50_001, "loss": 0.25}], None)

    def test_samples_of_a_step(self, client):
        response = client.post("runs/samples", run="r6", step=10).json()
        assert response["columns"] == ["source", "reference", "output"]
        assert response["rows"] == [["你好", SCRIPT, "hello"]]
        assert client.post("runs/samples", run="r6", step=11).status_code == 422

    def test_an_unfinished_run_has_an_error_until_it_has_a_model(self, tmp_path):
        opened = workspace(tmp_path)
        response = Client(make_app(opened)).post("predict", run="r6", texts=[SOURCE])
        assert (response.status_code, response.json()["location"]) == (422, "half-done")
        opened.run("r6").model = text_model("transformer")
        assert Client(make_app(opened)).post("predict", run="r6", texts=[SOURCE]).status_code == 200
        assert (
            Client(make_app(opened)).post("mistakes/splits", run="r6").json()["splits"] == []
        )  # it is not evaluated yet


class TestFoldersThatChange:
    """Run folders that other programs move, delete and write."""

    def test_a_deleted_run_is_no_internal_error(self, tmp_path):
        runs = [unfinished_run(tmp_path / "half").path, evaluated_run(tmp_path / "evaluated").path]
        opened = workspace()
        reopened = Workspace.open([str(runs[0])])
        opened.runs |= {
            "r6": reopened.run("r1"),
            "r7": OpenRun("r7", "evaluated", RunFolder(runs[1]), runs[1] / "model"),
        }
        opened.run("r7").model = text_model("transformer")
        client = Client(make_app(opened))
        for run in runs:
            shutil.rmtree(run)
        assert client.post("runs/metrics", run="r6").json()["lines"] == []
        for route in ROUTES:
            for id in ("r6", "r7"):
                response = client.post(route, **{"run": id, **required_fields(route)})
                assert response.status_code in (200, 422), (route, response.text)
                assert str(tmp_path) not in response.text

    def test_a_deleted_run_is_still_listed(self, tmp_path):
        reopened = Workspace.open([str(unfinished_run(tmp_path / "half").path)])
        shutil.rmtree(tmp_path / "half")
        assert Client(make_app(reopened)).send("GET", "/api/runs").json()["runs"][0]["name"] == "half"

    def test_damaged_samples_are_skipped(self, tmp_path):
        run = unfinished_run(tmp_path / "half")
        (run.samples / "step-000020.tsv").write_bytes(b"source\treference\toutput\n\xff\t\xff\t\xff\n")
        (run_info,) = Client(make_app(Workspace.open([str(run.path)]))).send("GET", "/api/runs").json()["runs"]
        assert run_info["example"]["text"] == "你好"

    def test_the_example_is_the_newest_sample_with_its_line_breaks(self, tmp_path):
        run = unfinished_run(tmp_path / "half")
        table = "source\treference\toutput\n一⏎二⇥三\t四⏎\tx\n"
        (run.samples / "step-000020.tsv").write_text(table, encoding="utf-8")
        (run_info,) = Client(make_app(Workspace.open([str(run.path)]))).send("GET", "/api/runs").json()["runs"]
        assert run_info["example"] == {"text": "一\n二\t三", "target": "四\n"}

    def test_a_missing_file_is_an_error_without_its_path(self, monkeypatch):
        def gone(workspace, request: RunRequest) -> dict:
            raise FileNotFoundError(2, "gone", "/a/secret/place")

        monkeypatch.setitem(ROUTES, "gone", Route(RunRequest, gone))
        response = Client(make_app(workspace())).post("gone", run="r1")
        assert (response.status_code, "is missing" in response.json()["message"]) == (422, True)
        assert "secret" not in response.text


@pytest.mark.parametrize("content", ["", "\n", "source\n"])
def test_an_empty_table_of_samples_has_no_rows(tmp_path, content):
    opened = workspace(tmp_path)
    path = opened.run("r6").folder.samples / "step-000010.tsv"
    path.write_text(content)
    response = Client(make_app(opened)).post("runs/samples", run="r6", step=10)
    assert (response.status_code, response.json()["rows"]) == (200, [])
    path.unlink()
    path.symlink_to("/etc/hostname")
    response = Client(make_app(opened)).post("runs/samples", run="r6", step=10)
    assert (response.status_code, "is a link" in response.json()["message"]) == (422, True)
