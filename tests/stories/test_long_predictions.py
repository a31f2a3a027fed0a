"""`seq2see predict` on thousands of lines: killed, stopped and resumed, with a progress meter."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny_recipes import ANIMALS, COLORS, tiny_recipe, write_pairs

from seq2see.cli.app import run
from seq2see.cli.progress_meter import Meter
from seq2see.runs.batch_inference import OutputFile, Progress
from seq2see.runs.load import load
from seq2see.runs.train import train_recipe
from seq2see.tasks import model_folder


class Silent:
    def log(self, text: str) -> None: ...
    def step(self, step: int, metrics: dict[str, float]) -> None: ...


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model in `run`, and 3,000 lines in `in.txt`, some of them empty."""
    folder = tmp_path_factory.mktemp("long")
    recipe = tiny_recipe(write_pairs(folder / "my.tsv"), **{"training.steps": 2, "decoding.max_new_tokens": 4})
    train_recipe(recipe, folder / "run", Silent())
    draw, letters = random.Random(3), [*ANIMALS, *COLORS]
    lines = ["".join(draw.choices(letters, k=draw.randint(0, 9))) for _ in range(3000)]
    (folder / "in.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def predict(folder: Path, out: str, *more: str, lines: str = "in.txt") -> list[str]:
    return ["predict", str(folder / "run"), "-f", str(folder / lines), "--out", str(folder / out), *more]


@pytest.fixture(scope="module")
def whole(folder: Path) -> bytes:
    """What one uninterrupted call writes."""
    assert run(predict(folder, "whole.txt", "--json")) == 0
    return (folder / "whole.txt").read_bytes()


def start(arguments: list[str]) -> multiprocessing.Process:
    """Run a command in a forked process, which does not have to import torch.

    It sleeps after every window, so that it does not end before the test sends a signal.
    """

    def slowly() -> None:
        write = OutputFile.write

        def write_and_sleep(self: OutputFile, *arguments: object) -> None:
            write(self, *arguments)
            time.sleep(0.1)

        OutputFile.write = write_and_sleep
        signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
        sys.exit(run(arguments))

    child = multiprocessing.get_context("fork").Process(target=slowly)
    child.start()
    return child


def wait_for_more(path: Path, child: multiprocessing.Process) -> None:
    """Wait until the file has grown, or the process has ended."""
    size = path.stat().st_size if path.exists() else 0
    while child.is_alive() and (not path.exists() or path.stat().st_size <= size):
        time.sleep(0.001)


def test_after_several_kills_it_ends_with_the_same_bytes(folder: Path, whole: bytes):
    draw, out, kills = random.Random(1), folder / "killed.txt", []
    while len(kills) < 4:
        child = start(predict(folder, "killed.txt", "--json"))
        if len(kills) % 2:  # after a write; otherwise at any moment
            wait_for_more(out, child)
        time.sleep(draw.uniform(0.0, 0.12))
        child.kill()
        child.join()
        kills.append(out.stat().st_size if out.exists() else 0)
        if child.exitcode == 0:
            break
    assert kills == sorted(kills)  # never less than before
    assert 0 < kills[-1] < len(whole), "it was killed half-way"
    assert run(predict(folder, "killed.txt", "--json")) == 0
    assert out.read_bytes() == whole
    assert not list(folder.glob("*killed.txt.*"))


@pytest.mark.long
def test_killed_as_a_program_it_ends_with_the_same_bytes(folder: Path, whole: bytes):
    program = [Path(sys.executable).with_name("seq2see"), *predict(folder, "program.txt", "--json")]
    draw, out = random.Random(2), folder / "program.txt"
    for _ in range(8):
        child = subprocess.Popen(program, stderr=subprocess.PIPE)
        deadline = time.monotonic() + draw.uniform(1.0, 4.0)
        while child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        child.kill()
        child.communicate()
        # It may be killed after the last write, before its exit.
        if child.returncode == 0 or (out.exists() and out.read_bytes() == whole):
            break
    else:
        assert subprocess.run(program, check=False, capture_output=True).returncode == 0
    assert out.read_bytes() == whole


def test_a_pipe_gives_the_outputs_of_a_file(folder: Path, whole: bytes, capsysbinary, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((folder / "in.txt").read_bytes())))
    assert run(["predict", str(folder / "run"), "--json"]) == 0
    assert capsysbinary.readouterr().out == whole


