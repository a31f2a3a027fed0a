"""Videos of one's own: what is listed is watched, what is bad is named with its line, what is not listed is counted."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from seq2see.cli.app import run
from seq2see.core.errors import UserError
from seq2see.sources import image_loading
from seq2see.sources.data_kinds import guess_data_kind
from seq2see.sources.user_images import UserCaptionedImages, UserCaptionedVideos, UserImages


def rgb(video: int, count: int) -> list[Image.Image]:
    """Frames that are told apart by their green, videos by their red."""
    return [Image.new("RGB", (16, 12), (20 * video, 10 * number, 0)) for number in range(count)]


@pytest.fixture
def videos(tmp_path):
    """Six videos, every other a folder of frames, with one caption or two."""
    lines = ["video\tcaption"]
    for video in range(6):
        frames = rgb(video, 5 + video)
        if video % 2:
            frames[0].save(tmp_path / f"影片{video}.gif", save_all=True, append_images=frames[1:])
        else:
            (tmp_path / "frames" / f"影片{video}").mkdir(parents=True)
            for number, frame in enumerate(frames):
                frame.save(tmp_path / "frames" / f"影片{video}" / f"{number}.png")
        name = f"影片{video}.gif" if video % 2 else f"frames/影片{video}"
        lines += [f"{name}\t第 {video} 部", *([f"{name}\t又是第 {video} 部"] if video == 3 else [])]
    (tmp_path / "captions.tsv").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


def test_folders_and_animated_images_are_learned_from_alike(videos):
    splits, (report,) = UserCaptionedVideos(paths=(str(videos),)).videos(6, 3, 4)
    assert {name: len(each) for name, each in splits.items()} == {"train": 4, "valid": 1, "test": 1}
    assert (report.read, report.kept, report.unit) == (6, 6, "videos")
    assert not report.counts
    seen = set()
    for examples in splits.values():
        assert examples.pixels.shape[1:] == (4, 6, 6, 3)
        for example, pixels in zip(examples, examples.pixels, strict=True):
            video = int(example.target.split()[1])
            last = 4 + video
            shown = [0, (last + 1) // 3, (2 * last + 1) // 3, last]  # at equal distances
            assert np.abs(pixels[:, 3, 3, 1].astype(int) - 10 * np.array(shown)).max() <= 1
            assert np.abs(pixels[..., 0].astype(int) - 20 * video).max() <= 1
            assert len(example.references) == (2 if video == 3 else 1)
            seen.add(video)
    assert seen == set(range(6))


def test_who_is_held_out_does_not_depend_on_size_or_frames(videos):
    first, second = (
        UserCaptionedVideos(paths=(str(videos),)).videos(side, 3, frames)[0] for side, frames in ((6, 4), (9, 3))
    )
    assert [first[name].names for name in first] == [second[name].names for name in first]


def test_what_is_bad_is_named_with_its_line(videos, capsys):
    (videos / "frames" / "影片0" / "1.png").write_text("text")
    (videos / "影片1.gif").write_bytes(b"\0\0\0\x18ftypisom and so on")
    (videos / "影片3.gif").write_bytes((videos / "影片3.gif").read_bytes()[:60])
    (videos / "frames" / "影片4" / "10.tif").write_bytes(b"II*\0")
    (videos / "empty").mkdir()
    (videos / "stray.gif").write_bytes(b"GIF")
    with (videos / "captions.tsv").open("a", encoding="utf-8") as file:
        file.write("\nempty\tnothing\nnowhere.gif\tnothing\n影片5.gif\t\n")
    assert run(["data", "check", str(videos)]) == 2
    told = capsys.readouterr().out
    there = videos / "captions.tsv"
    assert "checked as videos with captions" in told
    assert "10 videos read = 2 kept + 1 skipped + 7 rejected" in told
    # A long path is cut off; where its list lies is told whole.
    assert f"{there}:2: This is no image but text. | {videos / 'frames'}"[:140] in told
    assert f"{there}:3: This is no image but a isom file (HEIC, AVIF or a video). | {videos}"[:140] in told
    assert "ffmpeg" in told
    assert f"{there}:5: The image is damaged or cut off" in told
    assert f"{there}:7: This is a TIFF image, which is not decoded here." in told
    assert f"{there}:9: There is no image in this folder." in told
    assert f"{there}:10: The image cannot be read: No such file or directory." in told
    assert f"{there}:11:9: The caption is empty." in told
    assert f"{videos / 'stray.gif'}: No line of the list names it." in told
    with pytest.raises(UserError, match="7 videos are bad and at most 2"):
        UserCaptionedVideos(paths=(str(videos),), max_errors=2).videos(6, 3, 4)


def test_a_list_without_a_header_speaks_of_videos_and_captions(videos):
    (videos / "a.tsv").write_text("影片5.gif\t\n\tnothing\n", encoding="utf-8")
    (report,) = UserCaptionedVideos(paths=(str(videos / "a.tsv"),)).check()
    assert [each.what for each in report.issues["empty field"]] == ["The caption is empty.", "The video is empty."]


def test_hidden_frames_are_left_out_and_one_frame_is_told(videos):
    (videos / "frames" / "影片2" / "._0.png").write_bytes(b"what a file system leaves behind")
    (videos / "one.png").write_bytes((videos / "frames" / "影片2" / "3.png").read_bytes())
    with (videos / "captions.tsv").open("a", encoding="utf-8") as file:
        file.write("\none.png\t一帧\n影片5.gif\t第 5 部\n")
    (report,) = UserCaptionedVideos(paths=(str(videos / "captions.tsv"),)).videos(6, 3, 4)[1]
    assert (report.kept, report.rejected) == (7, 0)
    assert dict(report.counts) == {"single frame": 1}


def test_copies_are_told_and_stay_together(videos):
    (videos / "frames" / "copy").mkdir()
    for frame in (videos / "frames" / "影片2").iterdir():
        (videos / "frames" / "copy" / frame.name).write_bytes(frame.read_bytes())
    with (videos / "captions.tsv").open("a", encoding="utf-8") as file:
        file.write("\nframes/copy\t另一句\n")
    splits, (report,) = UserCaptionedVideos(paths=(str(videos),)).videos(6, 3, 4)
    assert "The same video is at" in report.issues["duplicate image"][0].what
    location = {name for name, each in splits.items() for example in each if example.target in ("第 2 部", "另一句")}
    assert len(location) == 1


def test_more_frames_than_fit_are_refused_before_they_are_read(videos, monkeypatch):
    monkeypatch.setattr(image_loading, "memory", lambda: 6 * 4 * 6 * 6 * 3 - 1)
    with pytest.raises(UserError, match="24 images of 6 x 6"):
        UserCaptionedVideos(paths=(str(videos),)).videos(6, 3, 4)


def test_a_folder_is_known_by_its_list(videos):
    assert type(guess_data_kind([videos])) is UserCaptionedVideos
    assert type(guess_data_kind([videos / "captions.tsv"])) is UserCaptionedVideos
    (videos / "captions.tsv").write_text("file\tcaption\na.png\tb\n")
    assert type(guess_data_kind([videos])) is UserCaptionedImages
    (videos / "captions.tsv").unlink()
    assert type(guess_data_kind([videos])) is UserImages


@pytest.fixture
def divided(tmp_path):
    """A folder a split, each with videos of its own and a list beside them."""
    for split, numbers in (("train", (0, 1, 2)), ("val", (3,)), ("test", (4, 5))):
        (tmp_path / split).mkdir()
        lines = ["video,caption", *(f"{video}.gif,video {video}" for video in numbers)]
        (tmp_path / split / "captions.csv").write_text("\n".join(lines))
        for video in numbers:
            frames = rgb(video, 4)
            frames[0].save(tmp_path / split / f"{video}.gif", save_all=True, append_images=frames[1:])
    return tmp_path


def captions(splits) -> dict[str, list[str]]:
    return {name: [example.target for example in each] for name, each in splits.items()}


class TestFoldersOfSplits:
    """`videos/train/captions.csv` and its like, as folders of images may have them."""

    def test_every_split_has_its_own_list(self, divided):
        assert type(guess_data_kind([divided])) is UserCaptionedVideos
        splits, (report,) = UserCaptionedVideos(paths=(str(divided),)).videos(6, 3, 4)
        told = {"train": ["video 0", "video 1", "video 2"], "valid": ["video 3"], "test": ["video 4", "video 5"]}
        assert captions(splits) == told
        for examples in splits.values():
            for example, pixels in zip(examples, examples.pixels, strict=True):
                assert np.abs(pixels[..., 0].astype(int) - 20 * int(example.target.split()[1])).max() <= 1
        assert (report.read, report.kept, report.rejected) == (6, 6, 0)
        assert [file.removeprefix(f"{divided}/") for file in report.files] == [
            "train/captions.csv", "val/captions.csv", "test/captions.csv",
        ]  # fmt: skip

    def test_images_with_captions_are_divided_likewise(self, divided):
        for path in divided.glob("*/captions.csv"):
            path.write_text(path.read_text().replace("video,", "file,"))
        assert type(guess_data_kind([divided])) is UserCaptionedImages
        splits, _ = UserCaptionedImages(paths=(str(divided),)).images(6, 3)
        assert [len(splits[name]) for name in ("train", "valid", "test")] == [3, 1, 2]

    def test_a_split_that_is_not_there_is_held_out(self, divided):
        for name in ("3.gif", "captions.csv"):
            (divided / "val" / name).unlink()
        (divided / "val").rmdir()
        splits, _ = UserCaptionedVideos(paths=(str(divided),)).videos(6, 3, 4)
        assert [len(splits[name]) for name in ("train", "valid", "test")] == [2, 1, 2]

    def test_a_list_beside_the_splits_says_what_belongs_to_it(self, divided):
        (divided / "captions.csv").write_text("video,caption\ntrain/0.gif,a\ntest/4.gif,b\ntest/5.gif,c\n")
        splits, (report,) = UserCaptionedVideos(paths=(str(divided),)).videos(6, 3, 4)
        assert sorted(caption for each in captions(splits).values() for caption in each) == ["a", "b", "c"]
        assert "val" in str(report.issues["unlisted file"][0].location)

    def test_nothing_to_learn_from_is_refused(self, divided):
        (divided / "train").rename(divided / "learn")
        with pytest.raises(UserError, match="Beside val and test there is no folder train") as caught:
            UserCaptionedVideos(paths=(str(divided),)).videos(6, 3, 4)
        assert caught.value.location == str(divided)
        for split in ("val", "test"):
            (divided / split).rename(divided / f"{split} videos")
        with pytest.raises(UserError, match="no list of captions in this folder") as caught:
            UserCaptionedVideos(paths=(str(divided),)).videos(6, 3, 4)
        assert caught.value.location == str(divided)

    @pytest.mark.parametrize("content", [None, "video,caption\n"], ids=["no list", "no line"])
    def test_a_split_without_a_list_or_with_an_empty_one_is_named(self, divided, content):
        path = divided / "test" / "captions.csv"
        path.unlink() if content is None else path.write_text(content)
        (divided / "train" / "0.gif").write_text("an error in another list explains nothing here")
        with pytest.raises(UserError) as caught:
            UserCaptionedVideos(paths=(str(divided),)).videos(6, 3, 4)
        assert caught.value.location == str(path.parent if content is None else path)
        assert run(["data", "check", str(divided)]) == 2

    def test_a_split_of_bad_videos_is_not_made_up_for_by_others(self, divided):
        (divided / "val" / "3.gif").write_text("text")
        with pytest.raises(UserError, match="There is not one video in valid") as caught:
            UserCaptionedVideos(paths=(str(divided),)).videos(6, 3, 4)
        assert "1 x no video" in caught.value.what

    def test_a_video_that_is_also_tested_on_is_told(self, divided):
        (divided / "test" / "4.gif").write_bytes((divided / "train" / "0.gif").read_bytes())
        (report,) = UserCaptionedVideos(paths=(str(divided),)).videos(6, 3, 4)[1]
        assert dict(report.counts) == {"image in two splits": 1}
