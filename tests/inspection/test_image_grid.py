"""Sheets of images, and attention rollout."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from seq2see.inspection.attention_measures import rollout
from seq2see.inspection.attention_plots import Tile, TileRow, draw_tiles


def flat(color: tuple[int, ...], size: int = 4) -> np.ndarray:
    return np.full((size, size, len(color)), color, np.uint8)


def colors(path: Path) -> set[tuple[int, ...]]:
    image = Image.open(BytesIO(path.read_bytes())).convert("RGB")
    return {color for _, color in image.getcolors(1 << 24)}


def test_a_sheet_shows_every_image_in_its_colors(tmp_path: Path):
    above = [Tile(flat((250, 0, 10)), "猫 → $x^2$ 0.93"), Tile(flat((0, 240, 20)), "too long a name for it")]
    rows = [TileRow("images", above), TileRow("anything at all", [Tile(flat((90,)))])]
    draw_tiles(rows, tmp_path / "sheet.png")
    assert {(250, 0, 10), (0, 240, 20), (90, 90, 90)} <= colors(tmp_path / "sheet.png")


def test_the_heatmap_is_drawn_over_the_image(tmp_path: Path):
    heatmap = np.array([[0.0, 0.0], [0.0, 0.3]])
    draw_tiles([TileRow("", [Tile(flat((0, 0, 0), 8), heatmap=heatmap)])], tmp_path / "sheet.png")
    image = np.array(Image.open(tmp_path / "sheet.png").convert("L")).astype(float)
    rows, columns = np.nonzero(image < 5)  # black where the heatmap is 0
    bright = np.argwhere((image > 100) & (image < 250))
    assert bright.mean(0)[0] > rows.mean()
    assert bright.mean(0)[1] > columns.mean()


def test_rollout_by_hand():
    uniform, first = np.full((2, 2, 2), 0.5), np.array([[[1.0, 0.0], [1.0, 0.0]]] * 2)
    assert rollout([uniform]).tolist() == [[0.75, 0.25], [0.25, 0.75]]
    assert rollout([uniform, first]).tolist() == [[0.75, 0.25], [0.5, 0.5]]
    assert rollout([first, uniform]).tolist() == [[0.875, 0.125], [0.625, 0.375]]


def test_rows_of_a_rollout_sum_to_one():
    layers = [np.random.default_rng(n).dirichlet(np.ones(5), (3, 5)) for n in range(4)]
    assert rollout(layers).sum(1) == pytest.approx(np.ones(5))
