"""A run is a folder: where its parts lie, which folder a new run gets, and how a run is found again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2see.core.errors import UserError, closest_match
from seq2see.core.settings import read_toml
from seq2see.interop.folders import is_pretrained

if TYPE_CHECKING:
    from seq2see.runs.recipe import Recipe

RUNS = Path("runs")


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run, and the names of what lies in it."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    @property
    def recipe_file(self) -> Path:
        """The complete recipe, re-runnable."""
        return self.path / "recipe.toml"

    @property
    def model(self) -> Path:
        """What it takes to use the model; it exists once the run is finished."""
        return self.path / "model"

    @property
    def checkpoints(self) -> Path:
        """What it takes to go on training."""
        return self.path / "checkpoints"

    @property
    def metrics(self) -> Path:
        """Every step's figures."""
        return self.path / "metrics.jsonl"

    @property
    def samples(self) -> Path:
        """The same sentences at every evaluation."""
        return self.path / "samples"

    @property
    def evaluation(self) -> Path:
        """Predictions and scores on the test splits."""
        return self.path / "eval"

    @property
    def splits(self) -> Path:
        """What is known of the data it was made from; older runs have no such file."""
        return self.path / "splits.json"

    @property
    def finished(self) -> bool:
        """Whether training came to its end."""
        return self.model.is_dir()

    def recipe(self) -> Recipe:
        """The recipe this run was made from."""
        # Only here: whoever finds a run to use its model does not wait for all that a recipe knows of.
        from seq2see.runs.recipe import Recipe

        return read_toml(Recipe, self.recipe_file)


def folder_for(recipe: Recipe, out: Path | None) -> RunFolder:
    """The folder a run of this recipe gets: a new one, or that of its own unfinished run.

    Nothing finished is ever written over: if the folder is taken, -2, -3, ... are tried.
    """
    wanted = out or RUNS / recipe.name
    for number in range(1, 10_000):
        folder = RunFolder(wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}"))
        if _is_free(folder.path):
            return folder
        if not folder.recipe_file.exists():
            raise UserError(
                "This is not a run folder, and it is not empty.",
                location=str(folder),
                hint="Name another folder with --out.",
            )
        if not folder.finished and folder.recipe() == recipe:
            return folder
    raise UserError(f"There are 9,999 runs called {wanted} already.", hint="Name another folder with --out.")


def _is_free(path: Path) -> bool:
    """Nothing there, or nothing but the half-written first file of a run that was killed at once."""
    return not path.exists() or (path.is_dir() and all(item.name.endswith(".tmp") for item in path.iterdir()))


def find_run(name: str) -> RunFolder:
    """The run a user means: a folder, a name under `runs/`, or `latest`."""
    if name == "latest":
        return _latest()
    if is_pretrained(Path(name)):
        raise UserError(
            "These are real weights and not a run, so nothing says what they were trained or tested on.",
            location=name,
            hint=f"Judge them on a text of yours: `seq2see eval {name} --file book.txt`.",
        )
    for path in (Path(name), RUNS / name):
        if (path / "recipe.toml").exists():
            return RunFolder(path)
        if (path / "config.json").exists() and (path.parent / "recipe.toml").exists():
            return RunFolder(path.parent)  # the user named the model folder inside
    if Path(name).is_dir():
        raise UserError(
            "This folder has neither the recipe.toml of a run nor the config.json of real weights.",
            location=name,
            hint="Name a run, or a folder that a model was saved in.",
        )
    names = [run.path.name for run in all_runs()]
    close = closest_match(Path(name).name, names)
    hint = f"Did you mean '{RUNS / close}'?" if close else "`seq2see runs` lists the runs there are."
    raise UserError(f"There is no run '{name}'.", hint=hint)


def find_model(name: str) -> Path:
    """The model a user means: that of a finished run, or a Hugging Face folder."""
    if is_pretrained(Path(name)):
        return Path(name)
    run = find_run(name)
    if not run.finished:
        raise UserError(
            "This run is not finished, so it has no model yet.",
            location=str(run),
            hint=f"Finish it with `seq2see train {run.recipe_file} --out {run}`.",
        )
    return run.model


def all_runs() -> list[RunFolder]:
    """Every run under `runs/`, oldest first."""
    files = sorted(RUNS.glob("*/recipe.toml"), key=lambda path: path.stat().st_mtime)
    return [RunFolder(path.parent) for path in files]


def _latest() -> RunFolder:
    runs = all_runs()
    if not runs:
        raise UserError("There is no run yet.", hint="Make one with `seq2see train pocket-transformer`.")
    return runs[-1]


def read_scores(run: RunFolder) -> dict[str, Any]:
    """The figures of the last evaluation; empty if there was none."""
    path = run.evaluation / "scores.json"
    try:
        return dict(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError):
        hint = f"Delete it, and judge the run again with `seq2see eval {run}`."
        raise UserError("These scores are damaged.", location=str(path), hint=hint) from None
