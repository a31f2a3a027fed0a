"""Shortcuts of tests: no shape checks in repeated or compiled calls, and a cached pocket corpus."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import jaxtyping
import pytest

from seq2see.data.examples import Example
from seq2see.data.generated.pocket.pocket_corpus import PocketCorpus

generate_splits = PocketCorpus.splits
cached_splits = cache(generate_splits)


@contextmanager
def without_shape_checks() -> Iterator[None]:
    """Disable shape checks, which take more time than tiny models, for calls that are repeated."""
    previous = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", previous)


@contextmanager
def without_shape_wrappers() -> Iterator[None]:
    """Remove the wrappers that check shapes: torch.compile cannot trace them, even if the checks are disabled."""
    with pytest.MonkeyPatch.context() as patch:
        for module in [module for name, module in sys.modules.items() if name.startswith("seq2see.")]:
            for owner in (module, *filter(inspect.isclass, vars(module).values())):
                for name, value in list(vars(owner).items()):
                    if (plain := unchecked(value)) is not value and owner.__dict__.get(name) is value:
                        patch.setattr(owner, name, plain)
        yield


def unchecked(value: Any) -> Any:
    """A function, static method or property without the wrapper of jaxtyping; any other value unchanged."""
    if isinstance(value, property):
        getter = unchecked(value.fget)
        return value if getter is value.fget else property(getter)
    if isinstance(value, staticmethod):
        function = unchecked(value.__func__)
        return value if function is value.__func__ else staticmethod(function)
    is_wrapper = inspect.isfunction(value) and value.__globals__["__name__"] == "jaxtyping._decorator"
    return value.__wrapped__ if is_wrapper else value


@contextmanager
def cached_pocket_corpus() -> Iterator[None]:
    """Cache the pocket corpus, which takes a second to generate; tests/data checks that it is deterministic."""

    def splits(corpus: PocketCorpus) -> dict[str, list[Example]]:
        return {name: list(examples) for name, examples in cached_splits(corpus).items()}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PocketCorpus, "splits", splits)
        yield
