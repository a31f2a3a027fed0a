"""Films: what is drawn is what is said, what is new is new, and files become the wanted number of frames."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from seq2see.core.errors import UserError
from seq2see.sources import films
from seq2see.sources.films import see_film, spread
from seq2see.sources.shapes.corpus import MovingShapes
from seq2see.sources.shapes.films import DEEDS, KINDS, MovingScenes, is_new
from seq2see.sources.shapes.scenes import COLOURS

MEANT = {
    "left": (-1, 0, 0), "right": (1, 0, 0), "up": (0, -1, 0), "down": (0, 1, 0), "grows": (0, 0, 1),
    "shrinks": (0, 0, -1), "still": (0, 0, 0),
}  # fmt: skip


@pytest.fixture(scope="module")
def drawn() -> tuple[MovingScenes, np.ndarray]:
    scenes = MovingScenes.drawn(300, 8, 1, "test")
    return scenes, scenes.paint(24, 1, "test").astype(float)


def seen(scenes: MovingScenes, pixels: np.ndarray, film: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the shape's colour is in each frame, (frame, 2), and in how many pixels."""
    ground = np.median(pixels[film], axis=(0, 1, 2))
    share = ((pixels[film] - ground) @ (scenes.shades[film] - ground)) / ((scenes.shades[film] - ground) ** 2).sum()
    inside = share > 0.5
    places = [np.argwhere(frame).mean(0)[::-1] for frame in inside]
    return np.array(places), inside.sum((1, 2))


def test_films_show_what_is_said_of_them(drawn):
    scenes, pixels = drawn
    found = set()
    for film, (first, second) in enumerate(scenes.deeds):
        if np.ptp(pixels[film]) < 150:  # a dark shape on a like ground is not measured so simply
            continue
        places, sizes = seen(scenes, pixels, film)
        parts = [(0, 7, first)] if first == second else [(0, 3, first), (4, 7, second)]
        for start, stop, deed in parts:
            across, down, growth = MEANT[list(DEEDS)[deed].split()[-1]]
            moved = places[stop] - places[start]
            assert np.sign(np.where(np.abs(moved) > 1.2, moved, 0)).tolist() == [across, down], scenes.captions[film]
            grown = np.log(sizes[stop] / sizes[start])
            assert np.sign(grown if abs(grown) > 0.4 else 0) == growth, scenes.captions[film]
            found.add(deed)
    assert found == set(range(len(DEEDS)))


def test_captions_say_colour_shape_and_deeds_in_their_order(drawn):
    scenes, _ = drawn
    for caption, kind, colour, (first, second) in zip(
        scenes.captions, scenes.kinds, scenes.colours, scenes.deeds, strict=True
    ):
        deeds = list(DEEDS)
        said = deeds[first] if first == second else f"{deeds[first]}, then {deeds[second]}"
        assert caption == f"{'an' if 'orange' in caption else 'a'} {list(COLOURS)[colour]} {KINDS[kind]} {said}"


def test_a_shape_never_leaves_its_film(drawn):
    scenes, _ = drawn
    assert (scenes.middles - scenes.radii[..., None]).min() >= -1e-6
    assert (scenes.middles + scenes.radii[..., None]).max() <= 1 + 1e-6


def test_some_sentences_are_new_and_all_words_are_known():
    train, test = (MovingScenes.drawn(3000, 2, 1, name) for name in ("train", "test"))
    assert len(train) == 3000
    assert not is_new(train.kinds, train.colours, train.deeds).any()
    fresh = is_new(test.kinds, test.colours, test.deeds)
    assert 0.08 < fresh.mean() < 0.18
    new = {caption for caption, is_fresh in zip(test.captions, fresh, strict=True) if is_fresh}
    assert not new & set(train.captions)
    assert {word for each in test.captions for word in each.split()} <= {
        word for each in train.captions for word in each.split()
    }


def test_films_are_the_same_every_time_and_in_grey():
    first, again = (MovingShapes(size=5).films(16, 3, 4)[0] for _ in range(2))
    assert first["train"].fingerprint == again["train"].fingerprint
    assert first["train"].pixels.shape == (5, 4, 16, 16, 3)
    assert len(first["test"]) == 1000
    assert MovingShapes(size=5).films(16, 1, 4)[0]["train"].pixels.shape == (5, 4, 16, 16, 1)


@pytest.mark.parametrize("count, wanted, places", [(8, 8, range(8)), (3, 5, [0, 1, 1, 2, 2]), (1, 3, [0, 0, 0])])
def test_frames_are_taken_at_equal_distances(count, wanted, places):
    assert spread(count, wanted).tolist() == list(places)


def shades(count: int) -> list[Image.Image]:
    return [Image.new("RGB", (20, 12), (10 * number, 0, 0)) for number in range(count)]


def test_an_animated_gif_is_a_film(tmp_path):
    first, *others = shades(15)
    first.save(tmp_path / "短片.gif", save_all=True, append_images=others)
    pixels, remarks = see_film(tmp_path / "短片.gif", 6, 3, 8)
    assert pixels.shape == (8, 6, 6, 3)
    assert pixels[:, 3, 3, 0].tolist() == [0, 20, 40, 60, 80, 100, 120, 140]
    assert remarks == ()
    first.save(tmp_path / "one.png")
    pixels, remarks = see_film(tmp_path / "one.png", 6, 1, 4)
    assert pixels.shape == (4, 6, 6, 1)
    assert "one frame only" in remarks[0]


def test_a_folder_of_frames_is_a_film_and_numbers_count(tmp_path):
    for number, image in enumerate(shades(12)):
        image.save(tmp_path / f"frame{number}.png")
    (tmp_path / "notes.txt").write_text("no frame")
    pixels, _ = see_film(tmp_path, 6, 3, 4)
    assert pixels[:, 3, 3, 0].tolist() == [0, 40, 70, 110]


def test_what_is_no_film_is_told(tmp_path, monkeypatch):
    with pytest.raises(UserError, match="no picture in this folder") as told:
        see_film(tmp_path, 6, 3, 4)
    assert "a folder of frames" in told.value.remedy
    (tmp_path / "bad.gif").write_text("no")
    with pytest.raises(UserError, match="no picture but text") as told:
        see_film(tmp_path / "bad.gif", 6, 3, 4)
    assert "bad.gif" in told.value.where
    first, *others = shades(5)
    first.save(tmp_path / "long.gif", save_all=True, append_images=others)
    monkeypatch.setattr(films, "MOST_FRAMES", 4)
    with pytest.raises(UserError, match="more than 4 frames"):
        see_film(tmp_path / "long.gif", 6, 3, 4)
    content = (tmp_path / "long.gif").read_bytes()
    (tmp_path / "cut.gif").write_bytes(content[: len(content) // 2])
    monkeypatch.undo()
    with pytest.raises(UserError):
        see_film(tmp_path / "cut.gif", 6, 3, 4)
