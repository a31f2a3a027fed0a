"""Editing the patches of an image: reorder or mask them, to see what a prediction depends on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from seq2see.core.errors import UserError

Pixels = NDArray[np.uint8]
"""(height, width, channel)"""
MASK_VALUE = 128
"""The gray value of masked patches, in the middle between black and white."""


def reorder_patches(pixels: Pixels, order: Sequence[int], size: int) -> Pixels:
    """Put patch number `order[i]` of `size` x `size` pixels at index i; an empty order changes nothing.

    >>> reorder_patches(np.array([[[1], [2]]], dtype=np.uint8), [1, 0], 1).flatten().tolist()
    [2, 1]
    """
    count, columns = _patch_counts(pixels, size)
    if not order:
        return pixels
    if sorted(order) != list(range(count)):
        raise UserError(f"The order must contain each of the {count} patches once.", location="order")
    result = pixels.copy()
    for index, patch in enumerate(order):
        result[_patch_slices(index, columns, size)] = pixels[_patch_slices(patch, columns, size)]
    return result


def mask_patches(pixels: Pixels, indices: Sequence[int], size: int) -> Pixels:
    """Fill the patches with these indices with gray.

    >>> mask_patches(np.array([[[1], [2]]], dtype=np.uint8), [1], 1).flatten().tolist()
    [1, 128]
    """
    count, columns = _patch_counts(pixels, size)
    if any(index >= count for index in indices):
        raise UserError(f"There are {count} patches.", location="cover", hint="They are counted from 0.")
    result = pixels.copy()
    for index in indices:
        result[_patch_slices(index, columns, size)] = MASK_VALUE
    return result


def _patch_counts(pixels: Pixels, size: int) -> tuple[int, int]:
    """The number of patches, and the number of patches in a row."""
    height, width, _ = pixels.shape
    return (height // size) * (width // size), width // size


def _patch_slices(index: int, columns: int, size: int) -> tuple[slice, slice]:
    row, column = divmod(index, columns)
    return slice(row * size, (row + 1) * size), slice(column * size, (column + 1) * size)
