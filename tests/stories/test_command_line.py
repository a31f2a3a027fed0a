"""The commands as a user types them: their output, and their errors."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from tiny_recipes import write_pairs

from seq2see.cli import app as command
from seq2see.cli.app import run
from seq2see.data.catalogue import corpus_files
from seq2see.runs import train as training
from seq2see.training.loop import Interrupted

TINY = ["training.steps=3", "training.evaluate_every=2", "training.batch_tokens=256"]
TINY += [f"{side}.{key}" for side in ("encoder", "decoder") for key in ("width=16", "depth=1")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with a file of pairs."""
    write_pairs(tmp_path / "my.tsv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def settings() -> list[str]:
    return [word for setting in TINY for word in ("--set", setting)]


def test_train_evaluate_and_predict(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    assert run(["train", "pocket-transformer", "my.tsv", *settings()]) == 0
    printed = capsys.readouterr().out
    assert "data   train" in printed
    assert "valid loss" in printed
    assert "seq2see predict runs/pocket-transformer" in printed
    for name in ("recipe.toml", "env.json", "metrics.jsonl", "curves.png", "report.html", "data_report.json"):
        assert (folder / "runs" / "pocket-transformer" / name).stat().st_size > 0, name

    stored = tomllib.loads((folder / "runs" / "pocket-transformer" / "recipe.toml").read_text(encoding="utf-8"))
    assert stored["corpus"]["paths"] == [str(folder / "my.tsv")]  # it can be trained from any folder

    assert run(["eval", "latest"]) == 0
    assert "sacreBLEU signature\n  nrefs:1|case:mixed" in capsys.readouterr().out

    assert run(["predict", "latest", "红猫", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["source"] == "红猫"
    assert len(output["outputs"]) == 1

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("红猫\n\n黑狗\n".encode())))
    assert run(["predict", "latest", "--set", "decoding.num_beams=2"]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert len(lines) == 4
    assert lines[1] == ""  # an empty line has an empty output

    assert run(["runs"]) == 0
    assert "finished" in capsys.readouterr().out
    assert run(["train", "pocket-transformer", "my.tsv", *settings()]) == 0  # a finished run is not changed
    assert (folder / "runs" / "pocket-transformer-2").is_dir()


def test_a_dry_run_explains_and_trains_nothing(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["train", "pocket-transformer", "my.tsv", "--dry-run", *settings()]) == 0
    printed = capsys.readouterr().out
    assert "weights in total" in printed
    assert "<bos> the" in printed
    assert "minutes for 3 steps" in printed
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("trian x", "There is no command 'trian'. Did you mean 'train'?"),
        ("show pocket-transfomer", "There is no recipe 'pocket-transfomer'. Did you mean 'pocket-transformer'?"),
        ("train multi30k-ensemble", "made of finished runs: `seq2see ensemble RUN RUN`."),
        ("train translate mi.tsv", "mi.tsv: There is no such file. Did you mean 'my.tsv'?"),
        ("train translate --set training.step=3", "training: There is no setting 'step'. Did you mean 'steps'?"),
        ("train translate --set encoder.kind=transformr", "There is no kind 'transformr'. Did you mean 'transformer'?"),
        ("train translate --set training.steps=many", "'training.steps' cannot be 'many'"),
        ("train translate --set encoder.width=10", "encoder.width 10 must be a multiple of twice its 4 heads"),
        ("train translate --set steps", "'steps' is not a setting."),
        ("train nothing.toml", "nothing.toml: There is no such file."),
        ("predict runs/none x", "There is no run 'runs/none'."),
        ("predict latest x --file my.tsv", "Texts and --file cannot be combined. Leave one"),
        ("train translate my.tsv --out /proc/x", "/proc/x: This cannot be written or read (No such file or directory)"),
        (
            "predict . x",
            ".: This folder has neither the recipe.toml of a run nor the config.json of a pretrained model.",
        ),
        ("data get multi31k", "There is no corpus 'multi31k'. Did you mean 'multi30k'?"),
        ("data check my.tzv", "my.tzv: There is no such file. Did you mean 'my.tsv'?"),
        ("train translate my.tsv my.tsv my.tsv", "Pairs are read from one file or two, not from 3."),
        ("data check my.tsv --task wrte", "There is no recipe 'wrte'. Did you mean 'write'?"),
        ("train", "Missing argument"),
        ("train translate --owt x", "No such option: --owt"),
        ("diff pocket-gru pocket-gro", "Did you mean 'pocket-gru'?"),
    ],
)
def test_an_error_is_reported_in_one_sentence(
    command: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
):
    assert run(command.split()) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.startswith("seq2see: ")
    assert printed.err.count("\n") == 1
    assert "Traceback" not in printed.err


@pytest.mark.parametrize("name", ["data check", "train classify-image", "predict"])
def test_an_impossible_path_is_reported(name: str, folder: Path, capsys: pytest.CaptureFixture[str]):
    assert run([*name.split(), "a" * 5000]) == 2  # as in a locked folder, but no folder is locked for root
    printed = capsys.readouterr().err
    assert printed.startswith("seq2see: aaa")
    assert "Check the path" in printed


def test_an_interrupted_command_has_the_exit_code_130(monkeypatch: pytest.MonkeyPatch):
    def stopped(**words: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "app", stopped)
    assert run(["recipes"]) == 130  # as in shells: 128 plus the signal number


def test_an_interrupted_training_prints_how_to_resume_and_exits_with_its_signal(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def stopped(*anything: object) -> None:
        raise Interrupted(signal.SIGTERM, 7)

    monkeypatch.setattr(training, "train_recipe", stopped)
    assert run(["train", "translate", "my.tsv", *settings()]) == 128 + signal.SIGTERM
    assert "stopped at step 7" in capsys.readouterr().out


def test_a_corpus_with_a_changed_file_has_the_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    for status, code in (("verified", 0), ("unpinned", 0), ("mismatch", 2)):
        found = [SimpleNamespace(status="verified", path="a"), SimpleNamespace(status=status, path="b")]
        monkeypatch.setattr(corpus_files, "check", lambda name, found=found: found)
        assert run(["data", "check", "multi30k"]) == code
        assert f"{status:<10} b" in capsys.readouterr().out


BUFFERING = pytest.mark.parametrize("unbuffered", ["1", ""], ids=["unbuffered", "buffered"])


@BUFFERING
def test_closed_and_full_streams_give_no_traceback(unbuffered: str, folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    assert run(["train", "translate", "my.tsv", *settings()]) == 0

    def shell(command: str) -> tuple[int, str]:
        line = ["sh", "-c", f'"$0" -m seq2see predict latest {command}', sys.executable]
        done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stderr

    assert shell("<&-") == (0, "")
    assert shell("红猫 >&-") == (0, "")
    assert shell("--file my.tsv 2>&-") == (0, "")
    code, error = shell("红猫 > /dev/full")
    assert code == 2
    assert error.startswith("seq2see: The output cannot be written or read (No space left on device).")
    assert error.count("\n") == 1


def test_a_text_that_names_a_file_gives_a_warning(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["train", "translate", "my.tsv", *settings()]) == 0
    capsys.readouterr()
    assert run(["predict", "latest", "my.tsv", "红猫"]) == 0
    printed = capsys.readouterr()
    assert printed.err.count("is treated as a text") == 1
    assert "--file my.tsv" in printed.err
    assert printed.out.count("\n") == 2


@pytest.mark.parametrize("command", [[], ["data"]])
def test_a_group_without_a_command_shows_its_commands(command: list[str], capsys: pytest.CaptureFixture[str]):
    assert run(command) == 2
    printed = capsys.readouterr()
    assert (printed.out + printed.err).startswith("Usage: seq2see")
    assert "--help`" not in printed.err


BAD_FILES = {
    "two counts": ({"a.txt": b"x\ny\nz\n", "b.txt": b"x\ny\n"}, ["a.txt", "b.txt"], "3 lines"),
    "one side empty": ({"a.tsv": b"a\tb\nc\t\nd\te\n"}, ["a.tsv"], "a.tsv:2"),
    "invalid UTF-8": ({"a.tsv": b"a\tb\nc\xff\td\n"}, ["a.tsv"], "a.tsv:2:2"),
    "NUL": ({"a.tsv": b"a\tb\nc\0\td\n"}, ["a.tsv"], "a.tsv:2:2"),
    "a 1 MB line": ({"a.tsv": b"a\tb\n" + b"x" * 1_100_000 + b"\td\n"}, ["a.tsv"], "a.tsv:2"),
    "a missing column": ({"a.tsv": b"a\tb\nc\nd\te\n"}, ["a.tsv"], "a.tsv:2"),
    "an empty file": ({"a.tsv": b""}, ["a.tsv"], "0 lines"),
    "one pair": ({"a.tsv": b"a\tb\n"}, ["a.tsv"], "at least 3 are needed"),
    "a missing key": ({"a.jsonl": b'{"source": "a"}\n'}, ["a.jsonl"], "target"),
    "UTF-16": ({"a.tsv": "a\tb\n".encode("utf-16")}, ["a.tsv"], "UTF-16"),
    "a cut archive": ({"a.tsv.gz": b"\x1f\x8b\x08\0\0\0\0\0\0\x03KL"}, ["a.tsv.gz"], "a.tsv.gz"),
    "a folder": ({}, ["."], "."),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_data_are_named_with_file_and_line(case: str, folder: Path, capsys: pytest.CaptureFixture[str]):
    files, names, message = BAD_FILES[case]
    for name, content in files.items():
        (folder / name).write_bytes(content)
    assert run(["train", "translate", *names]) == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert printed.count("\n") == 1
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(
    ("name", "content", "task", "message", "code"),
    [
        ("书.txt", "从前有一座山。\n山里有一座庙。\n", [], "checked as running text", 0),
        ("词.conllu", "1\t猫\t_\tNOUN\t_\t_\t_\t_\t_\t_\n", [], "1 sentences read = 1 kept", 0),
        ("词.conllu", "1\t猫\tNOUN\n", [], "词.conllu:1: This word has 3 columns", 2),
        ("a.txt", "I PRON\nsee\n", ["--task", "tag"], "a.txt:2: This word has 1 columns", 2),
        ("a.csv", "1\nx\n", ["--task", "forecast"], "a.csv:2: 'x' is not a number", 2),
        (
            "a.tsv",
            "很长的文本很长的文本很长的文本\t好\n",
            ["--task", "classify-text"],
            "checked as texts with labels",
            0,
        ),
    ],
)
def test_any_data_can_be_checked(name, content, task, message, code, folder: Path, capsys: pytest.CaptureFixture[str]):
    (folder / name).write_text(content, encoding="utf-8")
    assert run(["data", "check", name, *task]) == code
    printed = capsys.readouterr().out
    assert message in printed
    assert "length ratio" not in printed


@pytest.mark.parametrize(
    ("name", "content", "task", "message"),
    [
        ("a.txt", "To be, or not to be,\n" * 4, ["--task", "write"], "has 76 tokens: too few for two windows of 128."),
        ("a.txt", "To be, or not to be,\n" * 4, [], "has 76 tokens: too few for two windows of 128."),
        ("a.txt", "猫和狗\n", [], "4 characters cannot be split into train, valid and test."),
        ("a.csv", "1\n2\n3\n", ["--task", "forecast"], "There are 3 values"),
    ],
)
def test_data_check_reports_short_data_as_training_does(name, content, task, message, folder: Path, capsys):
    (folder / name).write_text(content, encoding="utf-8")
    assert run(["train", *(task[1:] or ["write"]), name]) == 2
    assert message in capsys.readouterr().err
    assert run(["data", "check", name, *task]) == 0
    assert message in capsys.readouterr().out


def test_data_check_does_not_report_unreadable_data_as_too_short(folder: Path, capsys: pytest.CaptureFixture[str]):
    (folder / "a.txt").write_bytes(b"fine\n" * 9)
    (folder / "b.txt").write_bytes(b"caf\xe9\n")
    assert run(["data", "check", "a.txt", "b.txt", "--task", "write"]) == 2
    printed = capsys.readouterr().out
    assert "b.txt:1:4: The byte 0xE9 is not UTF-8 here" in printed
    assert "too small to split" not in printed


@pytest.mark.parametrize("content", [b"\xef\xbb\xbf", b""], ids=["with BOM", "without"])
def test_line_ends_and_marks_are_repaired_and_counted(content: bytes, folder: Path):
    text = (folder / "my.tsv").read_bytes().replace(b"\n", b"\r\n")
    (folder / "dos.tsv").write_bytes(content + text)
    assert run(["train", "pocket-transformer", "dos.tsv", *settings()]) == 0
    report = json.loads((folder / "runs" / "pocket-transformer" / "data_report.json").read_text(encoding="utf-8"))
    assert "CRLF line endings" in json.dumps(report)
    assert ("byte order mark" in json.dumps(report)) == bool(content)
    predictions = (folder / "runs" / "pocket-transformer" / "samples" / "step-000002.tsv").read_text(encoding="utf-8")
    assert "\r" not in predictions
    assert "\ufeff" not in predictions


@BUFFERING
@pytest.mark.parametrize("name", ["recipes", "show pocket-gru", "--version"])
def test_a_closed_output_pipe_is_no_error(name: str, unbuffered: str, monkeypatch: pytest.MonkeyPatch):
    """As in `seq2see recipes | head -1`: the reader closes the pipe early."""
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    reader, writer = os.pipe()
    os.close(reader)
    found = subprocess.run([sys.executable, "-m", "seq2see", *name.split()], stdout=writer, stderr=-1, timeout=60)
    os.close(writer)
    assert (found.returncode, found.stderr) == (0, b"")


def test_recipes_and_settings_are_explained(capsys: pytest.CaptureFixture[str]):
    assert run(["recipes"]) == 0
    assert "pocket-gru-attention" in capsys.readouterr().out
    assert run(["show", "pocket-rnn"]) == 0
    shown = capsys.readouterr().out
    assert "training.steps = " in shown
    assert "    Number of optimizer steps." in shown
    assert run(["diff", "pocket-gru", "pocket-gru-reset-before"]) == 0
    assert "encoder.cell: gru | gru-reset-before" in capsys.readouterr().out
    assert run(["diff", "classify-image", "classify-image-hybrid"]) == 0
    lines = capsys.readouterr().out.splitlines()  # 4 and 4.0 are the same
    assert {line.partition(":")[0].rpartition(".")[0] for line in lines} == {"", "source.embedding"}


def test_a_saved_recipe_can_replace_a_name(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["show", "pocket-lstm", "--toml"]) == 0
    (folder / "mine.toml").write_text(capsys.readouterr().out, encoding="utf-8")
    assert run(["diff", "mine.toml", "pocket-lstm"]) == 0
    assert capsys.readouterr().out == ""
    (folder / "mine.toml").write_text((folder / "mine.toml").read_text().replace("steps =", "stops ="))
    assert run(["show", "mine.toml"]) == 2
    assert "mine.toml: There is no setting 'stops'. Did you mean 'steps'?" in capsys.readouterr().err


def test_runs_are_listed_with_their_full_names(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("multi30k-transformer", "multi30k-lstm-attention"):
        (folder / "runs" / name).mkdir(parents=True)
        assert run(["show", "multi30k-lstm-attention", "--toml"]) == 0
        (folder / "runs" / name / "recipe.toml").write_text(capsys.readouterr().out, encoding="utf-8")
        (folder / "runs" / name / "eval").mkdir()
        (folder / "runs" / name / "eval" / "scores.json").write_text('{"test": {"bleu": {"value": 41.6}}}')
    assert run(["runs"]) == 0
    printed = capsys.readouterr().out
    for name in ("multi30k-transformer", "multi30k-lstm-attention"):
        assert f"runs/{name} " in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_the_doctor_reports_whether_native_code_is_used(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SEQ2SEE_NATIVE", "0")
    assert run(["doctor"]) == 0
    assert "native code   none, so decoding on a CPU is slower: it is switched off by SEQ2SEE_NATIVE=0" in (
        capsys.readouterr().out
    )


IMPORTED = """
import gc
from seq2see.core.startup import importing
before = gc.get_freeze_count()
with importing():
    assert not gc.isenabled()
    import torch
assert gc.isenabled()
assert gc.get_freeze_count() > before + 10_000
frozen = gc.get_freeze_count()
gc.disable()
with importing():
    import seq2see.api
assert not gc.isenabled() and gc.get_freeze_count() <= frozen
"""


def test_imports_run_without_garbage_collection():
    subprocess.run([sys.executable, "-c", IMPORTED], check=True, timeout=60)
