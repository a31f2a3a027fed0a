"""Batch norm and layer norm in the shapes of the course notes: they differ in the axes of their mean and variance.

For examples (row, feature), batch norm has one mean for each feature, (1, feature), and layer norm one for each row,
(row, 1). For texts (row, time, feature), batch norm has (1, 1, feature). Layer norm of a Transformer has one mean for
each token, (row, time, 1); that of the notes has one for each sentence, (row, 1, 1).
"""

from __future__ import annotations

from torch import Tensor

EPSILON = 1e-5
"""The number that is added to the variance."""


def standardize(values: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Mean 0 and variance 1 over these axes."""
    mean = values.mean(axes, keepdim=True)
    variance = (values - mean).square().mean(axes, keepdim=True)
    return (values - mean) / (variance + EPSILON).sqrt()


def batch_norm(values: Tensor) -> Tensor:
    """Standardize each feature over all rows, and over time if there is such an axis (Ioffe & Szegedy 2015)."""
    return standardize(values, tuple(range(values.dim() - 1)))


def layer_norm(values: Tensor) -> Tensor:
    """Standardize each vector over its features (Ba, Kiros & Hinton 2016)."""
    return standardize(values, (-1,))


def sentence_norm(values: Tensor) -> Tensor:
    """Standardize each sentence over time and features: the layer norm of the course notes in three dimensions."""
    return standardize(values, (1, 2))
