"""Long curves with fewer points: no picture has a pixel for each of a million steps.

Steps are cut into stretches of like length. Of each stretch the lines are kept in which a figure is lowest or highest,
so that no spike is lost; and because a mean of extremes is no mean, the true means of every stretch are told beside.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

Line = dict[str, Any]
"""What was noted at one step: figures by their names."""

MOST_LINES = 4_000
"""Fewer are left as they are."""
STRETCHES = 1_000


def thinned(lines: list[Line]) -> tuple[list[Line], list[Line] | None]:
    """The lines that make a curve what it is, the last among them; and the means of all stretches, where some are left.

    >>> spike = [{"step": step, "loss": 9.0 if step == 5_000 else 1.0} for step in range(100_000)]
    >>> kept, means = thinned(spike)
    >>> len(kept) <= 2 * STRETCHES + 1, {"step": 5_000, "loss": 9.0} in kept, kept[-1]["step"], len(means)
    (True, True, 99999, 1000)
    """
    if len(lines) <= MOST_LINES:
        return lines, None
    kept, means = {len(lines) - 1}, []
    edges = [len(lines) * number // STRETCHES for number in range(STRETCHES + 1)]
    for start, end in pairwise(edges):
        figures = _figures(lines, start, end)
        for places in figures.values():
            kept |= {min(places, key=places.__getitem__), max(places, key=places.__getitem__)}
        mean = {name: math.fsum(places.values()) / len(places) for name, places in figures.items()}
        means.append(mean | {"step": lines[(start + end) // 2]["step"]})
    return [lines[place] for place in sorted(kept)], means


def _figures(lines: list[Line], start: int, end: int) -> dict[str, dict[int, float]]:
    """Every figure of a stretch, by the places of its lines; no curve has a place for what is not a number."""
    found: dict[str, dict[int, float]] = {}
    for place in range(start, end):
        for name, value in lines[place].items():
            if name != "step" and isinstance(value, int | float) and math.isfinite(value):
                found.setdefault(name, {})[place] = value
    return found
