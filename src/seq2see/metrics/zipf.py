"""Zipf's law: the second most frequent word is half as frequent as the first one, the third one a third, and so on.

Zipf 1935: frequency ∝ rank^slope, with a slope of about -1 for words. On two logarithmic axes it is a straight line;
longer n-grams have a flatter line.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

POINTS = 50
"""The number of ranks for the fit, evenly spaced on the logarithmic axis: otherwise rare words would dominate it."""


def rank_ranges(
    counts: Sequence[int], multiplicities: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The first and the last rank of each group of equal counts; counts descend, `multiplicities` are the group sizes.

    >>> [ranks.tolist() for ranks in rank_ranges([9, 4, 1], [1, 2, 3])]
    [[1.0, 2.0, 4.0], [1.0, 3.0, 6.0]]
    """
    last = np.cumsum(np.asarray(multiplicities, dtype=np.float64))
    return np.concatenate([[1.0], last[:-1] + 1]), last


def zipf_slope(
    counts: Sequence[int], multiplicities: Sequence[int], min_rank: int = 1, max_rank: int | None = None
) -> float:
    """The slope of log frequency over log rank between two ranks; NaN if there is only one rank.

    >>> round(zipf_slope([1200, 600, 400, 300, 240, 200], [1] * 6), 3)
    -1.0
    """
    _, last = rank_ranges(counts, multiplicities)
    max_rank = int(last[-1]) if max_rank is None else min(max_rank, int(last[-1]))
    if max_rank <= min_rank:
        return float("nan")
    ranks = np.unique(np.geomspace(min_rank, max_rank, POINTS).round())
    frequencies = np.asarray(counts, dtype=np.float64)[np.searchsorted(last, ranks)]
    return float(np.polyfit(np.log(ranks), np.log(frequencies), 1)[0])
