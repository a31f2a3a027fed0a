"""What `import seq2see` offers: the verbs of the command line, from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2see.core.errors import UserError, no_file
from seq2see.models.picture_settings import Film, Picture
from seq2see.models.settings import Series, Tags
from seq2see.recipes.table import recipe
from seq2see.sources.checking import OwnData
from seq2see.sources.conll import OwnTagged
from seq2see.sources.own_corpus import OwnFiles, OwnLabelled
from seq2see.sources.own_files import wrong_number
from seq2see.sources.own_pictures import OwnCaptions, OwnFilms, OwnPictures
from seq2see.sources.series import OwnSeries
from seq2see.sources.texts import OwnTexts
from seq2see.workbench.audience import Audience
from seq2see.workbench.predict import Model
from seq2see.workbench.recipe import Recipe
from seq2see.workbench.report import write_report
from seq2see.workbench.run_folder import RunFolder, find_run
from seq2see.workbench.start import READING, check_start, started
from seq2see.workbench.terminal import Terminal
from seq2see.workbench.train import train_recipe

Data = str | Path | Sequence[str | Path]


@dataclass(frozen=True)
class Run:
    """A finished run: its folder, its model and its scores."""

    folder: Path

    def model(self) -> Model:
        """The trained model."""
        from seq2see.explorer.notebook import load  # who only trains does not wait for what comes after

        return load(self.folder)

    def evaluate(self) -> dict[str, Any]:
        """Score it on its test splits."""
        from seq2see.workbench.evaluate import evaluate  # likewise

        run = RunFolder(self.folder)
        scores = evaluate(run)
        write_report(run)
        return scores


def train(
    name: str | Path | Recipe,
    data: Data | None = None,
    out: str | Path | None = None,
    set: Mapping[str, Any] | None = None,
    audience: Audience | None = None,
) -> Run:
    """Train a recipe (a name, a TOML file or a `Recipe`), on your own data if you give some.

    The terminal or notebook shows how it goes, unless an audience of your own watches.
    """
    files = [data] if isinstance(data, str | Path) else list(data or [])
    resolved, folder = resolve(name, files, set or {}), Path(out) if out else None
    if audience is not None:
        run = train_recipe(resolved, folder, audience)
    else:
        with Terminal("train", resolved.steps, resolved.unit) as terminal:
            run = train_recipe(resolved, folder, terminal)
    write_report(run)
    return Run(run.path)


def resolve(name: str | Path | Recipe, data: Sequence[str | Path], changes: Mapping[str, Any]) -> Recipe:
    """The recipe that a name, data files and changed settings ask for together."""
    chosen = name if isinstance(name, Recipe) else recipe(name)
    if data:
        corpus = own_data(chosen, tuple(map(str, data)))
        metrics = ("bleu", "chrf", "exact") if type(corpus) is OwnFiles else chosen.metrics
        chosen = chosen.model_copy(update={"corpus": corpus, "metrics": metrics})
    if changes.get("start"):
        chosen = started(chosen.with_(start=changes["start"]))
        changes = {path: value for path, value in changes.items() if path != "start"}
    chosen = chosen.with_(**changes)
    if any(path.startswith(READING) for path in changes):
        check_start(chosen)
    if isinstance(chosen.corpus, OwnData):
        chosen = chosen.model_copy(update={"corpus": _from_anywhere(chosen.corpus)})
    return chosen


def own_data(chosen: Recipe, paths: tuple[str, ...]) -> OwnData:
    """Files of the user's own, as this recipe reads them."""
    if isinstance(chosen.target, Series):
        return OwnSeries(paths=paths)
    if isinstance(chosen.source, Film):
        return own_pictures(paths, OwnFilms)
    if isinstance(chosen.source, Picture):
        return own_pictures(paths, OwnCaptions if chosen.writes else OwnPictures)
    if chosen.runs_on:
        return OwnTexts(paths=paths)
    if isinstance(chosen.target, Tags):
        return OwnTagged(paths=paths)
    if len(paths) > 2:
        raise wrong_number(len(paths))
    return OwnFiles(paths=paths) if chosen.writes else OwnLabelled(paths=paths)


def own_pictures(paths: tuple[str, ...], kind: type[OwnPictures]) -> OwnPictures:
    """A set of the user's own; several would have to say which is for what."""
    if len(paths) > 1:
        raise UserError(
            f"{len(paths)} sets of pictures were given, and one is read.",
            where=", ".join(paths),
            remedy="Give one folder; pictures to test on are named by --set corpus.test=FOLDER.",
        )
    return kind(paths=paths)


def _from_anywhere(corpus: OwnData) -> OwnData:
    """The same files by their full paths, so that the stored recipe can be run again from any folder."""
    full = {}
    for name in ("paths", "valid", "test"):
        paths = [Path(path) for path in getattr(corpus, name)]
        for path in paths:
            if not path.exists():
                raise no_file(path)
        full[name] = tuple(str(path.absolute()) for path in paths)
    return corpus.model_copy(update=full)


def recipe_of(name: str) -> Recipe:
    """The recipe of a run, or the recipe of that name."""
    try:
        return find_run(name).recipe()
    except UserError:
        return recipe(name)
