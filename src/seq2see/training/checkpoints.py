"""Checkpoints that survive a kill at any moment; a damaged one is detected and never loaded.

A checkpoint is a folder of plain data, `step-000500/`: one safetensors file for each group of tensors, `state.json`,
and `MANIFEST.json` with the size and SHA-256 of every file. It is written under a temporary name, flushed to the disk,
read back, and only then renamed; after that, old checkpoints are removed. The newest one is found by listing the folder
and verifying each candidate; no file records it.

A checkpoint of a trainer is everything that a step depends on, and nothing else. Data order, dropout and samples are
functions of the seed and the step, so no state of a random generator is stored. The fingerprints of data and vocabulary
are stored with the weights: resuming with other data or another vocabulary is refused.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as from_bytes
from safetensors.torch import save as to_bytes
from torch import Tensor

from seq2see.core.errors import UserError, unknown_name
from seq2see.core.files import (
    DISK_FULL_ERRORS,
    MANIFEST,
    file_entry,
    is_process_alive,
    manifest_bytes,
    read_verified,
    sync_folder,
    verify_folder,
)
from seq2see.models.build import copy_tensors, trained_tensors
from seq2see.training.loop import BestEvaluation, Trainer
from seq2see.training.optimizers import CheckpointAverage, Optimizer, average_weights

DISK_MARGIN = 1.2
"""A save starts only if the disk has this many times the expected size free."""
CHUNK_SIZE = 1 << 24
"""Files are written in chunks of this many bytes."""
STATE, TENSORS = "state.json", ".safetensors"

# `.replaced` marks the older of two saves of one step, for the short time in which both exist.
_NAME = re.compile(r"step-(\d{6,18})(\.replaced)?", re.ASCII)
_TEMPORARY = re.compile(r"\.tmp-(\d{1,9})-[0-9a-f]+", re.ASCII)


class DiskFull(UserError):
    """The disk has no space for a checkpoint; earlier ones are untouched, so training may continue."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose files matched its manifest when it was opened."""

    path: Path
    step: int
    state: dict[str, Any]
    files: dict[str, dict[str, Any]]

    def has(self, name: str) -> bool:
        """Whether the checkpoint has this group of tensors."""
        return f"{name}{TENSORS}" in self.files

    def tensors(self, name: str) -> dict[str, Tensor]:
        """One group of tensors; the bytes are verified again as they are read."""
        if not self.has(name):
            groups = [file.removesuffix(TENSORS) for file in self.files if file.endswith(TENSORS)]
            raise unknown_name("group of tensors", name, groups, location=str(self.path))
        content = read_verified(self.path, f"{name}{TENSORS}", self.files)
        try:
            return from_bytes(content)
        except (SafetensorError, KeyError, ValueError) as error:
            raise UserError(f"{name}{TENSORS} holds no tensors: {error}.", location=str(self.path)) from None


def save(folder: Path, step: int, tensors: dict[str, dict[str, Tensor]], state: dict[str, Any], keep: int) -> Path:
    """Write the checkpoint of a step, then remove all but the newest `keep` up to this step.

    After any error, and after a kill at any moment, either the previous checkpoint or the new one can be loaded. Only
    one process at a time may save into a folder.
    """
    if keep < 1:
        raise UserError(f"{keep} checkpoints cannot be kept.", hint="Keep at least one.")
    with _disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _remove_stale(folder)
        _make_space(folder, tensors)
        temporary, final = _temporary_path(folder), folder / f"step-{step:06d}"
        try:
            _write_all(temporary, step, tensors, state)
            faults = _inspect(temporary, step)[1]
            if faults:
                raise UserError(f"The disk did not store what was written: {faults[0]}.", location=str(folder))
            _install(temporary, final)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        _rotate(folder, step, keep)
    return final


def newest_checkpoint(folder: Path, log: Callable[[str], None]) -> Checkpoint | None:
    """The newest intact checkpoint, or None; `log` receives the faults of each newer one."""
    for _, path in list_checkpoints(folder):
        try:
            return load(path)
        except UserError as error:
            log(str(error))
    return None


