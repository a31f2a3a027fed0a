"""Plots of attention: maps with words at both sides, and sheets of small images with heatmaps.

In a map, rows are target words (queries) and columns are source words (keys). If the gold alignment is known, its links
are drawn as boxes. On a sheet, images stand in rows, with captions and optional heatmaps.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unicodedata import east_asian_width

import numpy as np
from matplotlib import font_manager, rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from seq2see.inspection.plotting import ADVICE, DPI, GRAY, ORANGE, label_text, save_figure, use_chinese_font

Link = tuple[int, int]
"""(source word, target word), both counted from 0."""


@dataclass(frozen=True)
class Alignment:
    """One sentence pair to draw: the words (or tokens) of both sides, and the attention weights between them."""

    source: Sequence[str]
    target: Sequence[str]
    weights: NDArray[Any]  # target (queries), source (keys)
    links: Collection[Link] = ()
    """The sure links of the gold alignment."""
    possible: Collection[Link] = ()
    """The possible links of the gold alignment: they do not count as errors."""


def draw_alignments(alignments: Sequence[Alignment], path: Path, title: str = "", columns: int = 2) -> None:
    """Draw several attention maps in one image, with cells of equal size."""
    has_chinese_font = use_chinese_font()
    panels = [_Panel.of(alignment, has_chinese_font) for alignment in alignments]
    columns = min(columns, len(panels))
    rows = [panels[start : start + columns] for start in range(0, len(panels), columns)]
    heights = [max(panel.height for panel in row) for row in rows]
    widths = [max(row[column].width for row in rows if column < len(row)) for column in range(columns)]
    caption = _caption(panels, has_chinese_font)
    head, foot = 0.55 if title else 0.15, 0.22 * len(caption) + 0.2
    width, height = max(sum(widths), 7.5), sum(heights) + head + foot
    figure = Figure(figsize=(width, height), dpi=DPI)
    top = height - head
    for row, row_height in zip(rows, heights, strict=True):
        for column, panel in enumerate(row):
            left, bottom = sum(widths[:column]) + panel.left, top - panel.top - panel.body[1]
            box = (left / width, bottom / height, panel.body[0] / width, panel.body[1] / height)
            panel.draw(figure.add_axes(box), has_chinese_font)
        top -= row_height
    heading = title if fonts_have(title, has_chinese_font) else ""
    _write(figure.text(0.15 / width, 1 - 0.16 / height, heading, fontsize=13, va="top"))
    for number, line in enumerate(reversed(caption)):
        bottom = (0.15 + 0.22 * number) / height
        _write(figure.text(0.15 / width, bottom, line, fontsize=10, color=GRAY, va="bottom"))
    save_figure(figure, path)


@dataclass(frozen=True)
class _Panel:
    """One attention map with its sizes in inches; the margins depend on the labels."""

    alignment: Alignment
    source: list[str]
    target: list[str]
    uses_numbers: bool
    cell: float

    @staticmethod
    def of(alignment: Alignment, has_chinese_font: bool) -> _Panel:
        source, target = (_labels(words, has_chinese_font) for words in (alignment.source, alignment.target))
        uses_numbers = source != list(alignment.source) or target != list(alignment.target)
        longest = max(len(source), len(target), 1)
        return _Panel(alignment, source, target, uses_numbers, cell=min(0.4, 14 / longest))

    @property
    def body(self) -> tuple[float, float]:
        """Width and height of all cells."""
        return self.cell * max(len(self.source), 1), self.cell * max(len(self.target), 1)

    @property
    def font_size(self) -> float:
        """The font size: no letter is larger than a cell."""
        return min(12.0, 40 * self.cell)

    @property
    def rotated(self) -> bool:
        return self._inches(self.source) > 0.95 * self.cell

    @property
    def left(self) -> float:
        return self._inches(self.target) + 0.5

    @property
    def top(self) -> float:
        label = 0.87 * self._inches(self.source) + 0.1 if self.rotated else 0.2
        return label + 0.35

    @property
    def width(self) -> float:
        overhang = 0.5 * self._inches(self.source[-1:]) if self.rotated else 0.0
        return self.left + self.body[0] + overhang + 0.2

    @property
    def height(self) -> float:
        return self.top + self.body[1] + 0.3

    def draw(self, axes: Axes, has_chinese_font: bool) -> None:
        weights = np.asarray(self.alignment.weights, dtype=np.float64)
        if weights.shape != (len(self.target), len(self.source)):
            raise ValueError(f"weights {weights.shape}, {len(self.target)} target and {len(self.source)} source words")
        axes.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        slant: dict[str, Any] = {}
        if self.rotated:
            slant = {"rotation": 60, "ha": "left", "rotation_mode": "anchor"}
        axes.xaxis.tick_top()
        axes.set_xticks(range(len(self.source)), self.source, fontsize=self.font_size, **slant)
        axes.set_yticks(range(len(self.target)), self.target, fontsize=self.font_size)
        axes.tick_params(length=0)
        axes.set_xticks(np.arange(0.5, len(self.source) - 1), minor=True)
        axes.set_yticks(np.arange(0.5, len(self.target) - 1), minor=True)
        axes.tick_params(which="minor", length=0)
        axes.grid(which="minor", color="#E5E5E5", linewidth=0.8)
        axes.xaxis.set_label_position("top")
        axes.set_xlabel(label_text("source", has_chinese_font), fontsize=10, color=GRAY)
        axes.set_ylabel(label_text("target", has_chinese_font), fontsize=10, color=GRAY)
        for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
            _write(label)
        self._box_links(axes)

    def _inches(self, words: Sequence[str]) -> float:
        """The estimated width of the widest word: a Chinese character is one em wide, a letter 0.62 em."""
        ems = [sum(1.0 if east_asian_width(character) in "WF" else 0.62 for character in word) for word in words]
        return max(ems, default=0.0) * self.font_size / 72

    def _box_links(self, axes: Axes) -> None:
        sure = set(self.alignment.links)
        boxes: list[tuple[Link, Any, float]] = [(link, "solid", 2.4) for link in sorted(sure)]
        boxes += [(link, (0, (2, 1.5)), 1.6) for link in sorted(set(self.alignment.possible) - sure)]
        box_style: dict[str, Any] = {"fill": False, "edgecolor": ORANGE}
        for (source, target), style, width in boxes:
            # The links of a truncated text may refer to words that are not drawn.
            if source < len(self.source) and target < len(self.target):
                corner = (source - 0.42, target - 0.42)
                axes.add_patch(Rectangle(corner, 0.84, 0.84, linestyle=style, linewidth=width, **box_style))


def _caption(panels: Sequence[_Panel], has_chinese_font: bool) -> list[str]:
    """The lines of the legend; if no font can draw the words, also how to install one."""
    names = ["darker"]
    names += ["sure"] if any(panel.alignment.links for panel in panels) else []
    names += ["possible"] if any(panel.alignment.possible for panel in panels) else []
    lines = [label_text(name, has_chinese_font) for name in names]
    if any(panel.uses_numbers for panel in panels):
        advice = "" if has_chinese_font else f" {ADVICE}"
        lines.append(f"Numbers replace words that no installed font can draw.{advice}")
    return lines


def _labels(words: Sequence[str], has_chinese_font: bool) -> list[str]:
    """The words, or their numbers if the fonts lack one of the letters."""
    if fonts_have("".join(words), has_chinese_font):
        return list(words)
    return [str(number) for number in range(1, len(words) + 1)]


def fonts_have(text: str, has_chinese_font: bool) -> bool:
    """Whether the installed fonts have all letters of a text."""
    families = ["DejaVu Sans", *(rcParams["font.family"] if has_chinese_font else [])]
    fonts = [font_manager.get_font(font_manager.findfont(name)) for name in dict.fromkeys(families)]
    return all(any(font.get_char_index(ord(letter)) for font in fonts) for letter in set(text))


def _write(text: Any) -> None:
    """Draw dollar signs as they are, not as the delimiters of a formula."""
    text.set_parse_math(False)


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
        _write_on_sheet(panel, GAP, top + 0.05, row.heading, has_chinese_font, fontsize=10, color=ORANGE)
        for column, tile in enumerate(row.tiles):
            left = GAP + column * (TILE_SIZE + GAP)
            _draw_tile(panel, tile, (left, left + TILE_SIZE, top - TILE_SIZE, top))
            for line, text in enumerate(tile.caption.splitlines()):
                bottom = top - TILE_SIZE - 0.15 * (1 + line)
                _write_on_sheet(panel, left, bottom, truncate(text), has_chinese_font, fontsize=7.5, color=GRAY)
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


def _write_on_sheet(panel: Axes, left: float, bottom: float, text: str, has_chinese_font: bool, **style: Any) -> None:
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
