"""Nearest neighbors in an embedding table, by cosine similarity: 1 for equal directions, 0 for orthogonal vectors."""

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
