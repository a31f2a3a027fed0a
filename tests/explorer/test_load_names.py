"""The name of a run in the Python code of the page: never an absolute path."""

from __future__ import annotations

from tiny_workspace import unfinished_run

from seq2see.explorer.routes import list_runs
from seq2see.explorer.workspace import Workspace


def test_a_relative_path_is_kept_and_of_an_absolute_path_only_the_last_part(tmp_path, monkeypatch):
    unfinished_run(tmp_path / "folder" / "half-done")
    monkeypatch.chdir(tmp_path)
    names = [str(tmp_path / "folder" / "half-done"), "folder/half-done"]
    assert [run["load_name"] for run in list_runs(Workspace.open(names))["runs"]] == ["half-done", "folder/half-done"]
