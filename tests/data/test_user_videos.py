"""The user's own videos: listed ones are decoded, invalid ones reported with their line, unlisted ones counted."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from seq2see.cli.app import run
from seq2see.core.errors import UserError
from seq2see.data.readers import image_files
from seq2see.data.readers.data_kinds import guess_data_kind
from seq2see.data.readers.user_images import UserCaptionedImages, UserCaptionedVideos, UserImages


def rgb(video: int, count: int) -> list[Image.Image]:
    """Frames that differ in their green channel, and videos in their red channel."""
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


def test_folders_and_animated_images_are_read_alike(videos):
    splits, (report,) = UserCaptionedVideos(paths=(str(videos),)).videos(6, 3, 4)
    assert {name: len(each) for name, each in splits.items()} == {"train": 4, "valid": 1, "test": 1}
    assert (report.read, report.kept, report.unit) == (6, 6, "videos")
    assert not report.counts
    found = set()
    for examples in splits.values():
        assert examples.pixels.shape[1:] == (4, 6, 6, 3)
        for example, pixels in zip(examples, examples.pixels, strict=True):
            video = int(example.target.split()[1])
            last = 4 + video
            indices = [0, (last + 1) // 3, (2 * last + 1) // 3, last]  # at equal distances
            assert np.abs(pixels[:, 3, 3, 1].astype(int) - 10 * np.array(indices)).max() <= 1
            assert np.abs(pixels[..., 0].astype(int) - 20 * video).max() <= 1
            assert len(example.references) == (2 if video == 3 else 1)
            found.add(video)
    assert found == set(range(6))


def test_the_held_out_videos_do_not_depend_on_size_or_frames(videos):
    first, second = (
        UserCaptionedVideos(paths=(str(videos),)).videos(size, 3, frames)[0] for size, frames in ((6, 4), (9, 3))
    )
    assert [first[name].names for name in first] == [second[name].names for name in first]


def test_invalid_videos_are_reported_with_their_line(videos, capsys):
    (videos / "frames" / "影片0" / "1.png").write_text("text")
    (videos / "影片1.gif").write_bytes(b"\0\0\0\x18ftypisom and so on")
    (videos / "影片3.gif").write_bytes((videos / "影片3.gif").read_bytes()[:60])
    (videos / "frames" / "影片4" / "10.tif").write_bytes(b"II*\0")
    (videos / "empty").mkdir()
    (videos / "stray.gif").write_bytes(b"GIF")
    with (videos / "captions.tsv").open("a", encoding="utf-8") as file:
        file.write("\nempty\tnothing\nnowhere.gif\tnothing\n影片5.gif\t\n")
    assert run(["data", "check", str(videos)]) == 2
    output = capsys.readouterr().out
    captions = videos / "captions.tsv"
    assert "checked as videos with captions" in output
    assert "10 videos read = 2 kept + 1 skipped + 7 rejected" in output
    # A long path is cut off; the path of its list is shown as a whole.
    assert f"{captions}:2: This is not an image but text. | {videos / 'frames'}"[:140] in output
    assert f"{captions}:3: This is not an image but a isom file (HEIC, AVIF or a video). | {videos}"[:140] in output
    assert "ffmpeg" in output
    assert f"{captions}:5: The image is damaged or truncated" in output
    assert f"{captions}:7: This is a TIFF image, which is not supported." in output
    assert f"{captions}:9: There is no image in this folder." in output
    assert f"{captions}:10: The image cannot be read: No such file or directory." in output
    assert f"{captions}:11:9: The caption is empty." in output
    assert f"{videos / 'stray.gif'}: It is not in the list." in output
    with pytest.raises(UserError, match="7 videos have errors, and at most 2"):
        UserCaptionedVideos(paths=(str(videos),), max_errors=2).videos(6, 3, 4)


def test_messages_of_a_list_without_a_header_name_videos_and_captions(videos):
    (videos / "a.tsv").write_text("影片5.gif\t\n\tnothing\n", encoding="utf-8")
    (report,) = UserCaptionedVideos(paths=(str(videos / "a.tsv"),)).check()
    assert [each.message for each in report.issues["empty field"]] == ["The caption is empty.", "The video is empty."]


def test_hidden_frames_are_skipped_and_a_single_frame_is_reported(videos):
    (videos / "frames" / "影片2" / "._0.png").write_bytes(b"what a file system leaves behind")
    (videos / "one.png").write_bytes((videos / "frames" / "影片2" / "3.png").read_bytes())
    with (videos / "captions.tsv").open("a", encoding="utf-8") as file:
        file.write("\none.png\t一帧\n影片5.gif\t第 5 部\n")
    (report,) = UserCaptionedVideos(paths=(str(videos / "captions.tsv"),)).videos(6, 3, 4)[1]
    assert (report.kept, report.rejected) == (7, 0)
    assert dict(report.counts) == {"single frame": 1}


def test_copies_are_reported_and_stay_together(videos):
    (videos / "frames" / "copy").mkdir()
    for frame in (videos / "frames" / "影片2").iterdir():
        (videos / "frames" / "copy" / frame.name).write_bytes(frame.read_bytes())
    with (videos / "captions.tsv").open("a", encoding="utf-8") as file:
        file.write("\nframes/copy\t另一句\n")
    splits, (report,) = UserCaptionedVideos(paths=(str(videos),)).videos(6, 3, 4)
    assert "The same video is at" in report.issues["duplicate image"][0].message
    splits_of_copies = {
        name for name, each in splits.items() for example in each if example.target in ("第 2 部", "另一句")
    }
    assert len(splits_of_copies) == 1


def test_more_frames_than_fit_are_refused_before_they_are_read(videos, monkeypatch):
    monkeypatch.setattr(image_files, "total_memory", lambda: 6 * 4 * 6 * 6 * 3 - 1)
    with pytest.raises(UserError, match="24 images of 6 x 6"):
        UserCaptionedVideos(paths=(str(videos),)).videos(6, 3, 4)


def test_a_folder_with_a_list_has_captions(videos):
    assert type(guess_data_kind([videos])) is UserCaptionedVideos
    assert type(guess_data_kind([videos / "captions.tsv"])) is UserCaptionedVideos
    (videos / "captions.tsv").write_text("file\tcaption\na.png\tb\n")
    assert type(guess_data_kind([videos])) is UserCaptionedImages
    (videos / "captions.tsv").unlink()
    assert type(guess_data_kind([videos])) is UserImages


@pytest.fixture
def split_folders(tmp_path):
    """A folder for each split, with its videos and their list."""
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
    """`videos/train/captions.csv` and similar folders, as for images."""

    def test_every_split_has_its_own_list(self, split_folders):
        assert type(guess_data_kind([split_folders])) is UserCaptionedVideos
        splits, (report,) = UserCaptionedVideos(paths=(str(split_folders),)).videos(6, 3, 4)
        expected = {"train": ["video 0", "video 1", "video 2"], "valid": ["video 3"], "test": ["video 4", "video 5"]}
        assert captions(splits) == expected
        for examples in splits.values():
            for example, pixels in zip(examples, examples.pixels, strict=True):
                assert np.abs(pixels[..., 0].astype(int) - 20 * int(example.target.split()[1])).max() <= 1
        assert (report.read, report.kept, report.rejected) == (6, 6, 0)
        assert [file.removeprefix(f"{split_folders}/") for file in report.files] == [
            "train/captions.csv", "val/captions.csv", "test/captions.csv",
        ]  # fmt: skip

    def test_images_with_captions_are_split_likewise(self, split_folders):
        for path in split_folders.glob("*/captions.csv"):
            path.write_text(path.read_text().replace("video,", "file,"))
        assert type(guess_data_kind([split_folders])) is UserCaptionedImages
        splits, _ = UserCaptionedImages(paths=(str(split_folders),)).images(6, 3)
        assert [len(splits[name]) for name in ("train", "valid", "test")] == [3, 1, 2]

    def test_a_split_that_is_not_there_is_held_out(self, split_folders):
        for name in ("3.gif", "captions.csv"):
            (split_folders / "val" / name).unlink()
        (split_folders / "val").rmdir()
        splits, _ = UserCaptionedVideos(paths=(str(split_folders),)).videos(6, 3, 4)
        assert [len(splits[name]) for name in ("train", "valid", "test")] == [2, 1, 2]

    def test_a_list_next_to_the_splits_has_precedence(self, split_folders):
        (split_folders / "captions.csv").write_text("video,caption\ntrain/0.gif,a\ntest/4.gif,b\ntest/5.gif,c\n")
        splits, (report,) = UserCaptionedVideos(paths=(str(split_folders),)).videos(6, 3, 4)
        assert sorted(caption for each in captions(splits).values() for caption in each) == ["a", "b", "c"]
        assert "val" in str(report.issues["unlisted file"][0].location)

    def test_a_set_without_training_data_is_refused(self, split_folders):
        (split_folders / "train").rename(split_folders / "learn")
        with pytest.raises(UserError, match="There are folders val and test, but no folder train") as caught:
            UserCaptionedVideos(paths=(str(split_folders),)).videos(6, 3, 4)
        assert caught.value.location == str(split_folders)
        for split in ("val", "test"):
            (split_folders / split).rename(split_folders / f"{split} videos")
        with pytest.raises(UserError, match="no list of captions in this folder") as caught:
            UserCaptionedVideos(paths=(str(split_folders),)).videos(6, 3, 4)
        assert caught.value.location == str(split_folders)

    @pytest.mark.parametrize("content", [None, "video,caption\n"], ids=["no list", "no line"])
    def test_a_split_without_a_list_or_with_an_empty_one_is_named(self, split_folders, content):
        path = split_folders / "test" / "captions.csv"
        path.unlink() if content is None else path.write_text(content)
        (split_folders / "train" / "0.gif").write_text("an error in another list explains nothing here")
        with pytest.raises(UserError) as caught:
            UserCaptionedVideos(paths=(str(split_folders),)).videos(6, 3, 4)
        assert caught.value.location == str(path.parent if content is None else path)
        assert run(["data", "check", str(split_folders)]) == 2

    def test_a_split_without_valid_videos_is_not_replaced_by_held_out_ones(self, split_folders):
        (split_folders / "val" / "3.gif").write_text("text")
        with pytest.raises(UserError, match="There is no video in valid") as caught:
            UserCaptionedVideos(paths=(str(split_folders),)).videos(6, 3, 4)
        assert "1 x not a video" in caught.value.message

    def test_a_video_that_is_also_tested_on_is_reported(self, split_folders):
        (split_folders / "test" / "4.gif").write_bytes((split_folders / "train" / "0.gif").read_bytes())
        (report,) = UserCaptionedVideos(paths=(str(split_folders),)).videos(6, 3, 4)[1]
        assert dict(report.counts) == {"image in two splits": 1}
