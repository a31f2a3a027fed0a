"""Many small images on one sheet, in rows, with a line of text below each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from seq2see.inspection.attention_plots import fonts_have
from seq2see.inspection.fonts import use_chinese_font
from seq2see.inspection.plotting import DPI, GRAY, ORANGE, label_text, save_figure

INCH = 1.15
"""How large an image is on the sheet."""
GAP, TEXT = 0.12, 0.2
"""Inches between two images, and for a line of text."""
MAX_CAPTION_LENGTH = 17
"""Letters that fit below an image."""


@dataclass(frozen=True)
class Tile:
    """An image on a sheet."""

    pixels: NDArray[np.uint8]  # (height, width, channel)
    caption: str = ""
    """What is said of it, in a few short lines."""
    heatmap: NDArray[Any] | None = None
    """(down, across): how much each part of it counts; laid over it, where the most is as bright as can be."""


@dataclass(frozen=True)
class TileRow:
    """Images that belong together, under a heading (a word of the table in both languages, or any text)."""

    heading: str
    tiles: Sequence[Tile]


def draw_tiles(rows: Sequence[TileRow], path: Path) -> None:
    """Draw a sheet; rows may differ in length."""
    has_chinese_font = use_chinese_font()
    lines = max(len(tile.caption.splitlines()) for row in rows for tile in row.tiles)
    height = INCH + GAP + TEXT * (1 + lines)
    across = max(len(row.tiles) for row in rows)
    size = (max(across * (INCH + GAP) + GAP, 4.0), height * len(rows) + GAP)
    figure = Figure(figsize=size, dpi=DPI)
    panel = figure.add_axes((0, 0, 1, 1))
    panel.set_axis_off()
    for number, row in enumerate(rows):
        top = size[1] - GAP - number * height - TEXT
        _write(panel, GAP, top + 0.05, row.heading, has_chinese_font, fontsize=10, color=ORANGE)
        for place, tile in enumerate(row.tiles):
            left = GAP + place * (INCH + GAP)
            _draw_tile(panel, tile, (left, left + INCH, top - INCH, top))
            for line, text in enumerate(tile.caption.splitlines()):
                _write(
                    panel,
                    left,
                    top - INCH - 0.15 * (1 + line),
                    truncate(text),
                    has_chinese_font,
                    fontsize=7.5,
                    color=GRAY,
                )
    panel.set_xlim(0, size[0])
    panel.set_ylim(0, size[1])
    save_figure(figure, path)


def _draw_tile(panel: Axes, tile: Tile, extent: tuple[float, float, float, float]) -> None:
    pixels = tile.pixels if tile.pixels.shape[2] == 3 else tile.pixels.repeat(3, axis=2)
    panel.imshow(pixels, extent=extent, interpolation="nearest", aspect="auto")
    if tile.heatmap is not None:
        most = float(tile.heatmap.max()) or 1.0
        looks: dict[str, Any] = {"cmap": "inferno", "vmin": 0, "vmax": most, "alpha": 0.65}
        panel.imshow(tile.heatmap, extent=extent, interpolation="bilinear", aspect="auto", **looks)


def _write(panel: Axes, left: float, floor: float, text: str, has_chinese_font: bool, **looks: Any) -> None:
    """A line of text; a dollar sign is a dollar sign, and what no font can write becomes question marks."""
    said = label_text(text, has_chinese_font)
    if not fonts_have(said, has_chinese_font):
        said = said.encode("ascii", "replace").decode()
    panel.text(left, floor, said, va="bottom", ha="left", parse_math=False, **looks)


def truncate(text: str) -> str:
    """The beginning of a long text.

    >>> shortened("a very long label indeed → 0.93")
    'a very long labe…'
    """
    return text if len(text) <= MAX_CAPTION_LENGTH else text[: MAX_CAPTION_LENGTH - 1] + "…"