def list_checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """All checkpoints of a folder as (step, path), newest first, intact or not."""
    named = [(_step_of(path), path) for path in folder.glob("step-*")]
    pairs = [(step, path) for step, path in named if step is not None]
    return sorted(pairs, key=lambda pair: (-pair[0], pair[1].name))


def load(path: Path) -> Checkpoint:
    """Open one checkpoint; raise an error if it is damaged."""
    step = _step_of(path)
    files, faults = _inspect(path, step)
    if faults or step is None:
        raise UserError(f"This checkpoint cannot be used: {'; '.join(faults)}.", location=str(path))
    try:
        return Checkpoint(path, step, json.loads(read_verified(path, STATE, files)), files)
    except ValueError as error:
        raise UserError(f"{STATE} is not JSON: {error}.", location=str(path)) from None


def verify(path: Path) -> list[str]:
    """All faults of a checkpoint; an empty list means that it is intact."""
    return _inspect(path, _step_of(path))[1]


def _inspect(path: Path, step: int | None) -> tuple[dict[str, Any], list[str]]:
    """The files of the manifest, and all faults; a missing `state.json` is a fault."""
    files, faults = verify_folder(path, step)
    return files, faults if faults or STATE in files else [f"{STATE} is missing"]


def _step_of(path: Path) -> int | None:
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else None


def _crash_point(name: str) -> None:
    """A moment at which a save may be killed. Tests crash here, at each moment in turn."""


def _write_all(folder: Path, step: int, tensors: dict[str, dict[str, Tensor]], state: dict[str, Any]) -> None:
    _crash_point("make the temporary folder")
    folder.mkdir()
    files = {}
    for name, group in tensors.items():
        plain = {key: tensor.detach().contiguous() for key, tensor in group.items()}
        files[f"{name}{TENSORS}"] = _write(folder / f"{name}{TENSORS}", to_bytes(plain))
    files[STATE] = _write(folder / STATE, json.dumps(state, ensure_ascii=False, indent=2).encode())
    _write(folder / MANIFEST, manifest_bytes(step, files))
    _crash_point("flush the temporary folder")
    sync_folder(folder)


def _write(path: Path, content: bytes) -> dict[str, Any]:
    """Write a file and flush it to the disk; return its manifest entry, computed from the bytes in memory."""
    _crash_point(f"open {path.name}")
    with path.open("wb") as file:
        for start in range(0, len(content), CHUNK_SIZE):
            file.write(memoryview(content)[start : start + CHUNK_SIZE])
            file.flush()
            _crash_point(f"{path.name} at byte {start}")
        os.fsync(file.fileno())
    return file_entry(content)


def _install(temporary: Path, final: Path) -> None:
    """Rename a complete checkpoint to its final name; an older one of the same step stays loadable until then."""
    aside = final.with_name(f"{final.name}.replaced")
    if os.path.lexists(final):
        if verify(final):
            _remove(final)  # it is damaged; a `.replaced` one may be intact
        elif (final / MANIFEST).read_bytes() == (temporary / MANIFEST).read_bytes():
            _remove(aside)
            return  # both have the same content
        else:
            _remove(aside)
            _crash_point(f"move {final.name} aside")
            final.rename(aside)
    _crash_point(f"name {final.name}")
    temporary.rename(final)
    _crash_point("flush the folder of checkpoints")
    sync_folder(final.parent)
    _remove(aside)


def _rotate(folder: Path, step: int, keep: int) -> None:
    """Remove the oldest checkpoints; those with a later step than this one were saved by another run and stay."""
    saved = [(older, path) for older, path in list_checkpoints(folder) if older <= step]
    kept = sorted({older for older, _ in saved})[-keep:]
    for older, path in reversed(saved):
        if older not in kept:
            _remove(path)


