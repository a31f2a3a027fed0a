"""Load a model: from its folder to the Python interface of its task."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load as from_bytes

from seq2see.acceleration.swaps import Conditions, accelerate
from seq2see.acceleration.switch import plain_only
from seq2see.core.devices import device_of, pick_device
from seq2see.core.errors import UserError
from seq2see.core.files import read_verified, verify_folder
from seq2see.decoding.ensemble import Ensemble
from seq2see.interop.checkpoint_files import is_pretrained
from seq2see.interop.pretrained import read_npz, read_pretrained
from seq2see.models.named_tensors import load_named_tensors
from seq2see.runs.engines import TorchEncoderEngine, engine_of
from seq2see.runs.run_folder import find_model
from seq2see.tasks.model import Model
from seq2see.tasks.model_folder import Candidates, ModelConfig, StoredModel, weights_file
from seq2see.tasks.processors import Tokenizers
from seq2see.tasks.registry import config_from_tree, pretrained_task, task_named


def load(name: str | Path, engine: str = "torch") -> Model:
    """Load the model of a finished run (a folder, a name under `runs/`, or "latest") or of a Hugging Face folder."""
    model = open_folder(find_model(str(name)), engine)
    model.name = str(name)
    return model


def open_folder(folder: Path, engine: str = "torch") -> Model:
    """The Python interface of the model in a folder, on the GPU if there is one, with fast layers for prediction."""
    stored = read_model(folder, pick_device())
    if not plain_only():
        accelerate(stored.module, Conditions(device_of(stored.module).type))
    return open_model(stored, engine)


def open_model(stored: StoredModel, engine: str = "torch") -> Model:
    """The Python interface of a stored model, or of a model in training."""
    task = task_named(stored.config.task)
    if not task.generates and engine != "torch":
        raise UserError(f"The engine {engine} is for generative models only.", hint="Leave out --engine.")
    return task.open(stored, engine_of(engine, stored) if task.generates else TorchEncoderEngine())


def read_model(folder: Path, device: torch.device) -> StoredModel:
    """Read and verify a model folder, or read a Hugging Face folder."""
    if is_pretrained(folder):
        return _read_pretrained(folder, device)
    try:
        tree = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError) as error:
        raise _damaged(folder, f"This model cannot be read: {error}.") from None
    config = config_from_tree(tree, str(folder / "config.json"))
    files, faults = verify_folder(folder, config.step)
    if faults:
        raise _damaged(folder, f"This model is damaged: {'; '.join(faults)}.")
    tokenizers = Tokenizers.load(folder)
    members = []
    for number, settings in enumerate((config.model, *config.members), 1):
        members.append(task_named(config.task).build(settings, tokenizers))
        load_named_tensors(members[-1], from_bytes(read_verified(folder, weights_file(number), files)))
    module = Ensemble(members) if config.members else members[0]
    return StoredModel(config, module.to(device).eval(), tokenizers)  # type: ignore[arg-type]


def _damaged(folder: Path, message: str) -> UserError:
    """The error for a damaged folder; a run with checkpoints can write its model again."""
    run, hint = folder.parent, "Copy it again, or create it again."
    if (run / "checkpoints").is_dir():
        hint = f"Delete this folder, and write it again with `seq2see train {run}/recipe.toml --out {run}`."
    return UserError(message, location=str(folder), hint=hint)


def _read_pretrained(folder: Path, device: torch.device) -> StoredModel:
    if folder.suffix == ".gguf":
        from seq2see.interop.gguf_file import read_gguf  # imported here, because it is rarely used

        pretrained = read_gguf(folder)
    elif folder.suffix == ".npz":
        pretrained = read_npz(folder)
    else:
        pretrained = read_pretrained(folder)
    config = ModelConfig(
        task=pretrained_task(pretrained.settings),
        name=folder.stem,
        step=0,
        model=pretrained.settings,
        decoding=pretrained.decoding,
        prediction=Candidates(top_k=pretrained.decoding.top_k),
    )
    tokenizers = Tokenizers(pretrained.tokenizer, pretrained.tokenizer, pretrained.labels)
    return StoredModel(config, pretrained.module.to(device).eval(), tokenizers)
