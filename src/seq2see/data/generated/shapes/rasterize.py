"""Rasterization of shapes, each of which is a signed distance function: positive inside, negative outside.

A point has coordinates (u, v) relative to the center of its shape, in units of its radius; v grows downwards. The
distance times the radius is a distance in pixels, and within half a pixel of the edge a pixel is partially covered:
this gives anti-aliased edges without supersampling.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

PerPixel = NDArray[np.float32]
"""(image, row, column): a value for each pixel."""
PerImage = NDArray[np.float32]
"""(image,) or (image, 2): a value or a point for each image."""


def circle(u: PerPixel, v: PerPixel) -> PerPixel:
    """1 - r."""
    return 1 - np.hypot(u, v)


def ring(u: PerPixel, v: PerPixel) -> PerPixel:
    """The area between two circles."""
    return np.float32(0.23) - np.abs(np.hypot(u, v) - np.float32(0.77))


def square(u: PerPixel, v: PerPixel) -> PerPixel:
    """max(|u|, |v|) is at most 0.85."""
    return np.float32(0.85) - np.maximum(np.abs(u), np.abs(v))


def diamond(u: PerPixel, v: PerPixel) -> PerPixel:
    """|u| + |v| < 1, scaled to be narrower than high, so that it is not a rotated square."""
    return (1 - np.float32(1.35) * np.abs(u) - np.abs(v)) * np.float32(0.6)


def triangle(u: PerPixel, v: PerPixel) -> PerPixel:
    """The inner side of three lines."""
    return np.float32(0.5) - np.maximum(v, np.float32(0.866) * np.abs(u) - np.float32(0.5) * v)


def bar(u: PerPixel, v: PerPixel) -> PerPixel:
    """A flat rectangle."""
    return np.minimum(1 - np.abs(u), np.float32(0.3) - np.abs(v))


def cross(u: PerPixel, v: PerPixel) -> PerPixel:
    """The union of two bars."""
    return np.maximum(bar(u, v), bar(v, u))


def star(u: PerPixel, v: PerPixel) -> PerPixel:
    """A pentagram of five lines: the points on the inner side of at least four of them."""
    angles = np.pi / 2 + np.arange(5, dtype=np.float32) * np.float32(2 * np.pi / 5)
    inside = [np.float32(0.309) - (np.cos(a) * u + np.sin(a) * v).astype(np.float32) for a in angles]
    lowest = np.minimum(inside[0], inside[1])
    second = np.maximum(inside[0], inside[1])
    for each in inside[2:]:
        second = np.minimum(second, np.maximum(lowest, each))
        lowest = np.minimum(lowest, each)
    return second


def moon(u: PerPixel, v: PerPixel) -> PerPixel:
    """A circle without its intersection with another."""
    return np.minimum(circle(u, v), np.hypot(u - np.float32(0.5), v) - np.float32(0.8))


def heart(u: PerPixel, v: PerPixel) -> PerPixel:
    """The union of two adjacent circles and a triangle below them."""
    side = np.abs(u)
    lobes = np.float32(0.5) - np.hypot(side - np.float32(0.45), v + np.float32(0.35))
    point = np.minimum((np.float32(0.95) - np.float32(1.35) * side - v) * np.float32(0.6), v + np.float32(0.35))
    return np.maximum(lobes, point)


SHAPES: dict[str, Callable[[PerPixel, PerPixel], PerPixel]] = {
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


def coverage(name: str, centers: PerImage, radii: PerImage, rotations: PerImage, image_size: int) -> PerPixel:
    """(image, row, column): the share of each pixel that a shape covers; `centers` are (column, row) in pixels."""
    pixels = np.arange(image_size, dtype=np.float32) + np.float32(0.5)
    across = (pixels[None, None, :] - centers[:, 0, None, None]) / radii[:, None, None]
    down = (pixels[None, :, None] - centers[:, 1, None, None]) / radii[:, None, None]
    cosine, sine = np.cos(rotations)[:, None, None], np.sin(rotations)[:, None, None]
    depth = SHAPES[name](cosine * across + sine * down, cosine * down - sine * across)
    return np.clip(depth * radii[:, None, None] + np.float32(0.5), 0, 1)
