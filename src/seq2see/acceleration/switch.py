"""The switch of all acceleration: with `SEQ2SEE_PLAIN=1` in the environment, the textbook runs alone."""

from __future__ import annotations

import os


def plain_only() -> bool:
    """Whether everything is to be computed by the definitions."""
    return os.environ.get("SEQ2SEE_PLAIN", "") not in ("", "0")
