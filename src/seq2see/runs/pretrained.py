"""Fine-tuning: the tokenizer and the encoder weights of a pretrained model (Devlin et al. 2019, section 4).

The pretrained model is a run of our own, or a Hugging Face folder. The head belongs to one task, so it is never loaded.
Source embedding and encoder must be equal in both models; a recipe with `pretrained` therefore uses the `[source]` and
`[encoder]` settings of that model.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from seq2see.core.errors import UserError
from seq2see.core.settings import Settings, walk
from seq2see.interop.checkpoint_files import is_pretrained
from seq2see.layers.positions import LearnedPositions2d
from seq2see.models.named_tensors import named_tensors
from seq2see.runs.load import read_model
from seq2see.runs.run_folder import find_run
from seq2see.tasks.model_folder import StoredModel
from seq2see.tasks.recipe import Recipe

ENCODER_PREFIXES = ("source.", "encoder.")
"""The prefixes of the weights that are loaded."""
MAY_DIFFER = ("dropout", "drop_path", "max_tokens", "max_positions", "image_size")
"""Settings that may differ from those of the pretrained model."""


def with_pretrained_encoder(recipe: Recipe) -> Recipe:
    """The recipe with the source and encoder settings of its pretrained model, which is stored by its absolute path."""
    pretrained = recipe.slot("pretrained")
    if pretrained is None:
        return recipe
    model = _stored(pretrained).config.model
    path = Path(pretrained) if is_pretrained(Path(pretrained)) else find_run(pretrained).path
    update = {"pretrained": str(path.absolute()), "source": model.source, "encoder": model.encoder}
    return recipe.model_copy(update=update)


def check_pretrained(recipe: Recipe) -> None:
    """Raise an error if source or encoder settings differ from the pretrained model, before data are read.

    Some settings (the number of heads, the tokenizer) change no weight's shape, so loading would not fail.
    """
    pretrained = recipe.slot("pretrained")
    if pretrained is None:
        return
    model = _stored(pretrained).config.model
    for slot in ENCODER_PREFIXES:
        part = slot.rstrip(".")
        own, other = (_compared_settings(getattr(each, part)) for each in (recipe, model))
        for name in sorted(own.keys() | other.keys()):
            if own.get(name) != other.get(name):
                values = " and ".join(str(each.get(name, "missing")) for each in (own, other))
                raise UserError(
                    f"{slot}{name} differs between this recipe and its pretrained model: {values}.",
                    location=pretrained,
                    hint="Leave [source] and [encoder] as in that model; only dropout and sizes may differ.",
                )


def _compared_settings(part: Settings | None) -> dict[str, Any]:
    """Settings by path, without those that may differ."""
    settings = [] if part is None else [(path, value) for path, value, _ in walk(part) if not isinstance(value, type)]
    return {path: value for path, value in settings if path.rpartition(".")[2] not in MAY_DIFFER}


def pretrained_model(recipe: Recipe) -> StoredModel | None:
    """The pretrained model of a recipe, if it has one."""
    name = recipe.slot("pretrained")
    return None if name is None else _stored(name)


@torch.no_grad()
def load_pretrained_encoder(model: nn.Module, run: str) -> None:
    """Load the encoder weights of another model; 2-d position embeddings are interpolated to another image size."""
    pretrained: Any = _stored(run).module
    stored = {name: tensor for name, tensor in named_tensors(pretrained).items() if name.startswith(ENCODER_PREFIXES)}
    new, old = (getattr(getattr(each, "source", None), "positions", None) for each in (model, pretrained))
    if isinstance(new, LearnedPositions2d) and isinstance(old, LearnedPositions2d):
        stored["source.positions.embedding.weight"] = old(new.grid)[0]
    weights = {name: tensor for name, tensor in named_tensors(model).items() if name.startswith(ENCODER_PREFIXES)}
    for name in sorted({*stored, *weights}):
        if name not in stored or name not in weights or stored[name].shape != weights[name].shape:
            raise UserError(
                f"The weight '{name}' is missing or has another shape in this recipe or its pretrained model.",
                location=run,
                hint="Leave [source] and [encoder] as in that model; only dropout and sizes may differ.",
            )
    for name, weight in weights.items():
        weight.copy_(stored[name])


def _stored(name: str) -> StoredModel:
    path = Path(name)
    if not is_pretrained(path):
        run = find_run(name)
        if not run.finished:
            raise UserError("This run is not finished, so it has no weights to fine-tune.", location=str(run))
        path = run.model
    stored = read_model(path, torch.device("cpu"))
    if stored.config.model.generates:
        raise UserError("This is a generative model; only encoder-only models can be fine-tuned.", location=name)
    return stored
