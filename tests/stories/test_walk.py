"""The walk of a reader is counted: on a package of a few files whose calls are known, and on the real one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import walk
from import_graph import import_cycles, import_graph

TOY = {
    "__init__.py": '"""A toy."""\n',
    "cli.py": """
import sys
import threading
from toy.helpers import Shape, marked

@marked
def main():
    from toy.work import Trainer, read
    print(sys.argv[1:], file=open("arguments.txt", "w"))
    rows = [read(row) for row in range(int(sys.argv[2]))]
    trainer = Trainer()
    for row in rows:
        trainer.enqueue(row)
    trainer.finish()
    thread = threading.Thread(target=trainer.watch)
    thread.start()
    thread.join()
    Shape(1)
    sys.exit(int(sys.argv[1]))
""",
    "helpers.py": """
from dataclasses import dataclass

def marked(function):
    return function

def size():
    return 2

def double(number):
    return number * number

def never():
    return 1

@dataclass
class Shape:
    number: int = size()
""",
    "work.py": """
import copy
from toy.helpers import double, size

class Row:
    width = size()

    def __deepcopy__(self, memo):
        return Row()

def read(number):
    return Row()

class Trainer:
    def enqueue(self, row):
        (lambda: double(2))()
        self.numbers()
        copy.deepcopy(row)

    def numbers(self):
        return list(self.generate())

    def generate(self):
        yield size()

    def finish(self):
        pass

    def watch(self):
        double(3)
""",
}


@pytest.fixture
def toy(tmp_path):
    """A source tree with one small package."""
    for name, text in TOY.items():
        path = tmp_path / "tree" / "src" / "toy" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "tree"


def pairs(calls: dict) -> set[tuple[str, ...]]:
    return {tuple(function) for function in calls}


STEP = {
    ("work.py", "Trainer.enqueue"), ("work.py", "Trainer.numbers"), ("work.py", "Trainer.generate"),
    ("work.py", "Row.__deepcopy__"), ("helpers.py", "double"), ("helpers.py", "size"),
}  # fmt: skip
"""A lambda belongs to the function around it; `copy.deepcopy` is in no file of the package."""


def test_functions_that_run_are_recorded_and_what_runs_during_an_import_is_not(toy, tmp_path):
    calls = walk.record(toy, ["0", "3"], tmp_path, package="toy")
    assert (tmp_path / "arguments.txt").read_text() == "['0', '3']\n"
    more = {("cli.py", "main"), ("work.py", "read"), ("work.py", "Trainer.watch"), ("work.py", "Trainer.finish")}
    assert pairs(calls["all"]["functions"]) == STEP | more
    assert walk.count(calls["all"]) == {"files": 3, "functions": 10, "jumps": 6}
    jumps = {(caller[1], function[1]) for caller, function in calls["all"]["jumps"]}
    assert jumps == {
        ("main", "read"), ("main", "Trainer.enqueue"), ("main", "Trainer.finish"),
        ("Trainer.enqueue", "double"), ("Trainer.generate", "size"), ("Trainer.watch", "double"),
    }  # fmt: skip


def test_an_optimizer_step_is_recorded_until_the_next_one_begins(toy, tmp_path):
    last = walk.record(toy, ["0", "3"], tmp_path, package="toy")["step"]
    assert pairs(last["functions"]) == STEP | {("work.py", "Trainer.finish"), ("work.py", "Trainer.watch")}
    inner = walk.record(toy, ["0", "4"], tmp_path, package="toy")["step"]
    assert pairs(inner["functions"]) == STEP
    assert walk.count(inner) == {"files": 2, "functions": 6, "jumps": 3}


def test_a_command_that_fails_is_not_a_measurement(toy, tmp_path):
    with pytest.raises(SystemExit, match="3 1 failed with code 3"):
        walk.record(toy, ["3", "1"], tmp_path, package="toy")


def test_modules_that_import_each_other_are_a_cycle_inside_functions_too(tmp_path):
    texts = {
        "__init__": "",
        "a": "from p import b",
        "b": "def later():\n    from p.c import name\n",
        "c": "import p.a\nimport p.d",
        "d": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.e import Name\nelse:\n    import p.f",
        "e": "from p.d import name",
        "f": "import os\nfrom p.f import itself",
    }
    for name, text in texts.items():
        (tmp_path / "p").mkdir(exist_ok=True)
        (tmp_path / "p" / f"{name}.py").write_text(text, encoding="utf-8")
    graph = import_graph(tmp_path / "p", with_annotations=False)
    assert graph["p.c"] == {"p.a", "p.d"}
    assert graph["p.d"] == {"p.f"}
    assert import_cycles(graph) == [("p.a", "p.b", "p.c")]
    assert import_cycles(import_graph(tmp_path / "p", with_annotations=True)) == [("p.a", "p.b", "p.c"), ("p.d", "p.e")]


def test_results_of_another_source_tree_stand_beside_the_stored_ones(tmp_path):
    path = tmp_path / "walk.json"
    before = {"commands": {"`predict`": {"files": 7, "functions": 40, "jumps": 30}}, "source": {"Python files": 404}}
    after = {"commands": {"`predict`": {"files": 5, "functions": 38, "jumps": 11}}, "source": {"Python files": 300}}
    for label, results in (("after", after), ("before", {}), ("before", before)):
        walk.store(label, {"commands": {}, "source": {}} | results, path)
    walk.store("plain", {"commands": {"`predict`": {"files": 3, "functions": 20, "jumps": 9}}, "source": {}}, path)
    stored = json.loads(path.read_text(encoding="utf-8"))["tables"]
    assert stored["source"]["rows"] == [{"count": "Python files", "before": 404, "after": 300}]
    (row,) = stored["commands"]["rows"]
    assert row["files before"] == 7
    assert row["jumps after"] == 11
    assert row["jumps plain"] == 9


@pytest.mark.long
@pytest.mark.timeout(400)  # the first prediction on a machine compiles C++ code
def test_the_commands_are_measured_on_the_source_of_today():
    calls = walk.measure_commands(walk.ROOT)
    counts = {title: walk.count(each) for title, each in calls.items()}
    assert [*counts] == ["`train translate`", walk.STEP_ROW, "`predict`", "`eval`", "`train classify-image`"]
    step, training = calls[walk.STEP_ROW], calls["`train translate`"]
    assert pairs(step["functions"]) < pairs(training["functions"])
    assert counts[walk.STEP_ROW]["files"] >= 10
    names = {name for _, name in step["functions"]}
    assert {"TransformerEncoder.forward", "NextToken.loss"} <= names
    assert "Trainer.evaluation_model" in {name for _, name in training["functions"]} - names
    assert walk.measure_source(walk.ROOT)["Python files"] > 100
