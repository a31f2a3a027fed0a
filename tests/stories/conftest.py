"""User stories need few generated images for validation and test."""

from __future__ import annotations

import pytest

from seq2see.data.generated import shapes

HELD_OUT = 80


@pytest.fixture(autouse=True, scope="module")
def few_drawn_images():
    """A small number instead of the default."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shapes, "HELD_OUT", HELD_OUT)
        yield HELD_OUT
