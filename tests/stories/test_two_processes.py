"""Two processes that train in one run folder: the second one is refused, and nothing is damaged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny_recipes import tiny_recipe, write_pairs

from seq2see.core.errors import UserError
from seq2see.core.process_lock import LOCK_FILES, exclusive_folder
from seq2see.runs.run_folder import RunFolder
from seq2see.training.checkpoints import list_checkpoints, verify

WAIT = 120
"""Seconds until a process must have made progress."""


def start(folder: Path, recipe: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "seq2see", "train", str(recipe), "--out", str(folder / "run")]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


@pytest.mark.long
def test_of_two_trainings_that_start_at_once_one_is_refused_and_the_other_is_intact(tmp_path):
    recipe = tiny_recipe(write_pairs(tmp_path / "my.tsv"), **{"training.steps": 100_000})
    (tmp_path / "recipe.toml").write_text(recipe.toml(), encoding="utf-8")
    processes = [start(tmp_path, tmp_path / "recipe.toml") for _ in range(2)]
    try:
        end = time.monotonic() + WAIT
        while all(each.poll() is None for each in processes) and time.monotonic() < end:
            time.sleep(0.1)
        refused, training = sorted(processes, key=lambda each: each.poll() is None)
        assert refused.wait(1) == 2
        message = refused.stderr.read()
        assert f"This run is being trained by the process {training.pid}" in message
        assert "Traceback" not in message
        run = RunFolder(tmp_path / "run")
        while not list_checkpoints(run.checkpoints) and time.monotonic() < end:
            time.sleep(0.1)
        training.send_signal(signal.SIGINT)
        assert training.wait(WAIT) == 128 + signal.SIGINT
        assert all(not verify(path) for _, path in list_checkpoints(run.checkpoints))
        steps = [json.loads(line)["step"] for line in run.metrics.read_text().splitlines()]
        assert steps == sorted(steps)
        assert not any((run.path / name).exists() for name in LOCK_FILES)
    finally:
        for each in processes:
            each.kill()
            each.communicate()


def test_a_exclusive_folder_names_the_process_that_holds_it(tmp_path):
    folder = tmp_path / "runs" / "a"
    with exclusive_folder(folder, "This run is being trained"):
        with (
            pytest.raises(UserError, match=f"This run is being trained by the process {os.getpid()} on "),
            exclusive_folder(folder, "This run is being trained"),
        ):
            pass
        (folder / LOCK_FILES[1]).write_text("[" * 100_000)
        with (
            pytest.raises(UserError, match="by another process"),
            exclusive_folder(folder, "This run is being trained"),
        ):
            pass
    assert not folder.parent.exists()  # it was created for the lock, and nothing was written


def test_a_lock_of_a_killed_process_is_free(tmp_path):
    code = "import os, sys, pathlib\nfrom seq2see.core.process_lock import exclusive_folder\n"
    code += "with exclusive_folder(pathlib.Path(sys.argv[1]), 'x'):\n    os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == -signal.SIGKILL
    assert (tmp_path / LOCK_FILES[1]).exists()
    with exclusive_folder(tmp_path, "x"):
        pass
    assert list(tmp_path.iterdir()) == []
