"""Explain what runs when a model is trained and when it predicts: the definition of each layer, or a faster form."""

from __future__ import annotations

import torch

from seq2see.acceleration.swaps import Conditions, DescriptionRow, describe, plain_only
from seq2see.acceleration.trainer import training_conditions
from seq2see.core.devices import pick_device
from seq2see.runs.load import read_model
from seq2see.runs.run_folder import find_model
from seq2see.tasks.task import read_recipe


def explain_run(name: str) -> list[tuple[str, list[DescriptionRow]]]:
    """A title and a table for training, if the run has a recipe, and for prediction, on this machine."""
    folder, device = find_model(name), pick_device()
    stored = read_model(folder, torch.device("cpu"))
    recipe_file, sections = folder.parent / "recipe.toml", []
    if plain_only():
        return [("SEQ2SEE_PLAIN is set, so every definition runs itself", [])]
    if recipe_file.exists():
        settings = read_recipe(recipe_file).training
        title = f"training on {device.type} in {settings.precision}"
        unused = ["flat-adam"] if settings.optimizer.kind == "muon" else ["bf16-muon"]
        sections.append((title, describe(stored.module, training_conditions(settings, device), unused)))
    sections.append((f"prediction on {device.type}", describe(stored.module, Conditions(device.type))))
    return sections
