"""Runs put together: several trained models in one run folder that predicts, evaluates and loads like any other.

The members are copied into it, so that it goes on working when their runs are deleted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import torch

import seq2see
from seq2see.core.devices import describe_machine
from seq2see.core.errors import UserError
from seq2see.core.files import write_json, write_text
from seq2see.decoding.ensemble import Ensemble
from seq2see.runs.model_folder import ModelConfig, StoredModel, members_of, read_model, write_model
from seq2see.runs.run_folder import RunFolder, folder_for
from seq2see.runs.split_fingerprints import write_common_fingerprints


def make_ensemble(runs: Sequence[RunFolder], out: Path | None = None) -> RunFolder:
    """A run folder with the models of finished runs as its members; it decodes as the first of them does."""
    if len(runs) < 2:
        raise UserError("An ensemble needs at least two runs.", hint="Name them one after another.")
    stored = [_stored(run) for run in runs]
    for run, each in zip(runs, stored, strict=True):
        if not each.config.model.generates:
            raise UserError("An ensemble is made of models that write.", location=str(run), hint="Leave this run out.")
    _require_one_language(runs, stored)
    first = stored[0].config
    name = out.name if out else f"{first.name}-ensemble"
    recipe = runs[0].recipe().model_copy(update={"name": name})
    shapes = [shape for each in stored for shape in (each.config.model, *each.config.members)]
    config = ModelConfig(
        name=name, step=first.step, model=shapes[0], decoding=first.decoding, members=tuple(shapes[1:])
    )
    folder = folder_for(recipe, out)
    write_text(folder.recipe_file, recipe.toml())
    machine = {"seq2see": seq2see.__version__, **describe_machine(), "members": [str(run) for run in runs]}
    write_json(folder.path / "env.json", {**machine, "command": sys.argv})
    write_common_fingerprints(folder, runs)
    together = Ensemble([member for each in stored for member in members_of(each.module)])
    write_model(folder.model, StoredModel(config, together, stored[0].tokenizers))
    return folder


def _stored(run: RunFolder) -> StoredModel:
    if not run.finished:
        raise UserError("This run is not finished, so it has no model yet.", location=str(run), hint="Leave it out.")
    return read_model(run.model, torch.device("cpu"))


def _require_one_language(runs: Sequence[RunFolder], stored: Sequence[StoredModel]) -> None:
    """Refuse members that would mean different things by the same numbers."""
    for run, each in zip(runs[1:], stored[1:], strict=True):
        for side in ("source", "target"):
            own, first = (getattr(one.tokenizers, side).fingerprint for one in (each, stored[0]))
            if own != first:
                raise UserError(
                    f"{run} and {runs[0]} do not have the same {side} vocabulary, so they cannot decode together.",
                    hint="Put runs together that were trained on the same data with the same tokenizers.",
                )