def test_resuming_with_another_setting_is_refused(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch):
    out = folder / "other.txt"
    child = start(predict(folder, "other.txt"))
    wait_for_more(out, child)
    child.kill()
    child.join()
    before = out.read_bytes()
    assert run(predict(folder, "other.txt", "--set", "decoding.max_new_tokens=3")) == 2
    error = capsys.readouterr().err
    assert "started with decoding.max_new_tokens = 4, and now decoding.max_new_tokens = 3." in error
    assert "To start again, delete it" in error
    assert run(predict(folder, "other.txt", "--prefix", "the")) == 2
    assert run(predict(folder, "other.txt", "--json")) == 2
    assert run(predict(folder, "other.txt", "--engine", "ct2")) == 2
    assert 'started with engine = "torch", and now engine = "ct2"' in capsys.readouterr().err
    with monkeypatch.context() as patch:
        patch.setattr(model_folder, "fingerprint_of", lambda folder: "another")
        assert run(predict(folder, "other.txt")) == 2
    assert 'and now model = "another"' in capsys.readouterr().err
    (folder / "others.txt").write_text("猫\n" * 3000, encoding="utf-8")
    assert run(predict(folder, "other.txt", lines="others.txt")) == 2
    assert "The input lines differ from those of the last call." in capsys.readouterr().err
    assert out.read_bytes() == before


def test_ctrl_c_prints_the_progress_and_how_to_resume(folder: Path, monkeypatch, capfd):
    arguments = predict(folder, "stopped.txt")
    monkeypatch.setattr(sys, "argv", ["seq2see", *arguments])
    child = start(arguments)
    wait_for_more(folder / "stopped.txt", child)
    os.kill(child.pid, signal.SIGINT)
    child.join()
    assert child.exitcode == 130
    printed = capfd.readouterr().err
    done = (folder / "stopped.txt").read_bytes().count(b"\n")
    assert f"stopped; {done:,} lines are in {folder}/stopped.txt. To resume" in printed
    assert f"seq2see predict {folder}/run -f {folder}/in.txt --out {folder}/stopped.txt\n" in printed
    assert "Traceback" not in printed


def test_outputs_of_texts_can_be_written_to_a_file(folder: Path, capsys: pytest.CaptureFixture[str]):
    out = str(folder / "texts.txt")
    assert run(["predict", str(folder / "run"), "红猫", "", "黑狗", "--out", out]) == 0
    assert (folder / "texts.txt").read_bytes().count(b"\n") == 3
    assert f"3 of 3 lines written to {out} (" in capsys.readouterr().err


def test_a_sample_does_not_depend_on_its_window(folder: Path):
    model = load(folder / "run")
    texts = (folder / "in.txt").read_text(encoding="utf-8").split("\n")[:100]
    texts_by_index = {number: text for number, text in enumerate(texts) if text}
    drawn = model.predict(list(texts_by_index.values()), indices=list(texts_by_index), do_sample=True, max_new_tokens=6)
    later = {number: text for number, text in texts_by_index.items() if number >= 70}
    again = model.predict(list(later.values()), indices=list(later), do_sample=True, max_new_tokens=6)
    assert [each.text for each in drawn[-len(again) :]] == [each.text for each in again]
    assert len({each.text for each in model.predict(["红猫"] * 20, do_sample=True, max_new_tokens=6)}) > 1


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_predict_and_eval_accept_a_precision(precision: str, folder: Path, capsys: pytest.CaptureFixture[str]):
    setting = ["--set", f"decoding.precision={precision}"]
    assert run(["predict", str(folder / "run"), "红猫", *setting]) == 0
    assert run(["eval", str(folder / "run"), *setting]) == 0
    scores = json.loads((folder / "run" / "eval" / "scores.json").read_text())
    assert scores["decoding"] == {"precision": precision}
    assert run(["eval", str(folder / "run"), "--set", "decoding.precision=int4"]) == 2
    assert "'precision' cannot be 'int4'" in capsys.readouterr().err


