"""How many numbers a program stores at once, and how many operations it computes.

Both forms of automatic differentiation in this folder report to such a counter, so that their memory and time can be
compared as counts, independent of the machine.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class FloatCounter:
    """The numbers that are stored now, the largest number of them so far, and the operations so far."""

    stored: int = 0
    peak: int = 0
    operations: int = 0

    def store(self, count: int) -> None:
        """Numbers are stored."""
        self.stored += count
        self.peak = max(self.peak, self.stored)

    def release(self, count: int) -> None:
        """Numbers are no longer needed."""
        self.stored -= count

    def compute(self, count: int) -> None:
        """Operations on derivatives are computed."""
        self.operations += count
