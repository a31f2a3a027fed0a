"""Here the same calls are made thousands of times; their shapes are checked elsewhere, so not here."""

from __future__ import annotations

import jaxtyping
import pytest


@pytest.fixture(autouse=True, scope="module")
def unchecked_shapes():
    """Shape checks take more time than tiny models do."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
