"""Painting shapes: each is a formula that says how deep inside the shape a point lies.

A point has coordinates (u, v) as seen from the middle of its shape, in units of the shape's radius; v grows downwards.
What is positive lies inside. Times the radius in pixels the depth is a distance in pixels, and half a pixel around
the edge is where a pixel is covered in part: so edges are smooth without drawing anything larger first.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Plane = NDArray[np.float32]
"""(image, row, column): a number for each pixel."""
Points = NDArray[np.float32]
"""(image,) or (image, 2): a number for each image, or a place in it."""


def circle(u: Plane, v: Plane) -> Plane:
    """1 - r."""
    return 1 - np.hypot(u, v)


def ring(u: Plane, v: Plane) -> Plane:
    """Between two circles."""
    return np.float32(0.23) - np.abs(np.hypot(u, v) - np.float32(0.77))


def square(u: Plane, v: Plane) -> Plane:
    """As far from the middle as the larger coordinate says."""
    return np.float32(0.85) - np.maximum(np.abs(u), np.abs(v))


def diamond(u: Plane, v: Plane) -> Plane:
    """|u| + |v| < 1, a little slimmer than it is high, so that it is no turned square."""
    return (1 - np.float32(1.35) * np.abs(u) - np.abs(v)) * np.float32(0.6)


def triangle(u: Plane, v: Plane) -> Plane:
    """On the inner side of three lines."""
    return np.float32(0.5) - np.maximum(v, np.float32(0.866) * np.abs(u) - np.float32(0.5) * v)


def bar(u: Plane, v: Plane) -> Plane:
    """A flat rectangle."""
    return np.minimum(1 - np.abs(u), np.float32(0.3) - np.abs(v))


def cross(u: Plane, v: Plane) -> Plane:
    """Two bars."""
    return np.maximum(bar(u, v), bar(v, u))


def star(u: Plane, v: Plane) -> Plane:
    """Five lines make a pentagram; inside is what lies on the inner side of at least four of them."""
    angles = np.pi / 2 + np.arange(5, dtype=np.float32) * np.float32(2 * np.pi / 5)
    inside = [np.float32(0.309) - (np.cos(a) * u + np.sin(a) * v).astype(np.float32) for a in angles]
    lowest = np.minimum(inside[0], inside[1])
    second = np.maximum(inside[0], inside[1])
    for each in inside[2:]:
        second = np.minimum(second, np.maximum(lowest, each))
        lowest = np.minimum(lowest, each)
    return second


def moon(u: Plane, v: Plane) -> Plane:
    """A circle out of which another is bitten."""
    return np.minimum(circle(u, v), np.hypot(u - np.float32(0.5), v) - np.float32(0.8))


def heart(u: Plane, v: Plane) -> Plane:
    """Two circles side by side above a point."""
    side = np.abs(u)
    lobes = np.float32(0.5) - np.hypot(side - np.float32(0.45), v + np.float32(0.35))
    point = np.minimum((np.float32(0.95) - np.float32(1.35) * side - v) * np.float32(0.6), v + np.float32(0.35))
    return np.maximum(lobes, point)


SHAPES: dict[str, Callable[[Plane, Plane], Plane]] = {
    "bar": bar,
    "circle": circle,
    "cross": cross,
    "diamond": diamond,
    "heart": heart,
    "moon": moon,
    "ring": ring,
    "square": square,
    "star": star,
    "triangle": triangle,
}


def coverage(name: str, centers: Points, radii: Points, rotations: Points, side: int) -> Plane:
    """(image, row, column): which share of each pixel a shape covers; `centers` are (column, row) in pixels."""
    places = np.arange(side, dtype=np.float32) + np.float32(0.5)
    across = (places[None, None, :] - centers[:, 0, None, None]) / radii[:, None, None]
    down = (places[None, :, None] - centers[:, 1, None, None]) / radii[:, None, None]
    cosine, sine = np.cos(rotations)[:, None, None], np.sin(rotations)[:, None, None]
    depth = SHAPES[name](cosine * across + sine * down, cosine * down - sine * across)
    return np.clip(depth * radii[:, None, None] + np.float32(0.5), 0, 1)
