"""Images whose patches are moved or covered: what a model makes of them tells what it looks at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from seq2see.core.errors import UserError

Pixels = NDArray[np.uint8]
"""(height, width, channel)"""
MASK_VALUE = 128
"""What a covered patch is painted with: in the middle between black and white, so that it says nothing."""


def reorder_patches(pixels: Pixels, order: Sequence[int], size: int) -> Pixels:
    """The same patches of `size` x `size` pixels, number `order[i]` at place i; no order: all where they are.

    >>> moved(np.array([[[1], [2]]], dtype=np.uint8), [1, 0], 1).flatten().tolist()
    [2, 1]
    """
    count, across = _grid(pixels, size)
    if not order:
        return pixels
    if sorted(order) != list(range(count)):
        raise UserError(f"An order of these {count} patches names each of them once.", location="order")
    result = pixels.copy()
    for place, patch in enumerate(order):
        result[_square(place, across, size)] = pixels[_square(patch, across, size)]
    return result


def mask_patches(pixels: Pixels, places: Sequence[int], size: int) -> Pixels:
    """The image with the patches at some places painted over.

    >>> covered(np.array([[[1], [2]]], dtype=np.uint8), [1], 1).flatten().tolist()
    [1, 128]
    """
    count, across = _grid(pixels, size)
    if any(place >= count for place in places):
        raise UserError(f"There are {count} patches.", location="cover", hint="They are counted from 0.")
    result = pixels.copy()
    for place in places:
        result[_square(place, across, size)] = MASK_VALUE
    return result


def _grid(pixels: Pixels, size: int) -> tuple[int, int]:
    """How many patches there are, and how many of them from left to right."""
    height, width, _ = pixels.shape
    return (height // size) * (width // size), width // size


def _square(place: int, across: int, size: int) -> tuple[slice, slice]:
    row, column = divmod(place, across)
    return slice(row * size, (row + 1) * size), slice(column * size, (column + 1) * size)
