"""Looking at vectors of words: which are near each other, and what sums and differences of them lead to.

Near is what points the same way: cosine similarity, 1 for the same direction, 0 for nothing in common.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

Vector = Float[Tensor, "width"]


@dataclass(frozen=True)
class Neighbor:
    """A piece, and how near it is: the cosine."""

    token: str
    cosine: float


@dataclass(frozen=True)
class Embeddings:
    """A vector for each piece that a model knows."""

    vectors: Float[Tensor, "piece width"]
    pieces: Sequence[str]

    def nearest(self, vector: Vector, count: int, exclude: Collection[int] = ()) -> list[Neighbor]:
        """The pieces whose vectors are nearest to this one, less those that are left out."""
        cosines = normalize(self.vectors, dim=-1) @ normalize(vector, dim=-1)
        cosines[sorted(exclude)] = -torch.inf
        values, numbers = cosines.topk(min(count, len(self.pieces) - len(set(exclude))))
        rows = zip(numbers.tolist(), values.tolist(), strict=True)
        return [Neighbor(self.pieces[number], value) for number, value in rows]


def cosine(first: Vector, second: Vector) -> float:
    """How much two vectors point the same way."""
    return float(cosine_similarity(first, second, dim=0))
