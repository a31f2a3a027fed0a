"""Runs that were damaged or made to mislead: names, links, pipes, and documents that are no documents."""

from __future__ import annotations

import errno
import os

import pytest

from seq2see.cli.app import run as command
from seq2see.core.documents import read_json, read_regular
from seq2see.core.errors import UserError, printable
from seq2see.data.readers.data_report import DataReport
from seq2see.data.readers.lines import read_lines
from seq2see.recipes.registry import recipe
from seq2see.runs.run_folder import RunFolder
from seq2see.training import loop
from seq2see.training.loop import MetricsLogger, read_metrics


@pytest.mark.parametrize("name", ["../../X", "/tmp/X", "a\\b", ".hidden", "..", "", " ", "a\x1b[2J", "n" * 101])
def test_the_name_of_a_recipe_leads_to_no_other_folder(name):
    with pytest.raises(UserError, match="is no name of a folder") as caught:
        recipe("pocket-rnn").with_(name=name)
    assert "\x1b" not in str(caught.value)
    assert recipe("pocket-rnn").with_(name="我的 run.2").name == "我的 run.2"


@pytest.mark.parametrize("name", ["eval", "samples", "eval/scores.json"])
def test_links_in_a_run_are_refused(tmp_path, name):
    run = RunFolder(tmp_path / "run")
    (run.path / name).parent.mkdir(parents=True)
    run.refuse_links()
    (run.path / name).symlink_to(tmp_path)
    with pytest.raises(UserError, match="This is a link, and a run has no links"):
        run.refuse_links()


def test_a_pipe_and_a_device_are_refused_before_they_are_read(tmp_path):
    os.mkfifo(tmp_path / "a.tsv")
    report = DataReport()
    assert list(read_lines(tmp_path / "a.tsv", report)) == []
    assert report.first_error.message == "This is a pipe, and not a regular file."
    with pytest.raises(UserError, match="This is a pipe"):
        read_regular(tmp_path / "a.tsv")
    (tmp_path / "config.json").symlink_to("/dev/zero")
    with pytest.raises(UserError, match="This is a device"):
        read_json(tmp_path / "config.json")
    assert command(["predict", str(tmp_path), "text"]) == 2


@pytest.mark.parametrize("content", ["[" * 100_000, "1" * 5000, "{", b"\xff".decode("latin-1")])
def test_json_that_no_parser_likes_is_one_sentence(tmp_path, content):
    (tmp_path / "a.json").write_text(content, encoding="latin-1")
    with pytest.raises(UserError, match="This is not valid JSON") as caught:
        read_json(tmp_path / "a.json")
    assert len(str(caught.value)) < 500


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    (tmp_path / "a.json").write_bytes(b"1234567")
    assert read_regular(tmp_path / "a.json", limit=7) == b"1234567"
    with pytest.raises(UserError, match="7 bytes, and at most 6"):
        read_regular(tmp_path / "a.json", limit=6)


def test_no_terminal_obeys_a_file_name(tmp_path, capsys):
    path = tmp_path / "a\x1b[2J\u202e.tsv"
    path.write_text("a\n", encoding="utf-8")
    assert command(["data", "check", str(path)]) == 2
    assert command(["data", "check", str(path) + "x"]) == 2
    shown = "".join(capsys.readouterr())
    assert "\\x1b[2J\\u202e" in shown
    assert not {"\x1b", "\u202e"} & set(shown)
    assert printable("a\nb") == "a\nb"


@pytest.mark.parametrize("line", ['{"step": null}', "[" * 100_000, '{"step": 1e999}', "3", "\x00"])
def test_one_damaged_run_does_not_hide_the_others(tmp_path, monkeypatch, capsys, line):
    monkeypatch.chdir(tmp_path)
    for name, content in (("good", '{"step": 7, "loss": 1.0}'), ("bad", line)):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "recipe.toml").write_text(recipe("pocket-rnn").toml(), encoding="utf-8")
        (tmp_path / "runs" / name / "metrics.jsonl").write_text(content + "\n", encoding="utf-8")
    assert command(["runs"]) == 0
    shown = capsys.readouterr()
    assert "runs/good" in shown.out
    assert "damaged" in shown.out
    assert "Line 1 of this log is damaged" in shown.err


def test_an_altered_metrics_log_is_noticed_when_the_run_resumes(tmp_path):
    lines = [f'{{"step": {step}, "loss": 1.0}}' for step in range(1, 9)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    warnings = []
    MetricsLogger(tmp_path, 8, warnings.append)
    assert not warnings
    lines[2:4] = ["damaged"]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    MetricsLogger(tmp_path, 8, warnings.append)
    assert "1 damaged lines were removed" in warnings[0]
    assert "the metrics of 2 of 8 steps are missing" in warnings[1]
    assert len(read_metrics(tmp_path / "metrics.jsonl")) == 6


def test_a_full_disk_does_not_stop_the_training_at_its_metrics(tmp_path, monkeypatch):
    warnings, append = [], loop._append

    def full(path, text):
        raise OSError(errno.ENOSPC, "No space left on device")

    logger = MetricsLogger(tmp_path, 0, warnings.append)
    logger.log(1, loss=1.0)
    monkeypatch.setattr(loop, "_append", full)
    logger.flush(1)
    assert "metrics.jsonl: The metrics cannot be written (No space left on device)" in warnings[0]
    logger.log(2, loss=2.0)
    with pytest.raises(UserError, match="cannot be written") as caught:
        logger.flush(2, last=True)
    assert caught.value.location == str(tmp_path / "metrics.jsonl")
    monkeypatch.setattr(loop, "_append", append)
    logger.flush(2)
    assert [row["step"] for row in read_metrics(tmp_path / "metrics.jsonl")] == [1, 2]
