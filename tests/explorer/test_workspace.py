"""What lies on the bench: runs that are read at once, by names that say nothing of this machine, and what is kept."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_workspace import evaluated_run, image_classifier, opened_run, unfinished_run

from seq2see.core.errors import UserError
from seq2see.explorer import workspace as module
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.sources.image_examples import ImageExamples


def test_a_damaged_model_is_told_before_anything_is_served(tmp_path):
    with pytest.raises(UserError, match=r"config\.json"):
        Workspace.open([str(evaluated_run(tmp_path / "run").path)])


def test_real_weights_have_no_recipe():
    with pytest.raises(UserError, match="no recipe"):
        opened_run("r1", "weights", image_classifier()).recipe  # noqa: B018 - it is asked for


def test_images_are_told_by_their_folder_and_file(tmp_path, monkeypatch):
    pixels = np.zeros((1, 8, 8, 3), np.uint8)
    found = ImageExamples(pixels, ("cat",), (str(tmp_path / "photos" / "cat" / "3.png"),))
    monkeypatch.setattr(module, "evaluation_examples", lambda recipe: found)
    run = OpenRun("r1", "run", unfinished_run(tmp_path / "run", "classify-image"), tmp_path)
    assert [example.source for example in run.test_examples] == ["cat/3.png"]


def test_a_place_within_another_is_told_by_its_own_name():
    runs = {name: OpenRun(name, name, None, Path(f"/x/{name}")) for name in ("a", "a/b")}
    assert list(Workspace(runs).path_names.items()) == [("/x/a/b", "a/b"), ("/x/a", "a")]


def test_the_one_thing_that_is_asked_for_is_kept_however_large_it_is():
    on, made = Workspace({}), []
    for _ in range(2):
        on.cached("a", lambda: made.append(1) or SimpleNamespace(bytes=1 << 40))
    assert made == [1]


def test_a_run_is_called_by_its_folder_also_from_within(tmp_path, monkeypatch):
    monkeypatch.chdir(unfinished_run(tmp_path / "half-done").path)
    assert Workspace.open(["."]).run("r1").name == "half-done"


def test_real_weights_are_a_run_without_a_folder(monkeypatch):
    monkeypatch.setattr(module, "is_real", lambda path: path.name == "bert")
    found = module._found("r2", "weights/bert")
    assert (found.id, found.name, found.folder, found.loads) == ("r2", "bert", None, "weights/bert")
    assert found.weights == Path("weights/bert")
