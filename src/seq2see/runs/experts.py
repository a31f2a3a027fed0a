"""Models with adapters in run folders: the base of an expert, found by its path and recognized by its fingerprint.

`recipe.toml` of a run names the base in its line `pretrained`. The path is only where the base lies, and may be
changed after the base was moved; the fingerprint in `model/expert.json` decides whether it is the right model.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from seq2see.adapters.adapt import adapters_of, merge
from seq2see.adapters.expert import Expert, check_base, expert_from_files
from seq2see.adapters.layers import SingularValueAdapter
from seq2see.core.errors import UserError
from seq2see.layers.positions import LearnedPositions2d
from seq2see.models.build import named_tensors
from seq2see.runs.run_folder import find_model
from seq2see.tasks.model_folder import ModelConfig, StoredModel, Tokenizers, fingerprint_of
from seq2see.tasks.task import task_named

RECIPE = "recipe.toml"
ADAPTER_FIGURE = "adapter/singular_values.png"
"""The figure of an adapter in the folder of its run."""


@torch.no_grad()
def draw_adapter_of(model: nn.Module, run: Path) -> None:
    """Draw what the adapters of a model do to the singular values of its matrices."""
    from seq2see.inspection.adapter_plots import AdaptedMatrix, draw_adapter  # matplotlib only where it is used

    matrices = []
    for name, adapter in adapters_of(model).items():
        if isinstance(adapter, SingularValueAdapter):
            before, factors = adapter.singular_values.cpu(), adapter.factors(adapter.z).cpu()
            after = (before * factors).abs().sort(descending=True).values  # z may be negative
        else:
            before, after = singular_values(adapter.base.weight), singular_values(adapter.weight)
            factors = after / before.clamp(min=TINY)
        matrices.append(AdaptedMatrix(name, before.numpy(), after.numpy(), factors.numpy()))
    draw_adapter(matrices, run / ADAPTER_FIGURE)


TINY = 1e-6
"""A singular value below this counts as this in a quotient."""


def singular_values(weight: Tensor) -> Tensor:
    """The singular values of a matrix, the largest first."""
    return torch.linalg.svdvals(weight.float()).cpu()


@torch.no_grad()
def copy_base_weights(model: nn.Module, base: Any, is_copied: Callable[[str], bool]) -> None:
    """Copy weights of a base by name; 2-d position embeddings are interpolated to another image size."""
    stored = {name: tensor for name, tensor in named_tensors(base).items() if is_copied(name)}
    new, old = (getattr(getattr(each, "source", None), "positions", None) for each in (model, base))
    if isinstance(new, LearnedPositions2d) and isinstance(old, LearnedPositions2d):
        stored["source.positions.embedding.weight"] = old(new.grid)[0]
    weights = {name: tensor for name, tensor in named_tensors(model).items() if is_copied(name)}
    for name in sorted({*stored, *weights}):
        if name not in stored or name not in weights or stored[name].shape != weights[name].shape:
            raise UserError(
                f"The weight '{name}' is missing or has another shape in this recipe or its pretrained model."
            )
    for name, weight in weights.items():
        weight.copy_(stored[name])


def read_expert_model(
    folder: Path, files: dict[str, Any], config: ModelConfig, read_base: Callable[[Path], StoredModel]
) -> StoredModel:
    """The model of an expert: its base, with the adapter merged into the weights."""
    expert = expert_from_files(folder, files)
    base = read_base(_base_folder(folder, expert))
    tokenizers = Tokenizers.load_own(folder, base.tokenizers)
    module = task_named(config.task).build(config.model, tokenizers)
    names = named_tensors(module)
    copy_base_weights(module, base.module, lambda name: name in names and name not in expert.new)
    merge(expert.apply(module))
    return StoredModel(config, module, tokenizers, expert)  # type: ignore[arg-type]


def _base_folder(folder: Path, expert: Expert) -> Path:
    """The folder of the base of an expert, whose fingerprint is compared."""
    recipe, name = folder.parent / RECIPE, expert.config.base
    if recipe.is_file():
        name = tomllib.loads(recipe.read_text(encoding="utf-8")).get("pretrained", name)
    try:
        base = find_model(name)
    except UserError:
        message = f"This adapter belongs to the model {name}, which is not there."
        hint = f'If that model was moved, write its new place into {recipe}: pretrained = "...".'
        raise UserError(message, location=str(folder), hint=hint) from None
    check_base(expert, fingerprint_of(base), name)
    return base
