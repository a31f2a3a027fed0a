"""Listeners of training progress: a terminal, a notebook or a log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class ProgressListener(Protocol):
    """Receives the progress of training."""

    def log(self, text: str) -> None:
        """Show a line of text."""

    def step(self, step: int, metrics: dict[str, float]) -> None:
        """Receive the metrics of a training step."""


@dataclass(frozen=True)
class NullListener:
    """Ignores all progress."""

    def log(self, text: str) -> None:
        """Do nothing."""

    def step(self, step: int, metrics: dict[str, float]) -> None:
        """Do nothing."""
