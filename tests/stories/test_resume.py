"""A run that was stopped or killed at any time, any number of times, ends like an uninterrupted run."""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from tiny_recipes import fingerprint, tiny_recipe, write_pairs

from seq2see.core.errors import UserError
from seq2see.models.build import named_tensors
from seq2see.runs.load import read_model
from seq2see.runs.train import NullListener, train_recipe
from seq2see.training import checkpoints as training_resume
from seq2see.training.checkpoints import DiskFull, list_checkpoints, load
from seq2see.training.loop import Interrupted

FLAVORS: dict[str, dict[str, object]] = {
    "plain": {},
    "moving average": {"training.average.kind": "ema"},
    "last checkpoints": {"training.average.kind": "checkpoints", "training.average.count": 2},
    "patience": {  # with this learning rate the loss grows, so that training stops early
        "training.patience": 50,
        "training.evaluate_every": 2,
        "training.optimizer.kind": "sgd",
        "training.learning_rate": 10.0,
        "training.schedule.warmup": 12,
    },
    "triggered average": {
        "training.average.kind": "asgd",
        "training.evaluate_every": 1,
        "training.optimizer.kind": "adam",
        "training.learning_rate": 1.0,
        "training.schedule.warmup": 1,
    },
    "scheduled sampling": {"base": "pocket-scheduled-sampling"},
    "batch norm": {"base": "pocket-batch-norm", "training.accumulate": 2},
    "bpe dropout": {
        "target.tokenizer.kind": "bpe",
        "target.tokenizer.vocab_size": 300,
        "target.tokenizer.dropout": 0.3,
    },
}


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write_pairs(tmp_path / "pairs.tsv")


class StopAt(NullListener):
    """Sends a signal to this process at a given step."""

    def __init__(self, step: int, number: int = signal.SIGTERM):
        object.__setattr__(self, "at", step)
        object.__setattr__(self, "number", number)

    def step(self, step: int, metrics: dict[str, float]) -> None:
        if step == self.at:
            os.kill(os.getpid(), self.number)


class Listener(NullListener):
    """Records the log lines."""

    def __init__(self):
        object.__setattr__(self, "lines", [])

    def log(self, text: str) -> None:
        self.lines.append(text)


def test_two_equal_runs_are_bit_identical(pairs: Path, tmp_path: Path):
    first, second = (train_recipe(tiny_recipe(pairs), tmp_path / name) for name in ("a", "b"))
    assert fingerprint(first.path) == fingerprint(second.path)


def test_another_seed_is_another_run(pairs: Path, tmp_path: Path):
    first = train_recipe(tiny_recipe(pairs), tmp_path / "a")
    second = train_recipe(tiny_recipe(pairs, **{"training.seed": 2}), tmp_path / "b")
    assert first.metrics.read_bytes() != second.metrics.read_bytes()


@pytest.mark.parametrize("flavor", FLAVORS)
def test_a_stopped_run_resumes_exactly(pairs: Path, tmp_path: Path, flavor: str):
    """Stopped at the first step, at a checkpoint, between two checkpoints, and shortly before the end."""
    recipe = tiny_recipe(pairs, **FLAVORS[flavor])
    whole = fingerprint(train_recipe(recipe, tmp_path / "whole").path)
    if flavor == "triggered average":  # with this learning rate averaging starts before the last stop
        last = list_checkpoints(tmp_path / "whole" / "checkpoints")[0][1]
        assert 0 < json.loads((last / "state.json").read_text())["average_start"] < 11
    for step in (1, 4, 6, 11):
        folder = tmp_path / f"stopped at {step}"
        with pytest.raises(Interrupted) as stop:
            train_recipe(recipe, folder, StopAt(step))
        assert stop.value.step == step
        resumed = train_recipe(recipe, folder)
        assert resumed.path == folder
        assert fingerprint(folder) == whole, f"stopped at {step}"


@pytest.mark.parametrize("at", ["tasks.generative.evaluate_teacher_forced", "tasks.translate.decode"])
def test_a_stop_during_evaluation_neither_loses_nor_repeats_it(at: str, pairs: Path, tmp_path: Path, monkeypatch):
    """The interruption is during validation, or during the samples after it."""
    recipe = tiny_recipe(pairs)
    whole = train_recipe(recipe, tmp_path / "whole")
    module, _, name = f"seq2see.{at}".rpartition(".")
    original = getattr(importlib.import_module(module), name)
    calls = iter(range(100))

    def interrupted_once(*arguments, **options):
        if next(calls) == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return original(*arguments, **options)

    monkeypatch.setattr(f"seq2see.{at}", interrupted_once)
    with pytest.raises(Interrupted) as stop:
        train_recipe(recipe, tmp_path / "stopped")
    assert stop.value.step == 8
    resumed = train_recipe(recipe, tmp_path / "stopped")
    assert fingerprint(resumed.path) == fingerprint(whole.path)


