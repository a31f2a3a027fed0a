"""The workspace: the opened runs, each with an id that reveals nothing about this machine, and a cache."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from seq2see.core.errors import UserError
from seq2see.data.examples import Example
from seq2see.interop.checkpoint_files import is_pretrained
from seq2see.models.settings import ModelSettings
from seq2see.runs.load import open_folder
from seq2see.runs.run_folder import RunFolder, find_run
from seq2see.tasks.model import Model
from seq2see.tasks.model_folder import ModelConfig, Recipe
from seq2see.tasks.task import Task, task_named

MAX_CACHED = 32
"""The maximum number of cached values."""
MAX_CACHE_BYTES = 256 << 20
"""The maximum size of all cached values, as far as their sizes are known."""

Value = TypeVar("Value")


def load_name_of(run: Path) -> str:
    """The name of a run for `seq2see.load`: a relative path, or the last part of an absolute path.

    >>> load_name_of(Path("runs/pocket-gru")), load_name_of(Path("/somewhere/runs/pocket-gru"))
    ('runs/pocket-gru', 'pocket-gru')
    """
    return run.name if run.is_absolute() else run.as_posix()


class RunNotFound(UserError):
    """The request names a run that is not open."""


@dataclass
class OpenRun:
    """An opened run, or an opened folder with pretrained weights."""

    id: str
    name: str
    folder: RunFolder | None
    """The run folder; None for pretrained weights, which have no training data and no metrics."""
    weights: Path
    """The path of its model, which does not exist before the training is finished."""
    load_name: str = ""
    """The name for `seq2see.load`; see `load_name_of`."""

    @staticmethod
    def from_model(model: Model) -> OpenRun:
        """A run without a folder, for a model that is loaded already."""
        run = OpenRun("r1", model.config.name, None, Path(), load_name_of(Path(model.name)))
        run.model = model
        return run

    @cached_property
    def model(self) -> Model:
        """Its trained model, loaded at the first access; an unfinished run has none."""
        if not self.ready:
            raise UserError(
                "This run is not finished, so it has no model yet.",
                location=self.name,
                hint="Only the views of its training curves and samples are available.",
            )
        return open_folder(self.weights)

    @property
    def ready(self) -> bool:
        """Whether it has a model."""
        return self.folder is None or self.folder.finished

    @cached_property
    def recipe(self) -> Recipe:
        """Its recipe."""
        if self.folder is None:
            raise UserError("These are pretrained weights, which have no recipe.", location=self.name)
        return self.folder.recipe()

    @cached_property
    def test_examples(self) -> Sequence[Example]:
        """The examples of the test split (or of the validation split, if there is none); () for pretrained weights."""
        if self.folder is None:
            return ()
        examples: Sequence[Example] = self.task.without_paths(self.task.evaluation_examples(self.recipe))
        return examples

    @property
    def task(self) -> Task:
        """Its task."""
        return task_named(self.recipe.task if self.folder else self.config.task)

    @property
    def settings(self) -> ModelSettings:
        """The settings of its model, also before the training is finished."""
        return self.recipe.model if self.folder else self.config.model

    @property
    def config(self) -> ModelConfig:
        """The configuration in its model folder."""
        return self.model.config


@dataclass
class Workspace:
    """The opened runs, and a cache of values that were computed for recent requests."""

    runs: dict[str, OpenRun]
    _cache: OrderedDict[Hashable, Any] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    @staticmethod
    def open(names: Sequence[str]) -> Workspace:
        """Open runs and load their recipes and models, so that errors are reported before the server starts."""
        runs = [_open_run(f"r{number}", name) for number, name in enumerate(names, 1)]
        for run in runs:
            if run.folder:
                run.recipe  # noqa: B018 - loads it now
            if run.ready:
                run.model  # noqa: B018 - loads it now
        return Workspace({run.id: run for run in _with_unique_names(runs)})

    def run(self, id: str) -> OpenRun:
        """The run with this id."""
        if id not in self.runs:
            raise RunNotFound(f"There is no run '{id}'.", hint="`runs` lists the opened runs.")
        return self.runs[id]

    @property
    def path_names(self) -> dict[str, str]:
        """From the absolute path of each run to its name, which replaces the path in errors; longest paths first."""
        names = {
            str((run.folder.path if run.folder else run.weights).absolute()): run.name for run in self.runs.values()
        }
        return {path: names[path] for path in sorted(names, key=len, reverse=True)}

    def cached(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """The cached value of a key, or the computed one; the least recently used values are removed from the cache."""
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
        value = compute()
        with self._lock:
            self._cache[key] = value
            while len(self._cache) > MAX_CACHED or (len(self._cache) > 1 and self._bytes > MAX_CACHE_BYTES):
                self._cache.popitem(last=False)
        return value

    @property
    def _bytes(self) -> int:
        return sum(map(_size, self._cache.values()))


def _size(value: Any) -> int:
    """The size of a record, an array or a list of them, in bytes; 0 for any other value."""
    if isinstance(value, list):
        return sum(map(_size, value))
    return getattr(value, "nbytes", 0) or getattr(value, "bytes", 0)


def _open_run(id: str, name: str) -> OpenRun:
    if is_pretrained(Path(name)):
        return OpenRun(id, Path(name).name, None, Path(name), load_name_of(Path(name)))
    run = find_run(name)
    return OpenRun(id, run.path.absolute().name, run, run.model, load_name_of(run.path))


def _with_unique_names(runs: list[OpenRun]) -> list[OpenRun]:
    """Append a number to the names of folders with equal names."""
    names = [run.name for run in runs]
    for index, run in enumerate(runs):
        before = names[:index].count(run.name)
        if before:
            run.name = f"{run.name} ({before + 1})"
    return runs
