"""The colors of the page are distinguishable with color vision deficiencies, and darker always means more.

Perceived colors are computed with the matrices of Machado, Oliveira and Fernandes 2009 (severity 1), differences
as distances in CIELAB: 2.3 is a just noticeable difference of adjacent colors, and above 10 the difference is obvious.
"""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import seq2see.explorer

SCRIPT = (Path(seq2see.explorer.__file__).parent / "page/parts/colors.js").read_text(encoding="utf-8")
VISION = {
    "all colors": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]])
WHITE = np.array([0.95047, 1.0, 1.08883])
BACKGROUNDS = {"light": (255, 255, 255), "dark": (20, 23, 27)}


def table(name: str) -> dict[str, np.ndarray]:
    """The stops of a color scale, by theme."""
    body = re.search(rf"const {name} = \{{(.*?)\n\}};", SCRIPT, re.DOTALL)
    assert body
    return {theme: np.array(json.loads(stops)) for theme, stops in re.findall(r"(\w+): (\[\[.*?\]\])", body[1])}


def lines() -> np.ndarray:
    """The colors of lines."""
    found = re.search(r"LINE_COLORS = (\[.*?\])", SCRIPT)
    assert found
    return np.array([[int(each[start : start + 2], 16) for start in (1, 3, 5)] for each in json.loads(found[1])])


def linear(colors: np.ndarray) -> np.ndarray:
    """Linear light from sRGB values."""
    parts = np.asarray(colors) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def perceived(colors: np.ndarray, vision: str) -> np.ndarray:
    """CIELAB colors (lightness and two color axes) with this color vision."""
    light = np.clip(linear(colors) @ np.array(VISION[vision]).T, 0, 1) @ XYZ.T / WHITE
    scaled = np.where(light > (6 / 29) ** 3, np.cbrt(light), light / (3 * (6 / 29) ** 2) + 4 / 29)
    x, y, z = np.moveaxis(scaled, -1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], -1)


def scale(stops: np.ndarray) -> np.ndarray:
    """All 255 colors between the stops."""
    positions = np.linspace(0, len(stops) - 1, 255)
    return np.stack([np.interp(positions, range(len(stops)), part) for part in stops.T], -1)


def distance(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.linalg.norm(first - second, axis=-1)


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("theme", BACKGROUNDS)
def test_larger_values_are_always_further_from_the_background(theme, vision):
    steps = perceived(scale(table("SEQUENTIAL")[theme]), vision)
    assert (np.diff(steps[:, 0]) * {"light": -1, "dark": 1}[theme] > 0).all()
    tenths = steps[np.linspace(0, 254, 11).astype(int)]
    assert distance(tenths[1:], tenths[:-1]).min() > 5
    diverging = perceived(scale(table("DIVERGING")[theme]), vision)[:, 0]
    direction = {"light": -1, "dark": 1}[theme]
    assert (np.diff(diverging[127:]) * direction > 0).all()
    assert (np.diff(diverging[:128]) * direction < 0).all()


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("theme", BACKGROUNDS)
def test_negative_and_positive_values_are_distinguishable(theme, vision):
    steps = perceived(scale(table("DIVERGING")[theme]), vision)
    offsets = np.arange(13, 128)  # from a tenth of the scale on
    assert distance(steps[127 - offsets], steps[127 + offsets]).min() > 10


@pytest.mark.parametrize("vision", VISION)
def test_lines_are_distinguishable(vision):
    colors = perceived(lines(), vision)
    assert min(distance(first, second) for first, second in combinations(colors, 2)) > 10


@pytest.mark.parametrize("theme", BACKGROUNDS)
def test_lines_contrast_with_the_background(theme):
    brightness = linear(np.vstack([lines(), BACKGROUNDS[theme]])) @ XYZ[1] + 0.05
    ratios = np.maximum(brightness[:-1], brightness[-1]) / np.minimum(brightness[:-1], brightness[-1])
    assert ratios.min() > 2.2
