"""Principal components, compared with numpy's singular value decomposition, and their signs."""

from __future__ import annotations

import numpy as np
import pytest

from seq2see.inspection.embedding_space import pca

RANDOM = np.random.default_rng(3)
VECTORS = RANDOM.normal(size=(40, 7)) * np.array([9, 5, 1, 1, 0.5, 0.1, 3])


def test_coordinates_are_those_of_a_singular_value_decomposition():
    centered = VECTORS - VECTORS.mean(0)
    left, values, _ = np.linalg.svd(centered, full_matrices=False)
    found = pca(VECTORS, 3)
    np.testing.assert_allclose(np.abs(found.coordinates), np.abs(left * values)[:, :3], atol=1e-9)
    np.testing.assert_allclose(found.explained_variance_ratio, (values**2 / (values**2).sum())[:3])


def test_coordinates_depend_neither_on_the_order_of_rows_nor_on_the_mean_of_the_vectors():
    order = RANDOM.permutation(len(VECTORS))
    np.testing.assert_allclose(pca(VECTORS[order] + 100).coordinates, pca(VECTORS).coordinates[order], atol=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_the_largest_entry_of_every_axis_is_positive(seed):
    vectors = np.random.default_rng(seed).normal(size=(20, 5))
    axes, *_ = np.linalg.lstsq(vectors - vectors.mean(0), pca(vectors, 5).coordinates, rcond=None)
    assert (axes[np.abs(axes).argmax(0), range(5)] > 0).all()


def test_equal_vectors_have_equal_coordinates():
    found = pca(np.ones((3, 4)))
    assert (found.coordinates == 0).all()
    assert found.explained_variance_ratio == (0, 0)
