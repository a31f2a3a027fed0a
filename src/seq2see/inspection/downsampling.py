"""Downsampling of long training curves: no screen has a pixel for each of a million steps.

The rows are divided into segments of equal length. Of each segment, the rows with the minimum and the maximum of each
metric are kept, so that no spike is lost. The mean of these extremes is not the mean of the segment, so the mean of
every segment is returned as well.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

MetricsRow = dict[str, Any]
"""One row of `metrics.jsonl`: the metrics of one step, by name."""

MAX_POINTS = 4_000
"""Up to this number of rows, nothing is removed."""
SEGMENTS = 1_000


def downsample(lines: list[MetricsRow]) -> tuple[list[MetricsRow], list[MetricsRow] | None]:
    """The rows with extreme values and the last row; and the means of all segments, or None if no row was removed.

    >>> spike = [{"step": step, "loss": 9.0 if step == 5_000 else 1.0} for step in range(100_000)]
    >>> rows, means = downsample(spike)
    >>> len(rows) <= 2 * SEGMENTS + 1, {"step": 5_000, "loss": 9.0} in rows, rows[-1]["step"], len(means)
    (True, True, 99999, 1000)
    """
    if len(lines) <= MAX_POINTS:
        return lines, None
    indices, means = {len(lines) - 1}, []
    edges = [len(lines) * number // SEGMENTS for number in range(SEGMENTS + 1)]
    for start, end in pairwise(edges):
        metrics = _metrics_by_name(lines, start, end)
        for values in metrics.values():
            indices |= {min(values, key=values.__getitem__), max(values, key=values.__getitem__)}
        mean = {name: math.fsum(values.values()) / len(values) for name, values in metrics.items()}
        means.append(mean | {"step": lines[(start + end) // 2]["step"]})
    return [lines[index] for index in sorted(indices)], means


def _metrics_by_name(lines: list[MetricsRow], start: int, end: int) -> dict[str, dict[int, float]]:
    """The values of each metric in a segment, by row index; values that are no finite numbers are skipped."""
    metrics: dict[str, dict[int, float]] = {}
    for index in range(start, end):
        for name, value in lines[index].items():
            if name != "step" and isinstance(value, int | float) and math.isfinite(value):
                metrics.setdefault(name, {})[index] = value
    return metrics
