"""A sheet of small images in rows, with captions and optional heatmaps."""

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
from seq2see.inspection.plotting import DPI, GRAY, ORANGE, label_text, save_figure, use_chinese_font

TILE_SIZE = 1.15
"""Width and height of an image on the sheet, in inches."""
GAP, LINE_HEIGHT = 0.12, 0.2
"""The space between two images, and the height of a line of text, in inches."""
MAX_CAPTION_LENGTH = 17
"""The number of letters that fit below an image."""


@dataclass(frozen=True)
class Tile:
    """An image on a sheet."""

    pixels: NDArray[np.uint8]  # (height, width, channel)
    caption: str = ""
    """A few short lines below the image."""
    heatmap: NDArray[Any] | None = None
    """(row, column): weights that are drawn over the image, scaled so that the largest has the brightest color."""


@dataclass(frozen=True)
class TileRow:
    """A row of images with a heading (a key of `plotting.LABELS`, which is drawn in both languages, or any text)."""

    heading: str
    tiles: Sequence[Tile]


def draw_tiles(rows: Sequence[TileRow], path: Path) -> None:
    """Draw a sheet of images; rows may differ in length."""
    has_chinese_font = use_chinese_font()
    lines = max(len(tile.caption.splitlines()) for row in rows for tile in row.tiles)
    height = TILE_SIZE + GAP + LINE_HEIGHT * (1 + lines)
    columns = max(len(row.tiles) for row in rows)
    size = (max(columns * (TILE_SIZE + GAP) + GAP, 4.0), height * len(rows) + GAP)
    figure = Figure(figsize=size, dpi=DPI)
    panel = figure.add_axes((0, 0, 1, 1))
    panel.set_axis_off()
    for number, row in enumerate(rows):
        top = size[1] - GAP - number * height - LINE_HEIGHT
        _write(panel, GAP, top + 0.05, row.heading, has_chinese_font, fontsize=10, color=ORANGE)
        for column, tile in enumerate(row.tiles):
            left = GAP + column * (TILE_SIZE + GAP)
            _draw_tile(panel, tile, (left, left + TILE_SIZE, top - TILE_SIZE, top))
            for line, text in enumerate(tile.caption.splitlines()):
                bottom = top - TILE_SIZE - 0.15 * (1 + line)
                _write(panel, left, bottom, truncate(text), has_chinese_font, fontsize=7.5, color=GRAY)
    panel.set_xlim(0, size[0])
    panel.set_ylim(0, size[1])
    save_figure(figure, path)


def _draw_tile(panel: Axes, tile: Tile, extent: tuple[float, float, float, float]) -> None:
    pixels = tile.pixels if tile.pixels.shape[2] == 3 else tile.pixels.repeat(3, axis=2)
    panel.imshow(pixels, extent=extent, interpolation="nearest", aspect="auto")
    if tile.heatmap is not None:
        max_weight = float(tile.heatmap.max()) or 1.0
        style: dict[str, Any] = {"cmap": "inferno", "vmin": 0, "vmax": max_weight, "alpha": 0.65}
        panel.imshow(tile.heatmap, extent=extent, interpolation="bilinear", aspect="auto", **style)


def _write(panel: Axes, left: float, bottom: float, text: str, has_chinese_font: bool, **style: Any) -> None:
    """Draw a line of text without formulas; if no font has one of its letters, non-ASCII letters become "?"."""
    label = label_text(text, has_chinese_font)
    if not fonts_have(label, has_chinese_font):
        label = label.encode("ascii", "replace").decode()
    panel.text(left, bottom, label, va="bottom", ha="left", parse_math=False, **style)


def truncate(text: str) -> str:
    """Shorten a text to `MAX_CAPTION_LENGTH` letters.

    >>> truncate("a very long label indeed → 0.93")
    'a very long labe…'
    """
    return text if len(text) <= MAX_CAPTION_LENGTH else text[: MAX_CAPTION_LENGTH - 1] + "…"
