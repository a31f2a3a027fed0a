"""Shortcuts of tests: no shape checks in repeated calls, and a cached pocket corpus."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

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
def cached_pocket_corpus() -> Iterator[None]:
    """Cache the pocket corpus, which takes a second to generate; tests/data checks that it is deterministic."""

    def splits(corpus: PocketCorpus) -> dict[str, list[Example]]:
        return {name: list(examples) for name, examples in cached_splits(corpus).items()}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PocketCorpus, "splits", splits)
        yield