def test_a_run_with_changed_data_is_not_resumed(pairs: Path, tmp_path: Path):
    recipe = tiny_recipe(pairs)
    with pytest.raises(Interrupted):
        train_recipe(recipe, tmp_path / "run", StopAt(6))
    pairs.write_text(pairs.read_text(encoding="utf-8").replace("cat", "dog"), encoding="utf-8")
    with pytest.raises(UserError, match="data changed since this run was started"):
        train_recipe(recipe, tmp_path / "run")


def test_a_checkpoint_of_an_older_version_is_refused_with_a_remedy(pairs: Path, tmp_path: Path, monkeypatch):
    recipe, save, states = tiny_recipe(pairs), training_resume.save, list[set[str]]()

    def older(folder, step, tensors, state, keep):
        states.append(set(state))
        return save(folder, step, tensors, {name: state[name] for name in state if name != "average_start"}, keep)

    monkeypatch.setattr(training_resume, "save", older)
    with pytest.raises(Interrupted):
        train_recipe(recipe, tmp_path / "run", StopAt(6))
    assert states[-1] == set(training_resume.STATE_KEYS)
    with pytest.raises(UserError, match=r"step-000006: .*another version.*its state lacks average_start\. .*--out"):
        train_recipe(recipe, tmp_path / "run")


def test_a_damaged_newest_checkpoint_is_named_and_the_one_before_is_used(pairs: Path, tmp_path: Path):
    recipe = tiny_recipe(pairs)
    whole = train_recipe(recipe, tmp_path / "whole")
    with pytest.raises(Interrupted):
        train_recipe(recipe, tmp_path / "run", StopAt(9))
    broken = tmp_path / "run" / "checkpoints" / "step-000009" / "model.safetensors"
    broken.write_bytes(broken.read_bytes()[:-1])
    listener = Listener()
    resumed = train_recipe(recipe, tmp_path / "run", listener)
    assert any("step-000009" in line and "model.safetensors" in line for line in listener.lines)
    assert any("resume from step 8" in line for line in listener.lines)
    assert fingerprint(resumed.path) == fingerprint(whole.path)


def test_a_nan_loss_stops_before_the_update_and_names_the_batch(pairs: Path, tmp_path: Path):
    with pytest.raises(UserError, match="training stopped before the update") as caught:
        train_recipe(
            tiny_recipe(pairs, **{"training.learning_rate": 1e30, "training.max_grad_norm": 0}), tmp_path / "run"
        )
    assert "pairs.tsv:" in str(caught.value)


def test_patience_stops_early_and_keeps_the_best_weights(pairs: Path, tmp_path: Path):
    changes = {
        "training.patience": 2,
        "training.steps": 400,
        "training.learning_rate": 0.3,
        "training.max_grad_norm": 0,
    }
    run = train_recipe(tiny_recipe(pairs, **changes, **{"training.optimizer.kind": "adam"}), tmp_path / "run")
    rows = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    losses = [row["valid_loss"] for row in rows if "valid_loss" in row]
    assert rows[-1]["step"] < 400
    assert min(losses) == losses[-3]


def test_a_full_disk_costs_a_checkpoint_and_not_the_training(pairs: Path, tmp_path: Path, monkeypatch):
    import seq2see.runs.train as training

    recipe = tiny_recipe(pairs)
    whole = train_recipe(recipe, tmp_path / "whole")
    original = training.save_trainer

    def full_at_eight(trainer, *rest):
        if trainer.step == 8:
            raise DiskFull("No room.")
        original(trainer, *rest)

    monkeypatch.setattr(training, "save_trainer", full_at_eight)
    listener = Listener()
    run = train_recipe(recipe, tmp_path / "run", listener)
    assert any("No room." in line and "step 8" in line for line in listener.lines)
    assert fingerprint(run.path) == fingerprint(whole.path)


def test_a_disk_that_is_full_at_the_end_is_an_error_and_nothing_is_lost(pairs: Path, tmp_path: Path, monkeypatch):
    import seq2see.runs.train as training

    recipe = tiny_recipe(pairs)
    whole = train_recipe(recipe, tmp_path / "whole")
    original = training.save_trainer

    def full_at_the_end(trainer, *rest):
        if trainer.done:
            raise DiskFull("No room.")
        original(trainer, *rest)

    monkeypatch.setattr(training, "save_trainer", full_at_the_end)
    with pytest.raises(UserError, match="No room"):
        train_recipe(recipe, tmp_path / "run")
    monkeypatch.undo()
    assert fingerprint(train_recipe(recipe, tmp_path / "run").path) == fingerprint(whole.path)


