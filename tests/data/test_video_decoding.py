"""Videos: captions match the pixels, novel captions are not in training, and files have the given number of frames."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from seq2see.core.errors import UserError
from seq2see.data.generated.shapes import (
    ACTIONS,
    COLORS,
    VIDEO_SHAPE_NAMES,
    MovingScenes,
    MovingShapesCorpus,
    is_novel,
)
from seq2see.data.readers import video_decoding
from seq2see.data.readers.video_decoding import frame_indices, load_video

MEANT = {
    "left": (-1, 0, 0), "right": (1, 0, 0), "up": (0, -1, 0), "down": (0, 1, 0), "grows": (0, 0, 1),
    "shrinks": (0, 0, -1), "still": (0, 0, 0),
}  # fmt: skip


@pytest.fixture(scope="module")
def sampled() -> tuple[MovingScenes, np.ndarray]:
    scenes = MovingScenes.sample(300, 8, 1, "test")
    return scenes, scenes.render(24, 1, "test").astype(float)


def shape_track(scenes: MovingScenes, pixels: np.ndarray, video: int) -> tuple[np.ndarray, np.ndarray]:
    """The center of the pixels with the color of the shape in each frame, (frame, 2), and their number."""
    ground = np.median(pixels[video], axis=(0, 1, 2))
    share = ((pixels[video] - ground) @ (scenes.rgb[video] - ground)) / ((scenes.rgb[video] - ground) ** 2).sum()
    inside = share > 0.5
    centers = [np.argwhere(frame).mean(0)[::-1] for frame in inside]
    return np.array(centers), inside.sum((1, 2))


def test_videos_show_what_their_captions_say(sampled):
    scenes, pixels = sampled
    found = set()
    for video, (first, second) in enumerate(scenes.actions):
        if np.ptp(pixels[video]) < 150:  # a dark shape on a dark background cannot be measured this way
            continue
        centers, sizes = shape_track(scenes, pixels, video)
        parts = [(0, 7, first)] if first == second else [(0, 3, first), (4, 7, second)]
        for start, stop, action in parts:
            across, down, growth = MEANT[list(ACTIONS)[action].split()[-1]]
            moved = centers[stop] - centers[start]
            assert np.sign(np.where(np.abs(moved) > 1.2, moved, 0)).tolist() == [across, down], scenes.captions[video]
            grown = np.log(sizes[stop] / sizes[start])
            assert np.sign(grown if abs(grown) > 0.4 else 0) == growth, scenes.captions[video]
            found.add(action)
    assert found == set(range(len(ACTIONS)))


def test_captions_have_color_shape_and_actions_in_their_order(sampled):
    scenes, _ = sampled
    for caption, kind, color, (first, second) in zip(
        scenes.captions, scenes.shape_ids, scenes.colors, scenes.actions, strict=True
    ):
        actions = list(ACTIONS)
        said = actions[first] if first == second else f"{actions[first]}, then {actions[second]}"
        article = "an" if "orange" in caption else "a"
        assert caption == f"{article} {list(COLORS)[color]} {VIDEO_SHAPE_NAMES[kind]} {said}"


def test_a_shape_never_leaves_its_video(sampled):
    scenes, _ = sampled
    assert (scenes.centers - scenes.radii[..., None]).min() >= -1e-6
    assert (scenes.centers + scenes.radii[..., None]).max() <= 1 + 1e-6


def test_some_sentences_are_novel_but_all_words_occur_in_training():
    train, test = (MovingScenes.sample(3000, 2, 1, name) for name in ("train", "test"))
    assert len(train) == 3000
    assert not is_novel(train.shape_ids, train.colors, train.actions).any()
    fresh = is_novel(test.shape_ids, test.colors, test.actions)
    assert 0.08 < fresh.mean() < 0.18
    new = {caption for caption, is_fresh in zip(test.captions, fresh, strict=True) if is_fresh}
    assert not new & set(train.captions)
    assert {word for each in test.captions for word in each.split()} <= {
        word for each in train.captions for word in each.split()
    }


def test_videos_are_the_same_every_time_and_in_gray():
    first, again = (MovingShapesCorpus(size=5).videos(16, 3, 4)[0] for _ in range(2))
    assert first["train"].fingerprint == again["train"].fingerprint
    assert first["train"].pixels.shape == (5, 4, 16, 16, 3)
    assert len(first["test"]) == 1000
    assert MovingShapesCorpus(size=5).videos(16, 1, 4)[0]["train"].pixels.shape == (5, 4, 16, 16, 1)


@pytest.mark.parametrize("count, wanted, places", [(8, 8, range(8)), (3, 5, [0, 1, 1, 2, 2]), (1, 3, [0, 0, 0])])
def test_frames_are_sampled_at_equal_distances(count, wanted, places):
    assert frame_indices(count, wanted).tolist() == list(places)


def rgb(count: int) -> list[Image.Image]:
    return [Image.new("RGB", (20, 12), (10 * number, 0, 0)) for number in range(count)]


def test_an_animated_gif_is_a_video(tmp_path):
    first, *others = rgb(15)
    first.save(tmp_path / "短片.gif", save_all=True, append_images=others)
    pixels, issues = load_video(tmp_path / "短片.gif", 6, 3, 8)
    assert pixels.shape == (8, 6, 6, 3)
    assert pixels[:, 3, 3, 0].tolist() == [0, 20, 40, 60, 80, 100, 120, 140]
    assert issues == ()
    first.save(tmp_path / "one.png")
    pixels, issues = load_video(tmp_path / "one.png", 6, 1, 4)
    assert pixels.shape == (4, 6, 6, 1)
    assert "single frame" in issues[0]


def test_a_folder_of_frames_is_a_video_and_numbers_count(tmp_path):
    for number, image in enumerate(rgb(12)):
        image.save(tmp_path / f"frame{number}.png")
    (tmp_path / "notes.txt").write_text("no frame")
    pixels, _ = load_video(tmp_path, 6, 3, 4)
    assert pixels[:, 3, 3, 0].tolist() == [0, 40, 70, 110]


def test_a_file_that_is_not_a_video_is_an_error(tmp_path, monkeypatch):
    with pytest.raises(UserError, match="no image in this folder") as caught:
        load_video(tmp_path, 6, 3, 4)
    assert "a folder of frames" in caught.value.hint
    (tmp_path / "bad.gif").write_text("no")
    with pytest.raises(UserError, match="not an image but text") as caught:
        load_video(tmp_path / "bad.gif", 6, 3, 4)
    assert "bad.gif" in caught.value.location
    first, *others = rgb(5)
    first.save(tmp_path / "long.gif", save_all=True, append_images=others)
    monkeypatch.setattr(video_decoding, "MAX_FRAMES", 4)
    with pytest.raises(UserError, match="more than 4 frames"):
        load_video(tmp_path / "long.gif", 6, 3, 4)
    content = (tmp_path / "long.gif").read_bytes()
    (tmp_path / "cut.gif").write_bytes(content[: len(content) // 2])
    monkeypatch.undo()
    with pytest.raises(UserError):
        load_video(tmp_path / "cut.gif", 6, 3, 4)
