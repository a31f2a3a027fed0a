"""What tests leave out because others have checked it: shapes at every call, and drawing the same sentences again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import jaxtyping
import pytest

from seq2see.sources.examples import Example
from seq2see.sources.pocket.pocket_corpus import PocketCorpus

generate_splits = PocketCorpus.splits
cached_splits = cache(generate_splits)


@contextmanager
def without_shape_checks() -> Iterator[None]:
    """Shape checks take more time than tiny models do, so there are none where the same calls are repeated."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


@contextmanager
def cached_pocket_corpus() -> Iterator[None]:
    """A pocket corpus takes a second, however small; tests/sources has seen that it is the same every time."""

    def splits(corpus: PocketCorpus) -> dict[str, list[Example]]:
        return {name: list(examples) for name, examples in cached_splits(corpus).items()}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PocketCorpus, "splits", splits)
        yield
