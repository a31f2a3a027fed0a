"""What lies on the bench: the runs that were opened, each under an id that says nothing about this machine."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from seq2see.core.devices import pick_device
from seq2see.core.errors import UserError
from seq2see.interop.folders import is_pretrained
from seq2see.models.settings import ModelSettings
from seq2see.runs.model import Model, open_model
from seq2see.runs.model_folder import ModelConfig, read_model
from seq2see.runs.prepare import evaluation_examples
from seq2see.runs.recipe import Recipe
from seq2see.runs.run_folder import RunFolder, find_run
from seq2see.sources.examples import Example
from seq2see.sources.image_examples import ImageExamples, short_name

MAX_CACHED = 32
"""Things worked out that are kept for the next question about the same input."""
MAX_CACHE_BYTES = 256 << 20
"""What all of them may take up together, as far as they say how large they are."""

Value = TypeVar("Value")


def load_name_of(run: Path) -> str:
    """A run as `seq2see.load` takes it, as far as it can be told: of a full path the last part.

    >>> named(Path("runs/pocket-gru")), named(Path("/somewhere/runs/pocket-gru"))
    ('runs/pocket-gru', 'pocket-gru')
    """
    return run.name if run.is_absolute() else run.as_posix()


class RunNotFound(UserError):
    """The page asked for a run that was not opened."""


@dataclass
class OpenRun:
    """A run, or a folder of real weights, that can be looked into."""

    id: str
    name: str
    folder: RunFolder | None
    """Real weights have none: nothing says how they were trained."""
    weights: Path
    """Where its model lies, or will lie once it is trained."""
    load_name: str = ""
    """What `seq2see.load` finds it by; see `load_name_of`."""

    @staticmethod
    def from_model(model: Model) -> OpenRun:
        """A model that is open already, as a run that nothing else is known of."""
        run = OpenRun("r1", model.config.name, None, Path(), load_name_of(Path(model.name)))
        run.model = model
        return run

    @cached_property
    def model(self) -> Model:
        """Its trained model, read when it is first asked for; a run that is still being trained has none yet."""
        if not self.ready:
            raise UserError(
                "This run is not finished, so it has no model yet.",
                location=self.name,
                hint="Its curves and samples can be looked at; the rest when it is trained.",
            )
        return open_model(read_model(self.weights, pick_device()))

    @property
    def ready(self) -> bool:
        """Whether it has a model."""
        return self.folder is None or self.folder.finished

    @cached_property
    def recipe(self) -> Recipe:
        """What it was made from."""
        if self.folder is None:
            raise UserError("These are real weights, which no recipe was made for.", location=self.name)
        return self.folder.recipe()

    @cached_property
    def test_examples(self) -> Sequence[Example]:
        """The examples it is tested on (or validated on, where there are no others); real weights have none."""
        if self.folder is None:
            return ()
        found = evaluation_examples(self.recipe)
        return replace(found, names=tuple(map(short_name, found.names))) if isinstance(found, ImageExamples) else found

    @property
    def settings(self) -> ModelSettings:
        """The shape of its model, also before that is trained."""
        return self.recipe.model if self.folder else self.config.model

    @property
    def config(self) -> ModelConfig:
        """What its model folder says."""
        return self.model.config


@dataclass
class Workspace:
    """The opened runs, and what was worked out about them a moment ago."""

    runs: dict[str, OpenRun]
    _cache: OrderedDict[Hashable, Any] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    @staticmethod
    def open(names: Sequence[str]) -> Workspace:
        """Find runs and read their recipes and models: what is wrong with one is told before anything is served."""
        found = [_open_run(f"r{number}", name) for number, name in enumerate(names, 1)]
        for run in found:
            if run.folder:
                run.recipe  # noqa: B018 - read now
            if run.ready:
                run.model  # noqa: B018 - read now
        return Workspace({run.id: run for run in _with_unique_names(found)})

    def run(self, id: str) -> OpenRun:
        """The run of an id."""
        if id not in self.runs:
            raise RunNotFound(f"There is no run '{id}'.", hint="`runs` lists those that were opened.")
        return self.runs[id]

    @property
    def path_names(self) -> dict[str, str]:
        """Where runs lie on this machine, which nobody is told, and what they are called instead; the longest first."""
        found = {
            str((run.folder.path if run.folder else run.weights).absolute()): run.name for run in self.runs.values()
        }
        return {place: found[place] for place in sorted(found, key=len, reverse=True)}

    def cached(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """What was made for a key a moment ago, or what is made now; only the last few are kept."""
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
        made = make()
        with self._lock:
            self._cache[key] = made
            while len(self._cache) > MAX_CACHED or (len(self._cache) > 1 and self._bytes > MAX_CACHE_BYTES):
                self._cache.popitem(last=False)
        return made

    @property
    def _bytes(self) -> int:
        return sum(map(_size, self._cache.values()))


def _size(thing: Any) -> int:
    """The bytes of a record, an array or several; of anything else nothing is known."""
    if isinstance(thing, list):
        return sum(map(_size, thing))
    return getattr(thing, "nbytes", 0) or getattr(thing, "bytes", 0)


def _open_run(id: str, name: str) -> OpenRun:
    if is_pretrained(Path(name)):
        return OpenRun(id, Path(name).name, None, Path(name), load_name_of(Path(name)))
    run = find_run(name)
    return OpenRun(id, run.path.absolute().name, run, run.model, load_name_of(run.path))


def _with_unique_names(runs: list[OpenRun]) -> list[OpenRun]:
    """Two folders of one name in different places get numbers behind their names."""
    names = [run.name for run in runs]
    for place, run in enumerate(runs):
        before = names[:place].count(run.name)
        if before:
            run.name = f"{run.name} ({before + 1})"
    return runs
