"""Save a trainer as a checkpoint, and restore it: everything that a step depends on, and nothing else.

Data order, dropout and samples are functions of the seed and the step, so no state of a random generator is stored.
The fingerprints of data and vocabulary are stored with the weights: resuming with other data or another vocabulary is
refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from seq2see.core.errors import UserError
from seq2see.models.named_tensors import copy_tensors, load_named_tensors, named_tensors
from seq2see.training.averaging import CheckpointAverage, average_weights
from seq2see.training.checkpoints import Checkpoint, list_checkpoints, load, newest_checkpoint, save
from seq2see.training.loop import BestEvaluation, Trainer
from seq2see.training.optimizers import Optimizer

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
    tensors = {"model": named_tensors(trainer.model), "optimizer": optimizer_state}
    if trainer.average:
        tensors["average"] = trainer.average
    if trainer.best.weights:
        tensors["best"] = trainer.best.weights
    if carried_state := trainer.carried_state.state_dict():
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
    load_named_tensors(trainer.model, checkpoint.tensors("model"))
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
                hint=f"Bring the old {name} back, or start a new run with --out.",
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
