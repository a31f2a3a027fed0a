"""The space of embeddings: nearest neighbors and analogies by cosine similarity, and a projection to two dimensions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

Vector = Float[Tensor, "width"]


@dataclass(frozen=True)
class Neighbor:
    """A token and its cosine similarity to the query vector."""

    token: str
    cosine: float


@dataclass(frozen=True)
class Embeddings:
    """An embedding table: one vector for each token of a vocabulary."""

    vectors: Float[Tensor, "token width"]
    tokens: Sequence[str]

    def nearest(self, vector: Vector, count: int, exclude: Collection[int] = ()) -> list[Neighbor]:
        """The tokens with the vectors nearest to this one, without the excluded token ids."""
        cosines = normalize(self.vectors, dim=-1) @ normalize(vector, dim=-1)
        cosines[sorted(exclude)] = -torch.inf
        values, ids = cosines.topk(min(count, len(self.tokens) - len(set(exclude))))
        return [Neighbor(self.tokens[id], value) for id, value in zip(ids.tolist(), values.tolist(), strict=True)]


def cosine(first: Vector, second: Vector) -> float:
    """The cosine similarity of two vectors."""
    return float(cosine_similarity(first, second, dim=0))


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