def _remove(path: Path) -> None:
    """Rename a folder to a temporary name, then delete it: a kill never leaves half a checkpoint under its name."""
    if not os.path.lexists(path):
        return
    temporary = _temporary_path(path.parent)
    _crash_point(f"hide {path.name}")
    path.rename(temporary)
    _crash_point(f"delete {path.name}")
    _delete(temporary)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _temporary_path(folder: Path) -> Path:
    """A temporary name that no other process uses; it contains the process id."""
    return folder / f".tmp-{os.getpid()}-{os.urandom(6).hex()}"


def _remove_stale(folder: Path) -> None:
    """Delete temporary folders of processes that have ended."""
    for path in folder.glob(".tmp-*"):
        match = _TEMPORARY.fullmatch(path.name)
        # Process ids repeat in containers, and this process has no save in progress.
        own = match is not None and int(match[1]) == os.getpid()
        if match and (own or not is_process_alive(int(match[1]))):
            _crash_point(f"sweep {path.name}")
            _delete(path)


def _make_space(folder: Path, tensors: dict[str, dict[str, Tensor]]) -> None:
    """Give up the oldest checkpoints while the new one does not fit; the newest intact one stays in any case."""
    while True:
        try:
            _check_free_space(folder, tensors)
            return
        except DiskFull:
            older = list_checkpoints(folder)
            intact = next((index for index, (_, path) in enumerate(older) if not verify(path)), len(older))
            if not older[intact + 1 :]:
                raise
            _remove(older[-1][1])


def _check_free_space(folder: Path, tensors: dict[str, dict[str, Tensor]]) -> None:
    size = sum(tensor.nbytes for group in tensors.values() for tensor in group.values())
    free = shutil.disk_usage(folder).free
    if free < DISK_MARGIN * size:
        raise DiskFull(
            f"A checkpoint needs {DISK_MARGIN * size / 1e6:.1f} MB and the disk has {free / 1e6:.1f} MB left.",
            location=str(folder),
            hint="Free some space; earlier checkpoints are untouched.",
        )


@contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        message = f"The checkpoint could not be written ({error.strerror or error})."
        hint = "Earlier checkpoints are untouched."
        if error.errno in DISK_FULL_ERRORS:
            raise DiskFull(message, location=str(folder), hint=f"Free some space. {hint}") from None
        raise UserError(message, location=str(folder), hint=hint) from None


STATE_KEYS = (
    "step",
    "callbacks_done",
    "best_loss",
    "evaluations_since_best",
    "validation_losses",
    "average_start",
    "optimizer",
    "fingerprints",
)
"""The keys of `state.json`."""
KEPT_CHECKPOINTS = 3
"""The number of checkpoints that stay on disk; more if the last few are averaged."""


def save_trainer(trainer: Trainer, folder: Path, fingerprints: Mapping[str, str]) -> None:
    """Save a checkpoint of the trainer's current state."""
    optimizer_state, optimizer_options = optimizer_state_dict(trainer.optimizer)
    tensors = {"model": trained_tensors(trainer.model), "optimizer": optimizer_state}
    if trainer.average:
        tensors["average"] = trainer.average
    if trainer.best.weights:
        tensors["best"] = trainer.best.weights
    if trainer.settings.batches == "contiguous" and (carried_state := trainer.carried_state.state_dict()):
        tensors["carried_state"] = carried_state
    state = {
        "step": trainer.step,
        "callbacks_done": trainer.callbacks_done,
        "best_loss": trainer.best.loss if math.isfinite(trainer.best.loss) else None,
        "evaluations_since_best": trainer.best.evaluations_since,
        "validation_losses": [*trainer.validation_losses.items()],
        "average_start": trainer.average_start,
        "optimizer": optimizer_options,
        "fingerprints": dict(fingerprints),
    }
    save(folder, trainer.step, tensors, state, keep=max(KEPT_CHECKPOINTS, _averaged_checkpoints(trainer) + 1))


