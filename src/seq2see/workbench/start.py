"""Starting from what a model has learnt: its tokeniser and the weights that read (Devlin et al. 2019, section 4).

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
from seq2see.interop.folders import is_real
from seq2see.layers.positions import LearnedGrid
from seq2see.models.packing import pack_model
from seq2see.sequences.tokenisers import Tokeniser
from seq2see.sequences.vocabularies import train_tokeniser
from seq2see.workbench.model_folder import StoredModel, read_model
from seq2see.workbench.run_folder import find_run

if TYPE_CHECKING:
    from seq2see.workbench.recipe import Recipe

READING = ("source.", "encoder.")
"""The beginnings of the names of weights that are taken over."""
FREE = ("dropout", "skip", "longest", "side")
"""Settings that may be others than those of the model that is started from."""


def started(recipe: Recipe) -> Recipe:
    """The recipe with the reading parts of the model that it starts from, which is named by its full path."""
    if recipe.start is None:
        return recipe
    model = _stored(recipe.start).config.model
    path = Path(recipe.start) if is_real(Path(recipe.start)) else find_run(recipe.start).path
    update = {"start": str(path.absolute()), "source": model.source, "encoder": model.encoder}
    return recipe.model_copy(update=update)


def check_start(recipe: Recipe) -> None:
    """Refuse to read otherwise than the model that is started from; known before any data are read.

    Some settings change no weight's shape (heads, the tokeniser), and would spoil what was learnt without a murmur.
    """
    if recipe.start is None:
        return
    model = _stored(recipe.start).config.model
    for slot in READING:
        mine, theirs = (_fixed(getattr(each, slot.rstrip("."))) for each in (recipe, model))
        for name in sorted(mine.keys() | theirs.keys()):
            if mine.get(name) != theirs.get(name):
                values = " and ".join(str(each.get(name, "not there")) for each in (mine, theirs))
                raise UserError(
                    f"{slot}{name} is not the same in this recipe and in the model that it starts from: {values}.",
                    where=recipe.start,
                    remedy="Leave [source] and [encoder] as they are there; dropout and side may differ.",
                )


def _fixed(part: Settings | None) -> dict[str, Any]:
    """Settings by their paths, less those that a start leaves free."""
    found = [(path, value) for path, value, _ in walk(part) if not isinstance(value, type)] if part is not None else []
    return {path: value for path, value in found if path.rpartition(".")[2] not in FREE}


def learn_source(recipe: Recipe, texts: Sequence[str]) -> Tokeniser:
    """How the source is cut: as the model that is started from does it, or learnt from texts."""
    if recipe.start is not None:
        return _stored(recipe.start).tokenisers.source
    return train_tokeniser(recipe.read.tokeniser, texts)


@torch.no_grad()
def start_from(model: nn.Module, run: str) -> None:
    """Put the reading weights of another model into this one; positions of a picture of another size are read off."""
    begun: Any = _stored(run).module
    stored = {name: tensor for name, tensor in pack_model(begun).items() if name.startswith(READING)}
    mine, theirs = (getattr(getattr(each, "source", None), "positions", None) for each in (model, begun))
    if isinstance(mine, LearnedGrid) and isinstance(theirs, LearnedGrid):
        stored["source.positions.table.weight"] = theirs(mine.grid)[0]
    places = {name: tensor for name, tensor in pack_model(model).items() if name.startswith(READING)}
    for name in sorted({*stored, *places}):
        if name not in stored or name not in places or stored[name].shape != places[name].shape:
            raise UserError(
                f"The weight '{name}' is not the same in this recipe and in the run that it starts from.",
                where=run,
                remedy="Leave [source] and [encoder] as they are there; dropout and side may differ.",
            )
    for name, place in places.items():
        place.copy_(stored[name])


def _stored(name: str) -> StoredModel:
    path = Path(name)
    if not is_real(path):
        run = find_run(name)
        if not run.finished:
            raise UserError("This run is not finished, so nothing can start from it.", where=str(run))
        path = run.model
    stored = read_model(path, torch.device("cpu"))
    if stored.config.model.writes:
        raise UserError("This model writes; only one that reads can be started from.", where=name)
    return stored
