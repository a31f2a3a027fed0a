"""Starting from what another run has learnt: its tokeniser and the weights that read (Devlin et al. 2019, section 4).

A head is made for one question, so it is never taken over. Everything that reads must be the same in both runs; a
recipe that names a run to start from therefore takes that run's `[source]` and `[encoder]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn

from seq2see.core.errors import UserError
from seq2see.models.packing import pack_model
from seq2see.sequences.tokenisers import Tokeniser
from seq2see.sequences.vocabularies import train_tokeniser
from seq2see.workbench.model_folder import StoredModel, read_model
from seq2see.workbench.run_folder import find_run

if TYPE_CHECKING:
    from seq2see.workbench.recipe import Recipe

READING = ("source.", "encoder.")
"""The beginnings of the names of weights that are taken over."""


def started(recipe: Recipe) -> Recipe:
    """The recipe with the reading parts of the run that it starts from, which is named by its full path."""
    if recipe.start is None:
        return recipe
    model = _stored(recipe.start).config.model
    update = {"start": str(find_run(recipe.start).path.absolute()), "source": model.source, "encoder": model.encoder}
    return recipe.model_copy(update=update)


def learn_source(recipe: Recipe, texts: Sequence[str]) -> Tokeniser:
    """How the source is cut: as the run that is started from does it, or learnt from texts."""
    assert recipe.source is not None
    if recipe.start is not None:
        return _stored(recipe.start).tokenisers.source
    return train_tokeniser(recipe.source.tokeniser, texts)


@torch.no_grad()
def start_from(model: nn.Module, run: str) -> None:
    """Put the reading weights of a run into a model."""
    stored = {name: tensor for name, tensor in pack_model(_stored(run).module).items() if name.startswith(READING)}
    places = {name: tensor for name, tensor in pack_model(model).items() if name.startswith(READING)}
    for name in sorted({*stored, *places}):
        if name not in stored or name not in places or stored[name].shape != places[name].shape:
            raise UserError(
                f"The weight '{name}' is not the same in this recipe and in the run that it starts from.",
                where=run,
                remedy="Leave [source] and [encoder] as they are there; dropout may differ.",
            )
    for name, place in places.items():
        place.copy_(stored[name])


def _stored(name: str) -> StoredModel:
    run = find_run(name)
    if not run.finished:
        raise UserError("This run is not finished, so nothing can start from it.", where=str(run))
    stored = read_model(run.model, torch.device("cpu"))
    if stored.config.model.writes:
        raise UserError("This run's model writes; only one that reads can be started from.", where=str(run))
    return stored
