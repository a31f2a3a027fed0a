"""The page's colors can be told apart by people who see colors differently, and darker always means more.

How they are seen is computed with the matrices of Machado, Oliveira and Fernandes 2009 (severity 1), differences
as distances in CIELAB: of 2.3 two colors are just told apart when they touch, and beyond 10 at a glance.
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
EYES = {
    "all colors": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]])
WHITE = np.array([0.95047, 1.0, 1.08883])
PAPERS = {"light": (255, 255, 255), "dark": (20, 23, 27)}


def table(name: str) -> dict[str, np.ndarray]:
    """The stops of a scale, by look."""
    body = re.search(rf"const {name} = \{{(.*?)\n\}};", SCRIPT, re.DOTALL)
    assert body
    return {look: np.array(json.loads(stops)) for look, stops in re.findall(r"(\w+): (\[\[.*?\]\])", body[1])}


def lines() -> np.ndarray:
    """The colors of things beside each other."""
    found = re.search(r"LINES = (\[.*?\])", SCRIPT)
    assert found
    return np.array([[int(each[place : place + 2], 16) for place in (1, 3, 5)] for each in json.loads(found[1])])


def linear(colors: np.ndarray) -> np.ndarray:
    """Light, from what sRGB writes."""
    parts = np.asarray(colors) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def seen(colors: np.ndarray, eyes: str) -> np.ndarray:
    """Lightness, and the two directions of color (CIELAB), as these eyes have them."""
    light = np.clip(linear(colors) @ np.array(EYES[eyes]).T, 0, 1) @ XYZ.T / WHITE
    bent = np.where(light > (6 / 29) ** 3, np.cbrt(light), light / (3 * (6 / 29) ** 2) + 4 / 29)
    x, y, z = np.moveaxis(bent, -1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], -1)


def scale(stops: np.ndarray) -> np.ndarray:
    """All 255 colors between the stops."""
    places = np.linspace(0, len(stops) - 1, 255)
    return np.stack([np.interp(places, range(len(stops)), part) for part in stops.T], -1)


def apart(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.linalg.norm(one - other, axis=-1)


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("source_access", PAPERS)
def test_more_is_always_further_from_the_paper(look, eyes):
    steps = seen(scale(table("SHADES")[look]), eyes)
    assert (np.diff(steps[:, 0]) * {"light": -1, "dark": 1}[look] > 0).all()
    tenths = steps[np.linspace(0, 254, 11).astype(int)]
    assert apart(tenths[1:], tenths[:-1]).min() > 5
    signs = seen(scale(table("LEANING")[look]), eyes)[:, 0]
    away = {"light": -1, "dark": 1}[look]
    assert (np.diff(signs[127:]) * away > 0).all()
    assert (np.diff(signs[:128]) * away < 0).all()


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("source_access", PAPERS)
def test_below_and_above_zero_are_told_apart(look, eyes):
    steps = seen(scale(table("LEANING")[look]), eyes)
    away = np.arange(13, 128)  # from a tenth of the scale on
    assert apart(steps[127 - away], steps[127 + away]).min() > 10


@pytest.mark.parametrize("eyes", EYES)
def test_lines_are_told_apart_from_each_other(eyes):
    colors = seen(lines(), eyes)
    assert min(apart(one, other) for one, other in combinations(colors, 2)) > 10


@pytest.mark.parametrize("source_access", PAPERS)
def test_lines_stand_out_from_the_paper(look):
    brightness = linear(np.vstack([lines(), PAPERS[look]])) @ XYZ[1] + 0.05
    ratios = np.maximum(brightness[:-1], brightness[-1]) / np.minimum(brightness[:-1], brightness[-1])
    assert ratios.min() > 2.2
