"""Drawn scenes: what is said of an image is what is to be seen in it."""

from __future__ import annotations

import numpy as np
import pytest

from seq2see.data.generated.shapes import COLORS, HELD_OUT, SHAPE_NAMES, SHAPES, SIZES, Scenes, ShapesCorpus, coverage

AREAS = {"circle": np.pi, "square": 1.7**2, "bar": 2 * 0.6, "triangle": 1.299, "diamond": 2 / 1.35}
"""In squares of the radius."""


def covered(name: str, side: int = 64, radius: float = 20.0, turn: float = 0.0) -> np.ndarray:
    middle, numbers = np.float32([[side / 2, side / 2]]), (np.float32([radius]), np.float32([turn]))
    return coverage(name, middle, *numbers, side)[0]


@pytest.mark.parametrize("name, area", AREAS.items())
def test_a_shape_has_the_area_that_geometry_gives_it(name, area):
    assert covered(name).sum() == pytest.approx(area * 400, rel=0.02)


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_lies_within_its_radius_and_no_two_are_alike(name):
    positions = np.arange(64) + 0.5 - 32
    far = np.hypot(positions[:, None], positions[None]) > 20 * 1.25  # the corners of a square lie farthest out
    assert covered(name)[far].max() == 0
    others = [np.abs(covered(name) - covered(other)).sum() for other in SHAPES if other != name]
    assert min(others) > 80


def test_rotation_rotates():
    assert np.abs(covered("bar", turn=np.pi / 2) - covered("bar").T).max() < 1e-3
    assert np.abs(covered("moon", turn=np.pi / 2) - np.rot90(covered("moon"), -1)).max() < 1e-3
    assert covered("square", turn=0.3).sum() == pytest.approx(covered("square").sum(), rel=0.01)


def test_images_show_what_their_captions_say():
    scenes = Scenes.sample(300, 1, "test")
    shown = zip(scenes.captions, scenes.labels, scenes.rgb, scenes.render(64, 1, "test").astype(float), strict=True)
    for caption, label, shade, pixels in shown:
        _, size, color, kind, *_ = caption.split()
        assert kind == label
        assert color == min(COLORS, key=lambda name: np.linalg.norm(shade - np.array(COLORS[name])))
        near = np.linalg.norm(pixels - shade, axis=-1) < 20
        rows, columns = np.nonzero(near)
        if kind in ("circle", "square"):  # they fill what is around their middle
            assert (len(rows) > 800) == (size == "large")
        down, across = np.median(rows) / 64, np.median(columns) / 64
        for word, share in (("left", across), ("right", 1 - across), ("top", down), ("bottom", 1 - down)):
            assert word not in caption or share < 0.55, caption


def test_all_words_are_about_equally_frequent_and_each_split_has_its_own_seed():
    scenes = Scenes.sample(5000, 1, "train")
    for drawn, words in ((scenes.shape_ids, SHAPE_NAMES), (scenes.colors, COLORS), (scenes.sizes, SIZES)):
        counts = np.bincount(drawn, minlength=len(words))
        assert counts.min() > 0.8 * 5000 / len(words)
    assert Scenes.sample(50, 1, "train").captions != Scenes.sample(50, 1, "test").captions
    assert len(set(scenes.captions)) > 900


def test_the_images_are_reproducible_and_more_of_them_change_no_other_split():
    small, large = (ShapesCorpus(size=size).images(16, 3)[0] for size in (40, 300))
    assert small["test"].fingerprint == large["test"].fingerprint
    assert (small["train"].pixels == large["train"].pixels[:40]).all() or len(small["train"]) == 40
    assert [len(small[name]) for name in ("train", "valid", "test")] == [40, HELD_OUT, HELD_OUT]
    assert small["test"].pixels.shape == (HELD_OUT, 16, 16, 3)
    assert not np.array_equal(small["valid"].pixels, small["test"].pixels)


def test_gray_images_are_as_bright_as_colored_ones():
    gray, colored = (ShapesCorpus(size=10).images(16, channels)[0]["test"].pixels for channels in (1, 3))
    assert gray.shape[-1] == 1
    assert np.abs(gray[..., 0] - colored.astype(float) @ [0.299, 0.587, 0.114]).max() <= 0.51
