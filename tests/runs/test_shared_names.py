"""A recipe and a run of one name: the commands of recipes mean the recipe, and name the run."""

from __future__ import annotations

import pytest

from seq2see.cli.app import run as command
from seq2see.recipes.registry import recipe


@pytest.fixture(autouse=True)
def run_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs" / "pocket-rnn"
    folder.mkdir(parents=True)
    (folder / "recipe.toml").write_text(recipe("pocket-rnn").with_(**{"training.steps": 7}).toml(), encoding="utf-8")


def test_diff_compares_the_recipe_and_names_the_run(capsys):
    assert command(["diff", "pocket-rnn", "runs/pocket-rnn"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("training.steps: ")
    assert shown.out.endswith("| 7\n")
    assert "'pocket-rnn' is the built-in recipe here; the run of this name is runs/pocket-rnn" in shown.err


def test_show_names_the_run_too(capsys):
    assert command(["show", "pocket-rnn"]) == 0
    assert "the run of this name is runs/pocket-rnn, its recipe runs/pocket-rnn/recipe.toml" in capsys.readouterr().err
    assert command(["show", "pocket-gru"]) == 0
    assert capsys.readouterr().err == ""
