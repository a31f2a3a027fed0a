"""A trainer as a checkpoint, and back: everything a step depends on, and nothing else.

Data order, dropout and samples are functions of the seed and the step, so there is no generator to
store. What is stored beside the weights says what they belong to: resuming with other data or another
vocabulary is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor

from seq2see.core.errors import UserError
from seq2see.models.named_tensors import load_named_tensors, named_tensors
from seq2see.training.averaging import CheckpointAverage, average_weights
from seq2see.training.checkpoints import Checkpoint, list_checkpoints, load, newest_checkpoint, save
from seq2see.training.loop import Best, Trainer
from seq2see.training.optimizer_state import load_optimizer_state_dict, optimizer_state_dict

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
"""What a checkpoint tells beside its tensors."""
KEPT_CHECKPOINTS = 3
"""Checkpoints that stay on disk; more if the last few are to be averaged."""


def save_trainer(trainer: Trainer, folder: Path, fingerprints: Mapping[str, str]) -> None:
    """Write a checkpoint of the trainer as it is now."""
    optimizer, options = optimizer_state_dict(trainer.optimizer)
    tensors = {"model": named_tensors(trainer.model), "optimizer": optimizer}
    if trainer.average:
        tensors["average"] = trainer.average
    if trainer.best.weights:
        tensors["best"] = trainer.best.weights
    if carried := trainer.carried_state.state_dict():
        tensors["carried_state"] = carried
    state = {
        "step": trainer.step,
        "callbacks_done": trainer.callbacks_done,
        "best_loss": trainer.best.loss if math.isfinite(trainer.best.loss) else None,
        "evaluations_since_best": trainer.best.evaluations_since,
        "validation_losses": [*trainer.validation_losses.items()],
        "average_start": trainer.average_start,
        "optimizer": options,
        "fingerprints": dict(fingerprints),
    }
    save(folder, trainer.step, tensors, state, keep=max(KEPT_CHECKPOINTS, _averaged_checkpoints(trainer) + 1))


def resume(trainer: Trainer, folder: Path, fingerprints: Mapping[str, str], log: Callable[[str], None]) -> bool:
    """Put the trainer where the newest whole checkpoint left off; False if there is none."""
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
        trainer.best = Best(state["best_loss"], state["evaluations_since_best"], best)
    if checkpoint.has("carried_state"):
        trainer.carried_state.load_state_dict(checkpoint.tensors("carried_state"))
    trainer.validation_losses = dict(state["validation_losses"])
    trainer.average_start = state["average_start"]
    trainer.step, trainer.callbacks_done = state["step"], state["callbacks_done"]
    return True


def final_weights(trainer: Trainer, folder: Path) -> dict[str, Tensor]:
    """The weights that become the model: the best, the averaged or the last ones, as the settings ask."""
    if trainer.best.weights:
        return trainer.best.weights
    if trainer.average:
        return trainer.average
    if count := _averaged_checkpoints(trainer):
        # Only checkpoints of the regular rhythm count: an interrupted run must end like an uninterrupted one.
        by_step = {step: path for step, path in reversed(list_checkpoints(folder)) if trainer.is_evaluation_step(step)}
        paths = [by_step[step] for step in sorted(by_step)[-count:]]
        models = [load(path).tensors("model") for path in paths]
        return {name: tensor for name, tensor in average_weights(models).items() if name in trainer.weights}
    return {}


def _averaged_checkpoints(trainer: Trainer) -> int:
    average = trainer.settings.average
    return average.count if isinstance(average, CheckpointAverage) else 0


def _check_version(checkpoint: Checkpoint) -> None:
    """Refuse what an older version wrote, which knew less of what a step depends on."""
    missing = [name for name in STATE_KEYS if name not in checkpoint.state]
    if missing:
        raise UserError(
            f"This checkpoint is of another version of seq2see: it does not tell {', '.join(missing)}.",
            location=str(checkpoint.path),
            hint="Go on with the version that env.json of the run names, or start a new run with --out.",
        )


def _check_fingerprints(checkpoint: Checkpoint, fingerprints: Mapping[str, str]) -> None:
    stored = checkpoint.state["fingerprints"]
    for what, now in fingerprints.items():
        if stored.get(what) != now:
            raise UserError(
                f"The {what} changed since this run was started, so it cannot be resumed.",
                location=str(checkpoint.path),
                hint=f"Bring the old {what} back, or start a new run with --out.",
            )
