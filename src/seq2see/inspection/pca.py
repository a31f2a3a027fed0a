"""Principal component analysis: vectors projected onto the directions of largest variance (Pearson 1901)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class PCAResult:
    """The coordinates of each vector on the principal axes, and the share of the variance that each axis explains."""

    coordinates: NDArray[np.float64]
    explained_variance_ratio: tuple[float, ...]


def pca(vectors: Vectors, count: int = 2) -> PCAResult:
    """Project the centered vectors (row, width) onto the first `count` principal axes: (row, count).

    The axes are eigenvectors of the covariance matrix. The sign of an eigenvector is arbitrary; here its largest
    entry is positive, so that equal vectors always have equal coordinates.

    >>> pca(np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])).coordinates.round(6).tolist()
    [[-5.0, 0.0], [0.0, 0.0], [5.0, 0.0]]
    """
    centered = vectors.astype(np.float64) - vectors.mean(0, dtype=np.float64)
    values, axes = np.linalg.eigh(centered.T @ centered)  # in ascending order
    values, axes = values[::-1][:count].clip(min=0), axes[:, ::-1][:, :count]
    largest = np.abs(axes).argmax(0)
    axes = axes * np.where(axes[largest, np.arange(axes.shape[1])] < 0, -1, 1)
    total = float((centered**2).sum())
    explained_variance_ratio = tuple(float(each) / total if total else 0.0 for each in values)
    return PCAResult(centered @ axes + 0.0, explained_variance_ratio)  # + 0.0 turns -0.0 into 0.0
