"""The singular values of a matrix, before and after an adapter changed it.

A matrix W = U diag(s) Vᵀ stretches the direction of each row of Vᵀ by a singular value s. An adapter that multiplies
singular values strengthens or weakens these directions; another adapter also turns them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

COLUMNS = 96
"""The number of columns of a heat map: as many of the singular values of each matrix are shown."""


@dataclass(frozen=True)
class AdaptedMatrix:
    """The singular values of a matrix without and with its adapter, each in descending order, and their factors."""

    name: str
    before: NDArray[np.float32]
    after: NDArray[np.float32]
    factors: NDArray[np.float32]
    """The factor of each singular value of `before`."""

    @property
    def change(self) -> float:
        """The root mean square of factor - 1."""
        return float(np.sqrt(np.mean((self.factors - 1) ** 2)))


def resampled(values: NDArray[np.float32], columns: int = COLUMNS) -> NDArray[np.float32]:
    """A row of a heat map: some of the values at equal distances, or each several times.

    Means would be the nearer to 1, the more values a matrix has.

    >>> resampled(np.array([1, 3, 5, 7], np.float32), 2).tolist(), resampled(np.array([1, 2], np.float32), 4).tolist()
    ([3.0, 7.0], [1.0, 1.0, 2.0, 2.0])
    """
    return values[((np.arange(columns) + 0.5) * len(values) / columns).astype(int)]


def singular_values(weight: Tensor) -> NDArray[np.float32]:
    """The singular values of a matrix, the largest first."""
    values: NDArray[np.float32] = torch.linalg.svdvals(weight.detach().float()).cpu().numpy()
    return values
