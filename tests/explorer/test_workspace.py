"""The workspace: runs are loaded when it is opened, names contain no paths, and values are cached."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_workspace import evaluated_run, image_classifier, opened_run, unfinished_run

from seq2see.core.errors import UserError
from seq2see.data.examples import ImageExamples
from seq2see.explorer import workspace as module
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.tasks.classify_image import ClassifyImage


def test_a_damaged_model_is_an_error_when_the_workspace_is_opened(tmp_path):
    with pytest.raises(UserError, match=r"config\.json"):
        Workspace.open([str(evaluated_run(tmp_path / "run").path)])


def test_pretrained_weights_have_no_recipe():
    with pytest.raises(UserError, match="no recipe"):
        opened_run("r1", "weights", image_classifier()).recipe  # noqa: B018 - a property


def test_images_are_named_by_their_folder_and_file(tmp_path, monkeypatch):
    pixels = np.zeros((1, 8, 8, 3), np.uint8)
    examples = ImageExamples(pixels, ("cat",), (str(tmp_path / "photos" / "cat" / "3.png"),))
    monkeypatch.setattr(ClassifyImage, "evaluation_examples", lambda task, recipe: examples)
    run = OpenRun("r1", "run", unfinished_run(tmp_path / "run", "classify-image"), tmp_path)
    assert [example.source for example in run.test_examples] == ["cat/3.png"]


def test_a_nested_path_becomes_its_own_name():
    runs = {name: OpenRun(name, name, None, Path(f"/x/{name}")) for name in ("a", "a/b")}
    assert list(Workspace(runs).path_names.items()) == [("/x/a/b", "a/b"), ("/x/a", "a")]


def test_a_single_value_is_cached_even_if_it_is_large():
    opened, computed = Workspace({}), []
    for _ in range(2):
        opened.cached("a", lambda: computed.append(1) or SimpleNamespace(bytes=1 << 40))
    assert computed == [1]


def test_a_run_is_named_by_its_folder_also_from_within_it(tmp_path, monkeypatch):
    monkeypatch.chdir(unfinished_run(tmp_path / "half-done").path)
    assert Workspace.open(["."]).run("r1").name == "half-done"


def test_pretrained_weights_are_a_run_without_a_folder(monkeypatch):
    monkeypatch.setattr(module, "is_pretrained", lambda path: path.name == "bert")
    run = module._open_run("r2", "weights/bert")
    assert (run.id, run.name, run.folder, run.load_name) == ("r2", "bert", None, "weights/bert")
    assert run.weights == Path("weights/bert")
