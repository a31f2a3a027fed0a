"""The name that a run has in the page's Python: as it was named, and never where on this machine it lies."""

from __future__ import annotations

from tiny_workspace import unfinished_run

from seq2see.explorer.describe import listed
from seq2see.explorer.workspace import Workspace


def test_a_run_is_named_as_its_user_named_it_and_of_a_full_path_by_the_last_part(tmp_path, monkeypatch):
    unfinished_run(tmp_path / "shelf" / "half-done")
    monkeypatch.chdir(tmp_path)
    names = [str(tmp_path / "shelf" / "half-done"), "shelf/half-done"]
    assert [run["load_name"] for run in listed(Workspace.open(names))["runs"]] == ["half-done", "shelf/half-done"]
