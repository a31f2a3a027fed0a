"""Long curves with fewer points: no image has a pixel for each of a million steps.

Steps are cut into stretches of like length. Of each stretch the lines are kept in which a figure is lowest or highest,
so that no spike is lost; and because a mean of extremes is no mean, the true means of every stretch are told beside.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

MetricsRow = dict[str, Any]
"""What was noted at one step: figures by their names."""

MAX_POINTS = 4_000
"""Fewer are left as they are."""
SEGMENTS = 1_000


def downsample(lines: list[MetricsRow]) -> tuple[list[MetricsRow], list[MetricsRow] | None]:
    """The lines that make a curve what it is, the last among them; and the means of all stretches, where some are left.

    >>> spike = [{"step": step, "loss": 9.0 if step == 5_000 else 1.0} for step in range(100_000)]
    >>> kept, means = thinned(spike)
    >>> len(kept) <= 2 * STRETCHES + 1, {"step": 5_000, "loss": 9.0} in kept, kept[-1]["step"], len(means)
    (True, True, 99999, 1000)
    """
    if len(lines) <= MAX_POINTS:
        return lines, None
    kept, means = {len(lines) - 1}, []
    edges = [len(lines) * number // SEGMENTS for number in range(SEGMENTS + 1)]
    for start, end in pairwise(edges):
        metrics = _metrics_by_name(lines, start, end)
        for by_line in metrics.values():
            kept |= {min(by_line, key=by_line.__getitem__), max(by_line, key=by_line.__getitem__)}
        mean = {name: math.fsum(by_line.values()) / len(by_line) for name, by_line in metrics.items()}
        means.append(mean | {"step": lines[(start + end) // 2]["step"]})
    return [lines[place] for place in sorted(kept)], means


def _metrics_by_name(lines: list[MetricsRow], start: int, end: int) -> dict[str, dict[int, float]]:
    """Every figure of a stretch, by the places of its lines; no curve has a place for what is not a number."""
    found: dict[str, dict[int, float]] = {}
    for place in range(start, end):
        for name, value in lines[place].items():
            if name != "step" and isinstance(value, int | float) and math.isfinite(value):
                found.setdefault(name, {})[place] = value
    return found
