"""A task from outside: it trains, resumes, predicts, is evaluated, reported and explored without an edit in `src/`."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import seq2see
import toy_task
from seq2see.cli.app import run as command
from seq2see.core.errors import UserError
from seq2see.explorer.routes import ROUTES
from seq2see.explorer.workspace import Workspace
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.train import NullListener, dry_run
from seq2see.tasks import task as tasks

TESTS = Path(toy_task.__file__).parent
SHORT = {"training.steps": 60, "training.evaluate_every": 15}


tasks._tasks.pop(toy_task.DigitSum.name)  # to import the module registers it, also for other tests of this process


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    """The task, for the tests of this file only."""
    seq2see.register_task(toy_task.DigitSum())
    yield
    tasks._tasks.pop(toy_task.DigitSum.name)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A finished and evaluated run."""
    folder = tmp_path_factory.mktemp("runs") / "digits"
    seq2see.train(toy_task.DigitSumRecipe(), out=folder, listener=NullListener()).evaluate()
    return RunFolder(folder)


def test_it_learns_and_predicts(run: RunFolder):
    model = seq2see.load(run.path)
    assert abs(float(model("1234").text) - 10) < 2
    texts = ["4444", "1111", "9090"]
    together = [each.text for each in model.predict(texts)]
    assert together == [model(text).text for text in texts]
    assert model("12x4").warnings == ("unknown tokens x, replaced by <unk>",)


def test_its_recipe_is_a_tree_of_settings_with_its_own_slots(run: RunFolder):
    recipe = run.recipe()
    assert isinstance(recipe, toy_task.DigitSumRecipe)
    assert recipe == toy_task.DigitSumRecipe()
    assert recipe.with_(**{"corpus.size": 7, "encoder.kind": "recurrent"}).corpus.size == 7
    with pytest.raises(UserError, match="no setting 'decoder'"):
        recipe.with_(**{"decoder.width": 8})


def test_an_evaluation_stores_scores_a_table_and_a_figure(run: RunFolder):
    scores = json.loads((run.evaluation / "scores.json").read_text())
    assert scores["test"]["mean_absolute_error"] < 1.5
    header, *rows = (run.evaluation / "test.tsv").read_text().splitlines()
    assert header == "text\tsum\tprediction\terror"
    assert len(rows) == 50
    assert (run.evaluation / "numbers.png").stat().st_size > 1000


def test_the_report_draws_what_the_task_gives(run: RunFolder):
    page = (run.path / "report.html").read_text(encoding="utf-8")
    scores = json.loads((run.evaluation / "scores.json").read_text())
    first = (run.evaluation / "test.tsv").read_text().splitlines()[1].split("\t")[0]
    assert "test.mean_absolute_error" in page
    assert f"{scores['test']['mean_absolute_error']:.6g}" in page
    assert page.count("data:image/png") == 2  # the training curves and the plot of the evaluation
    assert first in page


