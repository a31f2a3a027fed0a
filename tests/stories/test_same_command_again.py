"""The same training command again: after a finished run, and after a kill between its model and its report."""

from __future__ import annotations

import pytest
from tiny_recipes import tiny_recipe, write_pairs

from seq2see.cli.app import run as command
from seq2see.cli.predict import decoding_setting
from seq2see.core.errors import UserError


@pytest.fixture
def recipe_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "tiny.toml"
    path.write_text(tiny_recipe(write_pairs(tmp_path / "my.tsv"), name="tiny").toml(), encoding="utf-8")
    return path


def test_a_finished_run_is_not_trained_again_in_its_folder(recipe_file, tmp_path, capsys):
    first = ["train", str(recipe_file), "--out", "runs/a"]
    assert command(first) == 0
    metrics = (tmp_path / "runs/a/metrics.jsonl").stat().st_mtime_ns
    for again in (first, ["train", "runs/a/recipe.toml", "--out", "runs/a"]):
        capsys.readouterr()
        assert command(again) == 0
        assert "runs/a is finished; there is nothing to do" in capsys.readouterr().out
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["a"]
    assert (tmp_path / "runs/a/metrics.jsonl").stat().st_mtime_ns == metrics
    assert command([*first, "--set", "training.steps=3"]) == 0  # another recipe
    assert "runs/a has another run; this one is runs/a-2" in capsys.readouterr().out


def test_a_kill_between_model_and_report_leaves_only_the_report_to_write(recipe_file, tmp_path, capsys):
    assert command(["train", str(recipe_file)]) == 0
    (tmp_path / "runs/tiny/report.html").unlink()
    assert command(["train", str(recipe_file)]) == 0
    assert "runs/tiny is finished; there is nothing to do" in capsys.readouterr().out
    assert (tmp_path / "runs/tiny/report.html").exists()
    assert command(["train", str(recipe_file)]) == 0  # a further run, as always
    assert (tmp_path / "runs/tiny-2/report.html").exists()


def test_a_setting_of_the_trained_model_is_named_as_such():
    with pytest.raises(UserError, match=r"'source\.max_tokens' belongs to the trained model") as caught:
        decoding_setting("source.max_tokens=9")
    assert "Train another run with --set source.max_tokens=9" in caught.value.hint
