"""Stories are about what a user does, not about how many images are drawn to validate and test on."""

from __future__ import annotations

import pytest

from seq2see.sources.shapes import shapes_corpus

HELD_OUT = 80


@pytest.fixture(autouse=True, scope="module")
def few_drawn_images():
    """Instead of the thousand that tests/sources counts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shapes_corpus, "HELD_OUT", HELD_OUT)
        yield HELD_OUT
