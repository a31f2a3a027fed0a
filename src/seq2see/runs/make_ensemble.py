"""Ensembles: several trained models in one run folder, which predicts, evaluates and loads like any other run.

The weights of the members are copied into it, so their runs can be deleted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import torch

import seq2see
from seq2see.core.devices import describe_machine
from seq2see.core.errors import UserError
from seq2see.core.files import atomic_folder, write_json, write_text
from seq2see.decoding.ensemble import Ensemble
from seq2see.runs.load import read_model
from seq2see.runs.prepare import write_common_fingerprints
from seq2see.runs.run_folder import RunFolder, folder_for, remove_remains
from seq2see.tasks.model_folder import Recipe, StoredModel, members_of, write_model
from seq2see.tasks.task import task_named


def make_ensemble(runs: Sequence[RunFolder], out: Path | None = None) -> RunFolder:
    """Write a run folder with the models of finished runs as members, and the decoding settings of the first."""
    if len(runs) < 2:
        raise UserError("An ensemble needs at least two runs.", hint="Name two or more run folders.")
    stored = [_stored(run) for run in runs]
    for run, each in zip(runs, stored, strict=True):
        task_named(each.config.task).check_ensemble(str(run))
    _require_same_vocabularies(runs, stored)
    first = stored[0].config
    name = out.name if out else f"{first.name}-ensemble"
    recipe = runs[0].recipe().model_copy(update={"name": name})
    members = [settings for each in stored for settings in (each.config.model, *each.config.members)]
    changes = {"name": name, "model": members[0], "members": tuple(members[1:])}
    config = first.model_copy(update=changes)
    final = folder_for(recipe, out).path
    module = Ensemble([member for each in stored for member in members_of(each.module)])
    if final.exists():
        remove_remains(final)
    with atomic_folder(final) as temporary:
        folder = RunFolder(temporary)
        _write_run(folder, recipe, runs, StoredModel(config, module, stored[0].tokenizers))
    return RunFolder(final)


def _write_run(folder: RunFolder, recipe: Recipe, runs: Sequence[RunFolder], stored: StoredModel) -> None:
    """Write the files of an ensemble."""
    write_text(folder.recipe_file, recipe.toml())
    machine = {"seq2see": seq2see.__version__, **describe_machine(), "members": [str(run) for run in runs]}
    write_json(folder.path / "env.json", {**machine, "command": sys.argv})
    write_common_fingerprints(folder, runs)
    write_model(folder.model, stored)


def _stored(run: RunFolder) -> StoredModel:
    if not run.finished:
        raise UserError("This run is not finished, so it has no model yet.", location=str(run), hint="Leave it out.")
    return read_model(run.model, torch.device("cpu"))


def _require_same_vocabularies(runs: Sequence[RunFolder], stored: Sequence[StoredModel]) -> None:
    """Raise an error if token ids have different meanings in the members."""
    for run, each in zip(runs[1:], stored[1:], strict=True):
        for side in ("source", "target"):
            fingerprints = {getattr(model.tokenizers, side).fingerprint for model in (each, stored[0])}
            if len(fingerprints) > 1:
                raise UserError(
                    f"{run} and {runs[0]} have different {side} vocabularies, so they cannot decode together.",
                    hint="Choose runs with the same training data and tokenizers.",
                )
