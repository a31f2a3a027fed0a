"""Many dimensions drawn as a few: the directions in which vectors differ most (Pearson 1901)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class PCAResult:
    """Where each vector lies on the first few principal axes, and which share of all variance each axis has."""

    coordinates: NDArray[np.float64]
    explained_variance_ratio: tuple[float, ...]


def pca(vectors: Vectors, count: int = 2) -> PCAResult:
    """The vectors (row, width) as (row, count): their mean taken away, seen from where they are spread the widest.

    The axes are eigenvectors of the covariance. An eigenvector may as well point the other way; here its largest
    entry is positive, so that the same vectors always give the same map.

    >>> principal(np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])).places.round(6).tolist()
    [[-5.0, 0.0], [0.0, 0.0], [5.0, 0.0]]
    """
    centerd = vectors.astype(np.float64) - vectors.mean(0, dtype=np.float64)
    values, axes = np.linalg.eigh(centerd.T @ centerd)  # the smallest comes first
    values, axes = values[::-1][:count].clip(min=0), axes[:, ::-1][:, :count]
    largest = np.abs(axes).argmax(0)
    axes = axes * np.where(axes[largest, np.arange(axes.shape[1])] < 0, -1, 1)
    total = float((centerd**2).sum())
    explained_variance_ratio = tuple(float(each) / total if total else 0.0 for each in values)
    return PCAResult(centerd @ axes + 0.0, explained_variance_ratio)  # + 0.0 makes no zero negative
