"""An expert: what an adapter learned, without the model that it adapts.

Its folder has a few kilobytes: `expert.json` (the settings of the adapter, and which model it belongs to),
`adapter.safetensors` (its weights), and `new.safetensors` (weights that the base model does not have, such as a new
head), with the SHA-256 of each file in `MANIFEST.json`.

An expert is nothing without its base, and wrong with any other model. So the fingerprint of the base, a hash of all its
files, is stored, and another model is refused. The path of the base is only where it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors.torch import load as from_bytes
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from seq2see.adapters.adapt import adapt, adapter_weights, load_adapter_weights
from seq2see.adapters.layers import Adapter
from seq2see.adapters.settings import AdapterSettings
from seq2see.core.errors import UserError
from seq2see.core.files import (
    MANIFEST,
    file_entry,
    manifest_bytes,
    read_verified,
    sync_folder,
    temporary_path,
    verify_folder,
    write_bytes,
)
from seq2see.core.settings import Settings, read_tree
from seq2see.models.build import copy_tensors, trained_tensors

CONFIG = "expert.json"
ADAPTER, NEW = "adapter.safetensors", "new.safetensors"


class ExpertConfig(Settings):
    """The content of `expert.json`."""

    format: int = 1
    """The version of this format."""
    base: str
    """The base model: a run, or a folder or file of pretrained weights."""
    fingerprint: str
    """The fingerprint of the base model."""
    adapter: AdapterSettings
    """The settings of the adapter."""


@dataclass(frozen=True)
class Expert:
    """The adapter of a base model: settings, trained weights, and weights that the base does not have."""

    config: ExpertConfig
    weights: Mapping[str, Tensor]
    """The weights of the adapters, by matrix and weight (see `adapter_weights`)."""
    new: Mapping[str, Tensor] = field(default_factory=dict)
    """Weights of new parts, such as a head for other labels, and running statistics of batch norms."""

    @staticmethod
    def of(model: nn.Module, config: ExpertConfig) -> Expert:
        """The expert of an adapted model."""
        return Expert(config, adapter_weights(model), new_tensors(model))

    def files(self) -> dict[str, bytes]:
        """The content of its files, by name."""
        groups = {ADAPTER: self.weights} | ({NEW: self.new} if self.new else {})
        tensors = {
            name: to_bytes({key: tensor.detach().cpu().contiguous() for key, tensor in group.items()})
            for name, group in groups.items()
        }
        config = json.dumps(self.config.model_dump(mode="json"), ensure_ascii=False, indent=2) + "\n"
        return {CONFIG: config.encode(), **tensors}

    def apply(self, model: nn.Module) -> nn.Module:
        """Put this adapter on a base model in place; `check_base` has compared the fingerprint."""
        adapt(model, self.config.adapter, new=self.new)
        load_adapter_weights(model, self.weights)
        copy_tensors(new_tensors(model), self.new, "weight")
        return model


def new_tensors(model: nn.Module) -> dict[str, Tensor]:
    """What training changes in an adapted model besides its adapters: weights of new parts, and buffers."""
    adapters = [(name, each) for name, each in model.named_modules() if isinstance(each, Adapter)]
    weights = {f"{name}.{weight}" for name, each in adapters for weight, _ in each.named_parameters(recurse=False)}
    return {name: tensor for name, tensor in trained_tensors(model).items() if name not in weights}


def is_expert(folder: Path) -> bool:
    """Whether a folder is that of an expert."""
    return (folder / CONFIG).is_file()


def write_expert(folder: Path, expert: Expert, step: int = 0) -> None:
    """Write the folder of an expert atomically."""
    temporary = temporary_path(folder)
    files = expert.files()
    for name, content in files.items():
        write_bytes(temporary / name, content)
    entries = {name: file_entry(content) for name, content in sorted(files.items())}
    write_bytes(temporary / MANIFEST, manifest_bytes(step, entries))
    temporary.rename(folder)
    sync_folder(folder.parent)


def read_expert(folder: Path, step: int = 0) -> Expert:
    """Read and verify the folder of an expert."""
    files, faults = verify_folder(folder, step)
    if faults:
        message = f"This expert is damaged: {'; '.join(faults)}."
        raise UserError(message, location=str(folder), hint="Copy it again, or train it again.")
    return expert_from_files(folder, files)


def expert_from_files(folder: Path, files: dict[str, Any]) -> Expert:
    """The expert in a verified folder, whose manifest lists these files."""
    tree = json.loads(read_verified(folder, CONFIG, files))
    config = read_tree(ExpertConfig, tree, location=str(folder / CONFIG))
    weights = from_bytes(read_verified(folder, ADAPTER, files))
    new = from_bytes(read_verified(folder, NEW, files)) if NEW in files else {}
    return Expert(config, weights, new)


def check_base(expert: Expert, fingerprint: str, location: str) -> None:
    """Raise an error for a base model with another fingerprint."""
    if fingerprint != expert.config.fingerprint:
        raise UserError(
            f"This expert belongs to another base model than {expert.config.base}, whose files have changed.",
            location=location,
            hint="Name the model that it was trained with.",
        )
