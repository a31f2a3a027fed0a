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
from seq2see.models.packing import pack_model, unpack_model
from seq2see.training.averaging import LastCheckpoints, mean_of
from seq2see.training.checkpoints import Checkpoint, found, load, newest, save
from seq2see.training.loop import Best, Trainer
from seq2see.training.packing import pack_optimiser, unpack_optimiser

STORED = ("step", "errands_done", "best_loss", "best_ago", "losses", "averaged_since", "optimiser", "fingerprints")
"""What a checkpoint tells beside its tensors."""
KEEP = 3
"""Checkpoints that stay on disk; more if the last few are to be averaged."""


def save_trainer(trainer: Trainer, folder: Path, fingerprints: Mapping[str, str]) -> None:
    """Write a checkpoint of the trainer as it is now."""
    optimiser, options = pack_optimiser(trainer.optimiser)
    tensors = {"model": pack_model(trainer.model), "optimiser": optimiser}
    if trainer.average:
        tensors["average"] = trainer.average
    if trainer.best.weights:
        tensors["best"] = trainer.best.weights
    if carried := trainer.carried.pack():
        tensors["carried"] = carried
    state = {
        "step": trainer.step,
        "errands_done": trainer.errands_done,
        "best_loss": trainer.best.loss if math.isfinite(trainer.best.loss) else None,
        "best_ago": trainer.best.ago,
        "losses": [*trainer.losses.items()],
        "averaged_since": trainer.averaged_since,
        "optimiser": options,
        "fingerprints": dict(fingerprints),
    }
    save(folder, trainer.step, tensors, state, keep=max(KEEP, _averaged(trainer) + 1))


def resume(trainer: Trainer, folder: Path, fingerprints: Mapping[str, str], say: Callable[[str], None]) -> bool:
    """Put the trainer where the newest whole checkpoint left off; False if there is none."""
    checkpoint = newest(folder, say)
    if checkpoint is None:
        return False
    _check_version(checkpoint)
    _check_fingerprints(checkpoint, fingerprints)
    state = checkpoint.state
    unpack_model(trainer.model, checkpoint.tensors("model"))
    unpack_optimiser(trainer.optimiser, checkpoint.tensors("optimiser"), state["optimiser"])
    if trainer.average:
        for name, tensor in checkpoint.tensors("average").items():
            trainer.average[name].copy_(tensor)
    if state["best_loss"] is not None:
        best = {name: tensor.to(trainer.device) for name, tensor in checkpoint.tensors("best").items()}
        trainer.best = Best(state["best_loss"], state["best_ago"], best)
    if checkpoint.has("carried"):
        trainer.carried.unpack(checkpoint.tensors("carried"))
    trainer.losses = dict(state["losses"])
    trainer.averaged_since = state["averaged_since"]
    trainer.step, trainer.errands_done = state["step"], state["errands_done"]
    return True


def final_weights(trainer: Trainer, folder: Path) -> dict[str, Tensor]:
    """The weights that become the model: the best, the averaged or the last ones, as the settings ask."""
    if trainer.best.weights:
        return trainer.best.weights
    if trainer.average:
        return trainer.average
    if count := _averaged(trainer):
        # Only checkpoints of the regular rhythm count: an interrupted run must end like an uninterrupted one.
        by_step = {step: path for step, path in reversed(found(folder)) if trainer.is_mark(step)}
        paths = [by_step[step] for step in sorted(by_step)[-count:]]
        models = [load(path).tensors("model") for path in paths]
        return {name: tensor for name, tensor in mean_of(models).items() if name in trainer.weights}
    return {}


def _averaged(trainer: Trainer) -> int:
    average = trainer.settings.average
    return average.count if isinstance(average, LastCheckpoints) else 0


def _check_version(checkpoint: Checkpoint) -> None:
    """Refuse what an older version wrote, which knew less of what a step depends on."""
    missing = [name for name in STORED if name not in checkpoint.state]
    if missing:
        raise UserError(
            f"This checkpoint is of another version of seq2see: it does not tell {', '.join(missing)}.",
            where=str(checkpoint.path),
            remedy="Go on with the version that env.json of the run names, or start a new run with --out.",
        )


def _check_fingerprints(checkpoint: Checkpoint, fingerprints: Mapping[str, str]) -> None:
    stored = checkpoint.state["fingerprints"]
    for what, now in fingerprints.items():
        if stored.get(what) != now:
            raise UserError(
                f"The {what} changed since this run was started, so it cannot be resumed.",
                where=str(checkpoint.path),
                remedy=f"Bring the old {what} back, or start a new run with --out.",
            )