def resume(trainer: Trainer, folder: Path, fingerprints: Mapping[str, str], log: Callable[[str], None]) -> bool:
    """Restore the trainer from the newest intact checkpoint; return False if there is none."""
    checkpoint = newest_checkpoint(folder, log)
    if checkpoint is None:
        return False
    _check_version(checkpoint)
    _check_fingerprints(checkpoint, fingerprints)
    state = checkpoint.state
    copy_tensors(trained_tensors(trainer.model), checkpoint.tensors("model"), "weight")
    load_optimizer_state_dict(trainer.optimizer, checkpoint.tensors("optimizer"), state["optimizer"])
    if trainer.average:
        for name, tensor in checkpoint.tensors("average").items():
            trainer.average[name].copy_(tensor)
    if state["best_loss"] is not None:
        best = {name: tensor.to(trainer.device) for name, tensor in checkpoint.tensors("best").items()}
        trainer.best = BestEvaluation(state["best_loss"], state["evaluations_since_best"], best)
    if checkpoint.has("carried_state"):
        trainer.carried_state.load_state_dict(checkpoint.tensors("carried_state"))
    trainer.validation_losses = dict(state["validation_losses"])
    trainer.average_start = state["average_start"]
    trainer.step, trainer.callbacks_done = state["step"], state["callbacks_done"]
    return True


def final_weights(trainer: Trainer, folder: Path) -> dict[str, Tensor]:
    """The weights of the finished model: the best, the averaged or the last ones, by the settings."""
    if trainer.best.weights:
        return trainer.best.weights
    if trainer.average:
        return trainer.average
    if count := _averaged_checkpoints(trainer):
        # Only checkpoints of evaluation steps count, so that an interrupted run has the same result as an uninterrupted
        # one.
        by_step = {step: path for step, path in reversed(list_checkpoints(folder)) if trainer.is_evaluation_step(step)}
        paths = [by_step[step] for step in sorted(by_step)[-count:]]
        models = [load(path).tensors("model") for path in paths]
        return {name: tensor for name, tensor in average_weights(models).items() if name in trainer.weights}
    return {}


def _averaged_checkpoints(trainer: Trainer) -> int:
    average = trainer.settings.average
    return average.count if isinstance(average, CheckpointAverage) else 0


def _check_version(checkpoint: Checkpoint) -> None:
    """Refuse a checkpoint of an older version, whose state lacks keys."""
    missing = [name for name in STATE_KEYS if name not in checkpoint.state]
    if missing:
        raise UserError(
            f"This checkpoint is of another version of seq2see: its state lacks {', '.join(missing)}.",
            location=str(checkpoint.path),
            hint="Continue with the version in env.json of the run, or start a new run with --out.",
        )


def _check_fingerprints(checkpoint: Checkpoint, fingerprints: Mapping[str, str]) -> None:
    stored = checkpoint.state["fingerprints"]
    for name, fingerprint in fingerprints.items():
        if stored.get(name) != fingerprint:
            raise UserError(
                f"The {name} changed since this run was started, so it cannot be resumed.",
                location=str(checkpoint.path),
                hint=f"Restore the old {name}, or start a new run with --out.",
            )


def optimizer_state_dict(optimizer: Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The state tensors of an optimizer by `weight/state` (`encoder.weight/exp_avg`), and its kind."""
    tensors = {
        f"{name}/{state}": tensor for state, by_name in optimizer.state.items() for name, tensor in by_name.items()
    }
    return tensors, {"kind": optimizer.kind}


def load_optimizer_state_dict(optimizer: Optimizer, tensors: Mapping[str, Tensor], options: Mapping[str, Any]) -> None:
    """Load a state into an optimizer of the same kind over the same weights."""
    if options["kind"] != optimizer.kind:
        raise UserError(f"The stored optimizer is {options['kind']}, and the one to restore is {optimizer.kind}.")
    state, _ = optimizer_state_dict(optimizer)
    copy_tensors(state, tensors, "state of the optimizer")
