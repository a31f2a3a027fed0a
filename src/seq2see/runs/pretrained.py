"""Starting from what a model has learned: its tokenizer and the weights that read (Devlin et al. 2019, section 4).

The model is that of a run, or one that other people trained. A head is made for one question, so it is never taken
over. Everything that reads must be the same in both; a recipe that names a model to start from therefore takes that
model's `[source]` and `[encoder]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from seq2see.core.errors import UserError
from seq2see.core.settings import Settings, walk
from seq2see.interop.folders import is_pretrained
from seq2see.layers.positions import LearnedPositions2d
from seq2see.models.named_tensors import named_tensors
from seq2see.runs.model_folder import StoredModel, read_model
from seq2see.runs.run_folder import find_run
from seq2see.sequences.tokenizer_training import train_tokenizer
from seq2see.sequences.tokenizers import Tokenizer

if TYPE_CHECKING:
    from seq2see.runs.recipe import Recipe

ENCODER_PREFIXES = ("source.", "encoder.")
"""The beginnings of the names of weights that are taken over."""
MAY_DIFFER = ("dropout", "drop_path", "max_tokens", "max_positions", "image_size")
"""Settings that may be others than those of the model that is started from."""


def with_pretrained_encoder(recipe: Recipe) -> Recipe:
    """The recipe with the reading parts of the model that it starts from, which is named by its full path."""
    if recipe.pretrained is None:
        return recipe
    model = _stored(recipe.pretrained).config.model
    path = Path(recipe.pretrained) if is_pretrained(Path(recipe.pretrained)) else find_run(recipe.pretrained).path
    update = {"pretrained": str(path.absolute()), "source": model.source, "encoder": model.encoder}
    return recipe.model_copy(update=update)


def check_pretrained(recipe: Recipe) -> None:
    """Refuse to read otherwise than the model that is started from; known before any data are read.

    Some settings change no weight's shape (heads, the tokenizer), and would spoil what was learned without a murmur.
    """
    if recipe.pretrained is None:
        return
    model = _stored(recipe.pretrained).config.model
    for slot in ENCODER_PREFIXES:
        mine, theirs = (_compared_settings(getattr(each, slot.rstrip("."))) for each in (recipe, model))
        for name in sorted(mine.keys() | theirs.keys()):
            if mine.get(name) != theirs.get(name):
                values = " and ".join(str(each.get(name, "not there")) for each in (mine, theirs))
                raise UserError(
                    f"{slot}{name} is not the same in this recipe and in the model that it starts from: {values}.",
                    location=recipe.pretrained,
                    hint="Leave [source] and [encoder] as they are there; dropout and side may differ.",
                )


def _compared_settings(part: Settings | None) -> dict[str, Any]:
    """Settings by their paths, less those that a start leaves free."""
    found = [(path, value) for path, value, _ in walk(part) if not isinstance(value, type)] if part is not None else []
    return {path: value for path, value in found if path.rpartition(".")[2] not in MAY_DIFFER}


def source_tokenizer(recipe: Recipe, texts: Sequence[str]) -> Tokenizer:
    """How the source is cut: as the model that is started from does it, or learned from texts."""
    if recipe.pretrained is not None:
        return _stored(recipe.pretrained).tokenizers.source
    return train_tokenizer(recipe.source_text.tokenizer, texts)


@torch.no_grad()
def load_pretrained_encoder(model: nn.Module, run: str) -> None:
    """Put the reading weights of another model into this one; positions of an image of another size are read off."""
    begun: Any = _stored(run).module
    stored = {name: tensor for name, tensor in named_tensors(begun).items() if name.startswith(ENCODER_PREFIXES)}
    mine, theirs = (getattr(getattr(each, "source", None), "positions", None) for each in (model, begun))
    if isinstance(mine, LearnedPositions2d) and isinstance(theirs, LearnedPositions2d):
        stored["source.positions.table.weight"] = theirs(mine.grid)[0]
    places = {name: tensor for name, tensor in named_tensors(model).items() if name.startswith(ENCODER_PREFIXES)}
    for name in sorted({*stored, *places}):
        if name not in stored or name not in places or stored[name].shape != places[name].shape:
            raise UserError(
                f"The weight '{name}' is not the same in this recipe and in the run that it starts from.",
                location=run,
                hint="Leave [source] and [encoder] as they are there; dropout and side may differ.",
            )
    for name, place in places.items():
        place.copy_(stored[name])


def _stored(name: str) -> StoredModel:
    path = Path(name)
    if not is_pretrained(path):
        run = find_run(name)
        if not run.finished:
            raise UserError("This run is not finished, so nothing can start from it.", location=str(run))
        path = run.model
    stored = read_model(path, torch.device("cpu"))
    if stored.config.model.generates:
        raise UserError("This model writes; only one that reads can be started from.", location=name)
    return stored
