"""The Python interface of `import seq2see`: train, evaluate and load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2see.core.errors import UserError, missing_file
from seq2see.recipes.registry import recipe
from seq2see.runs.callbacks import ProgressListener
from seq2see.runs.prepare import check_pretrained, pretrained_prefixes, with_pretrained_parts
from seq2see.runs.report import write_report
from seq2see.runs.run_folder import RunFolder, find_run
from seq2see.runs.terminal import Terminal
from seq2see.runs.train import train_recipe
from seq2see.tasks.model import Model
from seq2see.tasks.recipe import Recipe
from seq2see.tasks.registry import task_of

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


def resolve(name: str | Path | Recipe, data: Sequence[str | Path], changes: Mapping[str, Any]) -> Recipe:
    """The recipe with the given name, data files and changed settings."""
    base = name if isinstance(name, Recipe) else recipe(name)
    if data:
        base = task_of(base).with_data(base, tuple(map(str, data)))
    if changes.get("pretrained"):
        base = with_pretrained_parts(base.with_(pretrained=changes["pretrained"]))
        changes = {path: value for path, value in changes.items() if path != "pretrained"}
    base = base.with_(**changes)
    if any(path.startswith(pretrained_prefixes(base)) for path in changes):
        check_pretrained(base)
    corpus = base.slot("corpus")
    if "paths" in type(corpus).model_fields:
        base = base.model_copy(update={"corpus": _with_absolute_paths(corpus)})
    return base


def _with_absolute_paths(corpus: Any) -> Any:
    """The corpus with absolute paths, so that the stored recipe can be trained from any folder."""
    absolute = {}
    for name in ("paths", "valid", "test"):
        paths = [Path(path) for path in getattr(corpus, name)]
        for path in paths:
            if not path.exists():
                raise missing_file(path)
        absolute[name] = tuple(str(path.absolute()) for path in paths)
    return corpus.model_copy(update=absolute)


def recipe_of(name: str) -> Recipe:
    """The recipe of a run, or the recipe with this name."""
    try:
        return find_run(name).recipe()
    except UserError:
        return recipe(name)
