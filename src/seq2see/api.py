"""The Python interface of `import seq2see`: train, evaluate and load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2see.core.errors import UserError
from seq2see.recipes.registry import RECIPES, recipe, resolve
from seq2see.runs.report import write_report
from seq2see.runs.run_folder import RUNS, RunFolder, find_run
from seq2see.runs.terminal import Terminal
from seq2see.runs.train import ProgressListener, train_recipe
from seq2see.tasks.model import Model
from seq2see.tasks.model_folder import Recipe
from seq2see.tasks.task import task_of

Data = str | Path | Sequence[str | Path]


@dataclass(frozen=True)
class Run:
    """A finished run with its folder, model and scores."""

    folder: Path

    def model(self) -> Model:
        """The trained model."""
        from seq2see.explorer.notebook import load  # imported here, so that training alone does not load it

        return load(self.folder)

    def evaluate(self) -> dict[str, Any]:
        """Score the run on its test splits."""
        from seq2see.runs.evaluate import evaluate  # imported here for the same reason

        run = RunFolder(self.folder)
        scores = evaluate(run)
        write_report(run)
        return scores


def train(
    name: str | Path | Recipe,
    data: Data | None = None,
    out: str | Path | None = None,
    set: Mapping[str, Any] | None = None,
    listener: ProgressListener | None = None,
) -> Run:
    """Train a recipe (a name, a TOML file or a `Recipe`), optionally on your own data.

    Progress is shown in the terminal or notebook, unless a `listener` is given.
    """
    files = [data] if isinstance(data, str | Path) else list(data or [])
    resolved, folder = resolve(name, files, set or {}), Path(out) if out else None
    if listener is not None:
        run = train_recipe(resolved, folder, listener)
    else:
        with Terminal("train", resolved.steps, task_of(resolved).unit) as terminal:
            run = train_recipe(resolved, folder, terminal)
    write_report(run)
    return Run(run.path)


def recipe_of(name: str) -> Recipe:
    """The built-in recipe with this name, or the recipe of a run or of a TOML file."""
    if name in RECIPES:
        return recipe(name)
    try:
        return find_run(name).recipe()
    except UserError:
        return recipe(name)


def shared_name_note(name: str) -> str:
    """A line for a name that belongs to a built-in recipe and to a run; else empty."""
    run = RUNS / name
    if name not in RECIPES or not (run / "recipe.toml").is_file():
        return ""
    return f"'{name}' is the built-in recipe here; the run of this name is {run}, its recipe {run}/recipe.toml"
