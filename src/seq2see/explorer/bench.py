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
from seq2see.interop.folders import is_real
from seq2see.models.settings import ModelSettings
from seq2see.sources.examples import Example
from seq2see.sources.picture_examples import PictureExamples, called
from seq2see.workbench.model_folder import ModelConfig, read_model
from seq2see.workbench.predict import Model, opened
from seq2see.workbench.prepare import judged_on
from seq2see.workbench.recipe import Recipe
from seq2see.workbench.run_folder import RunFolder, find_run

KEPT = 32
"""Things worked out that are kept for the next question about the same input."""
MOST_BYTES = 256 << 20
"""What all of them may take up together, as far as they say how large they are."""

Thing = TypeVar("Thing")


def named(run: Path) -> str:
    """A run as `seq2see.load` takes it, as far as it can be told: of a full path the last part.

    >>> named(Path("runs/pocket-gru")), named(Path("/somewhere/runs/pocket-gru"))
    ('runs/pocket-gru', 'pocket-gru')
    """
    return run.name if run.is_absolute() else run.as_posix()


class NoSuchRun(UserError):
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
    loads: str = ""
    """What `seq2see.load` finds it by; see `named`."""

    @staticmethod
    def around(model: Model) -> OpenRun:
        """A model that is open already, as a run that nothing else is known of."""
        run = OpenRun("r1", model.config.name, None, Path(), named(Path(model.name)))
        run.model = model
        return run

    @cached_property
    def model(self) -> Model:
        """Its trained model, read when it is first asked for; a run that is still being trained has none yet."""
        if not self.ready:
            raise UserError(
                "This run is not finished, so it has no model yet.",
                where=self.name,
                remedy="Its curves and samples can be looked at; the rest when it is trained.",
            )
        return opened(read_model(self.weights, pick_device()))

    @property
    def ready(self) -> bool:
        """Whether it has a model."""
        return self.folder is None or self.folder.finished

    @cached_property
    def recipe(self) -> Recipe:
        """What it was made from."""
        if self.folder is None:
            raise UserError("These are real weights, which no recipe was made for.", where=self.name)
        return self.folder.recipe()

    @cached_property
    def tested_on(self) -> Sequence[Example]:
        """The examples it is tested on (or validated on, where there are no others); real weights have none."""
        if self.folder is None:
            return ()
        found = judged_on(self.recipe)
        return replace(found, names=tuple(map(called, found.names))) if isinstance(found, PictureExamples) else found

    @property
    def settings(self) -> ModelSettings:
        """The shape of its model, also before that is trained."""
        return self.recipe.model if self.folder else self.config.model

    @property
    def config(self) -> ModelConfig:
        """What its model folder says."""
        return self.model.config


@dataclass
class Bench:
    """The opened runs, and what was worked out about them a moment ago."""

    runs: dict[str, OpenRun]
    _kept: OrderedDict[Hashable, Any] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    @staticmethod
    def open(names: Sequence[str]) -> Bench:
        """Find runs and read their recipes and models: what is wrong with one is told before anything is served."""
        found = [_found(f"r{number}", name) for number, name in enumerate(names, 1)]
        for run in found:
            if run.folder:
                run.recipe  # noqa: B018 - read now
            if run.ready:
                run.model  # noqa: B018 - read now
        return Bench({run.id: run for run in _told_apart(found)})

    def run(self, id: str) -> OpenRun:
        """The run of an id."""
        if id not in self.runs:
            raise NoSuchRun(f"There is no run '{id}'.", remedy="`runs` lists those that were opened.")
        return self.runs[id]

    @property
    def places(self) -> dict[str, str]:
        """Where runs lie on this machine, which nobody is told, and what they are called instead; the longest first."""
        found = {
            str((run.folder.path if run.folder else run.weights).absolute()): run.name for run in self.runs.values()
        }
        return {place: found[place] for place in sorted(found, key=len, reverse=True)}

    def kept(self, key: Hashable, make: Callable[[], Thing]) -> Thing:
        """What was made for a key a moment ago, or what is made now; only the last few are kept."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        made = make()
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > KEPT or (len(self._kept) > 1 and self._bytes > MOST_BYTES):
                self._kept.popitem(last=False)
        return made

    @property
    def _bytes(self) -> int:
        return sum(map(_size, self._kept.values()))


def _size(thing: Any) -> int:
    """The bytes of a record, an array or several; of anything else nothing is known."""
    if isinstance(thing, list):
        return sum(map(_size, thing))
    return getattr(thing, "nbytes", 0) or getattr(thing, "bytes", 0)


def _found(id: str, name: str) -> OpenRun:
    if is_real(Path(name)):
        return OpenRun(id, Path(name).name, None, Path(name), named(Path(name)))
    run = find_run(name)
    return OpenRun(id, run.path.absolute().name, run, run.model, named(run.path))


def _told_apart(runs: list[OpenRun]) -> list[OpenRun]:
    """Two folders of one name in different places get numbers behind their names."""
    names = [run.name for run in runs]
    for place, run in enumerate(runs):
        before = names[:place].count(run.name)
        if before:
            run.name = f"{run.name} ({before + 1})"
    return runs
