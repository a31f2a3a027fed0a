"""The name that a run has in the page's Python: as it was named, and never where on this machine it lies."""

from __future__ import annotations

from benches import unfinished

from seq2see.explorer.bench import Bench
from seq2see.explorer.describe import listed


def test_a_run_is_named_as_its_user_named_it_and_of_a_full_path_by_the_last_part(tmp_path, monkeypatch):
    unfinished(tmp_path / "shelf" / "half-done")
    monkeypatch.chdir(tmp_path)
    names = [str(tmp_path / "shelf" / "half-done"), "shelf/half-done"]
    assert [run["loads"] for run in listed(Bench.open(names))["runs"]] == ["half-done", "shelf/half-done"]