def test_an_interruption_names_the_run_folder(pairs: Path, tmp_path: Path):
    recipe = tiny_recipe(pairs)
    train_recipe(recipe, tmp_path / "run")
    with pytest.raises(Interrupted) as stop:
        train_recipe(recipe, tmp_path / "run", StopAt(3))
    assert stop.value.folder == str(tmp_path / "run-2")
    assert stop.value.saved_step == 3


def test_a_stop_on_a_full_disk_does_not_claim_to_have_saved(pairs: Path, tmp_path: Path, monkeypatch):
    import seq2see.runs.train as training

    original = training.save_trainer

    def full_at_six(trainer, *rest):
        if trainer.step == 6:
            raise DiskFull("No room.")
        original(trainer, *rest)

    monkeypatch.setattr(training, "save_trainer", full_at_six)
    with pytest.raises(Interrupted) as stop:
        train_recipe(tiny_recipe(pairs), tmp_path / "run", StopAt(6))
    assert (stop.value.step, stop.value.saved_step) == (6, 4)


def kills(folder: Path, seed: int, count: int) -> int:
    """Run the child again and again, killing it at random moments, until `count` kills resumed past step 0."""
    rng = random.Random(seed)
    good = 0
    for number in range(10_000):
        run = folder / f"run-{number}"
        while not (run / "model").exists():
            before = sorted((run / "checkpoints").glob("step-*")) if run.exists() else []
            child = os.fork()
            if child == 0:
                _child(folder / "pairs.tsv", run)
            to_kill = good < count
            if to_kill:
                time.sleep(rng.uniform(0.0, 0.9))
                os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            good += bool(before) and os.WIFSIGNALED(status)
            assert status == 0 or (to_kill and os.WIFSIGNALED(status)), f"the training of run {number} failed"
        assert fingerprint(run) == fingerprint(folder / "whole"), f"run {number} differs"
        if good >= count:
            return good
    return good


def _child(data: Path, run: Path) -> None:
    try:
        train_recipe(tiny_recipe(data, **{"training.steps": 60}), run)
    except BaseException as error:
        print(repr(error), file=sys.stderr)
        os._exit(1)
    os._exit(0)


def kill_story(folder: Path, count: int) -> None:
    """Run `kills` in a separate process with one thread, so that forking is safe."""
    command = [sys.executable, __file__, str(folder), str(count)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert f"{count} kills" in done.stdout


def test_five_kills_at_random_moments_change_nothing(tmp_path: Path):
    kill_story(tmp_path, 5)


@pytest.mark.first
@pytest.mark.long
@pytest.mark.timeout(600)
def test_twenty_five_kills_at_random_moments_change_nothing(tmp_path: Path):
    kill_story(tmp_path, 25)


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    write_pairs(folder / "pairs.tsv")
    train_recipe(tiny_recipe(folder / "pairs.tsv", **{"training.steps": 60}), folder / "whole")
    print(kills(folder, seed=7, count=int(sys.argv[2])), "kills")


def test_the_model_of_a_run_is_the_mean_of_its_last_checkpoints(pairs: Path, tmp_path: Path):
    run = train_recipe(tiny_recipe(pairs, **FLAVORS["last checkpoints"]), tmp_path / "run")
    last = [load(path).tensors("model") for _, path in list_checkpoints(run.checkpoints)[:2]]
    model = named_tensors(read_model(run.model, torch.device("cpu")).module)
    for name, weight in model.items():
        torch.testing.assert_close(weight, (last[0][name] + last[1][name]) / 2)
    assert any(not torch.equal(weight, each[name]) for name, weight in model.items() for each in last)


def test_the_model_of_a_run_with_patience_is_its_best(pairs: Path, tmp_path: Path):
    run = train_recipe(tiny_recipe(pairs, **FLAVORS["patience"]), tmp_path / "run")
    (_, last), *_ = list_checkpoints(run.checkpoints)
    best = load(last).tensors("best")
    assert any(not torch.equal(weight, best[name]) for name, weight in load(last).tensors("model").items())
    model = named_tensors(read_model(run.model, torch.device("cpu")).module)
    assert all(torch.equal(weight, best[name]) for name, weight in model.items())
