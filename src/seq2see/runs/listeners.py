"""Whoever watches a training: a terminal, a notebook, a log, nobody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class ProgressListener(Protocol):
    """Whoever watches: a terminal, a notebook, a log, nobody."""

    def log(self, text: str) -> None:
        """A line worth keeping."""

    def step(self, step: int, metrics: dict[str, float]) -> None:
        """A training step was taken."""


@dataclass(frozen=True)
class NullListener:
    """Watches nothing."""

    def log(self, text: str) -> None:
        """Nothing."""

    def step(self, step: int, metrics: dict[str, float]) -> None:
        """Nothing."""