def test_ctranslate2_can_be_selected(folder: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("ctranslate2")
    assert run(["predict", str(folder / "run"), "红猫", "--engine", "ct2"]) == 0
    assert run(["predict", str(folder / "run"), "红猫", "--engine", "ct4"]) == 2
    assert "There is no engine 'ct4'" in capsys.readouterr().err


def test_a_refused_command_leaves_no_file(folder: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("ctranslate2")
    assert run(predict(folder, "refused.txt", "--engine", "ct2", "--prefix", "the")) == 2
    assert "supports no prefix" in capsys.readouterr().err
    (folder / "mine.txt").touch()
    assert run(predict(folder, "mine.txt", "--engine", "ct2", "--prefix", "the")) == 2
    assert not [*folder.glob("refused*")]
    assert (folder / "mine.txt").exists()


LIGHT = """
import sys
from seq2see.cli.app import run
assert run(sys.argv[1:]) == 0
print(*sys.modules, file=sys.stderr)
"""


def test_one_sentence_imports_nothing_that_it_does_not_need(folder: Path):
    command = [sys.executable, "-c", LIGHT, "predict", str(folder / "run"), "红猫"]
    loaded = set(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stderr.split())
    assert {"torch", "seq2see.tasks.model"} <= loaded
    heavy = {"rich", "matplotlib", "sacrebleu", "ctranslate2", "seq2see.training.loop"}
    heavy |= {"seq2see.tasks.write", "seq2see.tasks.tag", "seq2see.tasks.caption"}  # other tasks
    assert not loaded & heavy
    assert not {name for name in loaded if name.startswith("seq2see.recipes")}


class Screen(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


class TestMeter:
    def meter(self, stream: io.StringIO, total: int | None = 100) -> Meter:
        self.now = 0.0
        return Meter(total, stream, lambda: self.now)

    def test_a_log_gets_a_line_every_few_seconds(self):
        log = io.StringIO()
        with self.meter(log) as meter:
            meter(Progress(20, is_new=False))  # completed by an earlier call
            self.now = 4.0
            meter(Progress(10))
            assert log.getvalue() == ""
            self.now = 8.0
            meter(Progress(6, tokens=80))
            meter(Progress(1))
        # The last 6 lines took 4 seconds, so 64 more take 43; the time before the first output is excluded.
        assert log.getvalue() == "seq2see: 36 of 100 lines   2 lines/s   10 tokens/s   43 s left\n"

    def test_counts_of_zero_are_left_out(self):
        log = io.StringIO()
        with self.meter(log) as meter:
            self.now = 5.0
            meter(Progress(2, is_new=False))
            self.now = 20.0
            meter(Progress(4))
        assert log.getvalue() == "seq2see: 2 of 100 lines\nseq2see: 6 of 100 lines   0.2 lines/s\n"

    def test_without_a_total_there_is_no_time_left(self):
        log = io.StringIO()
        with self.meter(log, total=None) as meter:
            self.now = 8.0
            meter(Progress(16, tokens=8))
        assert log.getvalue() == "seq2see: 16 lines   2 lines/s   1 tokens/s\n"

    def test_a_screen_gets_a_transient_bar(self):
        screen = Screen()
        with self.meter(screen) as meter:
            self.now = 2.0
            meter(Progress(25))
            meter._bar.refresh()
        assert "25/100" in screen.getvalue()
        assert "12 lines/s" in screen.getvalue()

    def test_with_outputs_on_the_screen_there_is_neither_bar_nor_line(self):
        screen, now = Screen(), iter(range(0, 1000, 99))
        with Meter(100, screen, lambda: float(next(now)), quiet=True) as meter:
            meter(Progress(25))
        assert screen.getvalue() == ""

    def test_truncated_texts_are_quoted_a_few_times_and_counted(self):
        log = io.StringIO()
        with self.meter(log) as meter:
            for number in range(5):
                meter(Progress(1, truncated=(f"text {number}",)))
        printed = log.getvalue()
        assert printed.count("too long and was truncated") == 3
        assert "5 texts were too long" in printed