def test_the_command_line_reads_it(run: RunFolder, tmp_path: Path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command(["predict", str(run.path), "4444"]) == 0
    assert abs(float(capsys.readouterr().out) - 16) < 2
    assert command(["eval", str(run.path)]) == 0
    assert "test: mean_absolute_error" in capsys.readouterr().out
    assert command(["show", "digit-sum"]) == 0
    assert "Texts of four random digits" in capsys.readouterr().out
    assert command(["train", "digit-sum", "--dry-run", "--set", "training.steps=2"]) == 0
    assert "13,249 weights in total" in capsys.readouterr().out
    assert command(["eval", str(run.path), str(run.path)]) == 0
    error = f"{json.loads((run.evaluation / 'scores.json').read_text())['test']['mean_absolute_error']:.6g}"
    assert f"test: mean_absolute_error {error} -> {error}" in capsys.readouterr().out


def test_a_dry_run_shows_a_batch():
    lines: list[str] = []
    dry_run(toy_task.DigitSumRecipe(), lines.append)
    assert any(line.startswith("batch  source") for line in lines)
    assert any("train 400" in line for line in lines)
    source, label = (next(line for line in lines if line.startswith(f"  {name}")) for name in ("source", "labels"))
    digits = source.split()[2:-1]
    assert len(digits) == 4
    assert float(label.split()[1]) == sum(map(int, digits))


def test_without_its_module_a_run_is_refused_with_a_hint(run: RunFolder, tmp_path: Path):
    """In a process of its own, in which nobody has registered the task."""
    done = subprocess.run(
        [sys.executable, "-m", "seq2see", "predict", str(run.path), "1234"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "There is no task 'digit-sum'" in done.stderr
    assert "register_task" in done.stderr


def test_two_tasks_have_two_names():
    class Another(toy_task.DigitSum):
        pass

    for name in ("digit-sum", "translate"):
        Another.name = name
        with pytest.raises(UserError, match=f"already a task '{name}'"):
            seq2see.register_task(Another())


def fingerprint(run: Path) -> dict[str, str]:
    """The SHA-256 of everything a run must reproduce: model, checkpoints, samples and metrics."""
    files = [run / "metrics.jsonl", *sorted((run / "samples").iterdir())]
    files += [path for part in ("model", "checkpoints") for path in sorted((run / part).rglob("*")) if path.is_file()]
    return {str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_killed_run_resumes_to_the_same_bytes(tmp_path: Path):
    """The module of the task is a program with the command line of seq2see, which is killed in the middle."""

    def train(name: str) -> subprocess.Popen:
        sets = [word for path, value in SHORT.items() for word in ("--set", f"{path}={value}")]
        arguments = [sys.executable, str(TESTS / "toy_task.py"), "train", "digit-sum", "--out", name, *sets]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
        return subprocess.Popen(arguments, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)

    killed = train("killed")
    deadline = time.monotonic() + 100
    while not list((tmp_path / "killed" / "checkpoints").glob("step-*15")) and time.monotonic() < deadline:
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    assert not (tmp_path / "killed" / "model").exists()
    assert (train("killed").wait(), train("whole").wait()) == (0, 0)
    assert fingerprint(tmp_path / "killed") == fingerprint(tmp_path / "whole")


def test_the_explorer_opens_it_with_the_views_that_it_names(run: RunFolder, monkeypatch):
    monkeypatch.syspath_prepend(str(TESTS / "explorer"))
    from tiny_workspace import Client, make_app, required_fields

    client = Client(make_app(Workspace.open([str(run.path)])))
    (described,) = client.send("GET", "/api/runs").json()["runs"]
    assert described["task"] == "digit-sum"
    assert tuple(described["views"]) == toy_task.DigitSum.views
    answers = {}
    for route, each in ROUTES.items():
        more = {"text": "1234", "target": "", "parts": ["surprisal"], "texts": ["1234"], "step": 100}
        fields = required_fields(route) | {
            name: value for name, value in more.items() if name in each.request_model.model_fields
        }
        answers[route] = client.post(route, run="r1", **fields)
        assert answers[route].status_code < 500, route
    shown = ("tokenize", "attention/layers", "attention/head", "architecture/blocks", "compare/sides", "runs/metrics")
    for route in (*shown, "predict", "mistakes/splits", "runs/samples"):
        assert answers[route].status_code == 200, answers[route].text
    (prediction,) = answers["predict"].json()["predictions"]
    assert abs(float(prediction["outputs"][0]["text"]) - 10) < 2
    sides = answers["compare/sides"].json()["sides"]
    assert [side["answer"] for side in sides] == [prediction["outputs"][0]["text"]] * 2
    source = answers["architecture/source"].json()["sources"]
    assert (source[0]["name"], source[0]["file"]) == ("NumberModel", "toy_task.py")
    rows = client.post("mistakes/rows", run="r1", split="test").json()
    assert rows["total"] == 50
    assert rows["rows"][0]["score"] <= rows["rows"][-1]["score"] <= 0
