"""The run folder: the paths of its files, the folder of a new run, and finding a run by its name."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2see.core.documents import load_json
from seq2see.core.errors import UserError, closest_match
from seq2see.core.process_lock import LOCK_FILES
from seq2see.interop.checkpoint_files import is_pretrained
from seq2see.tasks.model_folder import Recipe
from seq2see.tasks.task import read_recipe

RUNS = Path("runs")


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run, and the paths of its files."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    @property
    def recipe_file(self) -> Path:
        """The complete recipe, which can be trained again."""
        return self.path / "recipe.toml"

    @property
    def model(self) -> Path:
        """The model folder for prediction; it exists once the run is finished."""
        return self.path / "model"

    @property
    def checkpoints(self) -> Path:
        """The checkpoints for resuming the training."""
        return self.path / "checkpoints"

    @property
    def metrics(self) -> Path:
        """The metrics of every step."""
        return self.path / "metrics.jsonl"

    @property
    def samples(self) -> Path:
        """The outputs for a few validation examples at every evaluation."""
        return self.path / "samples"

    @property
    def evaluation(self) -> Path:
        """The predictions and scores on the test splits."""
        return self.path / "eval"

    @property
    def splits(self) -> Path:
        """The split fingerprints of the training data; older runs have no such file."""
        return self.path / "splits.json"

    @property
    def finished(self) -> bool:
        """Whether training is complete."""
        return self.model.is_dir()

    def refuse_links(self) -> None:
        """Raise an error if a file or folder of the run is a link: what is written there would be written elsewhere."""
        for path in (*self.path.glob("*"), *self.evaluation.glob("*"), *self.samples.glob("*")):
            if path.is_symlink():
                hint = "Replace it by the file or folder itself."
                raise UserError("This is a link, and a run has no links.", location=str(path), hint=hint)

    def recipe(self) -> Recipe:
        """The recipe this run was made from."""
        return read_recipe(self.recipe_file)


def folder_for(recipe: Recipe, out: Path | None) -> RunFolder:
    """The folder for a run of this recipe: a new one, or that of its unfinished run.

    A finished run is never overwritten: if the folder exists, the suffixes -2, -3, ... are tried.
    """
    base = out or RUNS / recipe.name
    for number in range(1, 10_000):
        folder = RunFolder(base if number == 1 else base.with_name(f"{base.name}-{number}"))
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
    raise UserError(f"There are already 9,999 runs with the name {base}.", hint="Name another folder with --out.")


def finished_run(recipe: Recipe, out: Path | None) -> RunFolder | None:
    """The finished run that a repeated command would make again.

    With a folder, that is the run in it, if its recipe is the same. Without one, each command makes a new run, except
    after a process that ended between its model and its report.
    """
    if out is not None:
        candidates = [RunFolder(out)]
    else:
        runs = [run for run in all_runs() if run.path.name.startswith(recipe.name)]
        candidates = [run for run in runs if not (run.path / "report.html").exists()]
    same = (run for run in reversed(candidates) if run.finished and run.recipe_file.exists() and run.recipe() == recipe)
    return next(same, None)


def remove_remains(path: Path) -> None:
    """Remove a folder with nothing but temporary files; any other one, such as half an ensemble, is an error."""
    if not _is_free(path):
        hint = "Delete the folder, or name another one with --out."
        raise UserError("This folder has a run that is not finished.", location=str(path), hint=hint)
    shutil.rmtree(path)


def _is_free(path: Path) -> bool:
    """Whether the path does not exist, or has only the temporary files of a run that was killed at its start."""
    return not path.exists() or (
        path.is_dir() and all(item.name.endswith(".tmp") or item.name in LOCK_FILES for item in path.iterdir())
    )


def find_run(name: str) -> RunFolder:
    """Find a run by its folder, its name under `runs/`, or `latest`."""
    if name == "latest":
        return _latest()
    if is_pretrained(Path(name)):
        raise UserError(
            "This is a pretrained model and not a run, so it has no test data.",
            location=name,
            hint=f"Evaluate it on your own text: `seq2see eval {name} --file book.txt`.",
        )
    for path in (Path(name), RUNS / name):
        if (path / "recipe.toml").exists():
            return RunFolder(path)
        if (path / "config.json").exists() and (path.parent / "recipe.toml").exists():
            return RunFolder(path.parent)  # the user named the model folder inside
    if Path(name).is_dir():
        raise UserError(
            "This folder has neither the recipe.toml of a run nor the config.json of a pretrained model.",
            location=name,
            hint="Name a run folder, or the folder of a saved model.",
        )
    names = [run.path.name for run in all_runs()]
    close = closest_match(Path(name).name, names)
    hint = f"Did you mean '{RUNS / close}'?" if close else "`seq2see runs` lists the runs."
    raise UserError(f"There is no run '{name}'.", hint=hint)


def find_model(name: str) -> Path:
    """The model folder of a finished run, or a Hugging Face folder."""
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
    """All runs under `runs/`, oldest first."""
    files = sorted(RUNS.glob("*/recipe.toml"), key=lambda path: path.stat().st_mtime)
    return [RunFolder(path.parent) for path in files]


def _latest() -> RunFolder:
    runs = all_runs()
    if not runs:
        raise UserError("There is no run yet.", hint="Train one with `seq2see train pocket-transformer`.")
    return runs[-1]


def read_rows(path: Path) -> list[list[str]]:
    """The rows of a TSV file, the header first; none if there is no file."""
    if not path.exists():
        return []
    return [line.split("\t") for line in path.read_text(encoding="utf-8").removesuffix("\n").split("\n")]


def read_table(path: Path, columns: int) -> list[list[str]]:
    """The rows of a TSV file after its header; rows with another number of cells are skipped."""
    return [row for row in read_rows(path)[1:] if len(row) == columns]


def read_scores(run: RunFolder) -> dict[str, Any]:
    """The scores of the last evaluation; empty if there was none."""
    path = run.evaluation / "scores.json"
    try:
        return dict(load_json(path))
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError):
        hint = f"Delete the file, and evaluate the run again with `seq2see eval {run}`."
        raise UserError("This file of scores is damaged.", location=str(path), hint=hint) from None
