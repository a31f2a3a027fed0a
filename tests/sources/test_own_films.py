"""Films of one's own: what is listed is watched, what is bad is named with its line, what is not listed is counted."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from seq2see.cli.app import run
from seq2see.core.errors import UserError
from seq2see.sources import picture_reading
from seq2see.sources.checking import guess_kind
from seq2see.sources.own_pictures import OwnCaptions, OwnFilms, OwnPictures


def shades(film: int, count: int) -> list[Image.Image]:
    """Frames that are told apart by their green, films by their red."""
    return [Image.new("RGB", (16, 12), (20 * film, 10 * number, 0)) for number in range(count)]


@pytest.fixture
def films(tmp_path):
    """Six films, every other a folder of frames, with one caption or two."""
    lines = ["film\tcaption"]
    for film in range(6):
        frames = shades(film, 5 + film)
        if film % 2:
            frames[0].save(tmp_path / f"影片{film}.gif", save_all=True, append_images=frames[1:])
        else:
            (tmp_path / "frames" / f"影片{film}").mkdir(parents=True)
            for number, frame in enumerate(frames):
                frame.save(tmp_path / "frames" / f"影片{film}" / f"{number}.png")
        name = f"影片{film}.gif" if film % 2 else f"frames/影片{film}"
        lines += [f"{name}\t第 {film} 部", *([f"{name}\t又是第 {film} 部"] if film == 3 else [])]
    (tmp_path / "captions.tsv").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


def test_folders_and_animated_pictures_are_learnt_from_alike(films):
    splits, (report,) = OwnFilms(paths=(str(films),)).films(6, 3, 4)
    assert {name: len(each) for name, each in splits.items()} == {"train": 4, "valid": 1, "test": 1}
    assert (report.read, report.kept, report.unit) == (6, 6, "films")
    assert not report.counts
    seen = set()
    for examples in splits.values():
        assert examples.pixels.shape[1:] == (4, 6, 6, 3)
        for example, pixels in zip(examples, examples.pixels, strict=True):
            film = int(example.target.split()[1])
            last = 4 + film
            shown = [0, (last + 1) // 3, (2 * last + 1) // 3, last]  # at equal distances
            assert np.abs(pixels[:, 3, 3, 1].astype(int) - 10 * np.array(shown)).max() <= 1
            assert np.abs(pixels[..., 0].astype(int) - 20 * film).max() <= 1
            assert len(example.answers) == (2 if film == 3 else 1)
            seen.add(film)
    assert seen == set(range(6))


def test_who_is_held_out_does_not_depend_on_size_or_frames(films):
    first, second = (OwnFilms(paths=(str(films),)).films(side, 3, frames)[0] for side, frames in ((6, 4), (9, 3)))
    assert [first[name].names for name in first] == [second[name].names for name in first]


def test_what_is_bad_is_named_with_its_line(films, capsys):
    (films / "frames" / "影片0" / "1.png").write_text("text")
    (films / "影片1.gif").write_bytes(b"\0\0\0\x18ftypisom and so on")
    (films / "影片3.gif").write_bytes((films / "影片3.gif").read_bytes()[:60])
    (films / "frames" / "影片4" / "10.tif").write_bytes(b"II*\0")
    (films / "empty").mkdir()
    (films / "stray.gif").write_bytes(b"GIF")
    with (films / "captions.tsv").open("a", encoding="utf-8") as file:
        file.write("\nempty\tnothing\nnowhere.gif\tnothing\n影片5.gif\t\n")
    assert run(["data", "check", str(films)]) == 2
    told = capsys.readouterr().out
    there = films / "captions.tsv"
    assert "checked as films with captions" in told
    assert "10 films read = 2 kept + 1 skipped + 7 rejected" in told
    # A long path is cut off; where its list lies is told whole.
    assert f"{there}:2: This is no picture but text. | {films / 'frames'}"[:140] in told
    assert f"{there}:3: This is no picture but a isom file (HEIC, AVIF or a film). | {films}"[:140] in told
    assert "ffmpeg" in told
    assert f"{there}:5: The picture is damaged or cut off" in told
    assert f"{there}:7: This is a TIFF picture, which is not decoded here." in told
    assert f"{there}:9: There is no picture in this folder." in told
    assert f"{there}:10: The picture cannot be read: No such file or directory." in told
    assert f"{there}:11:9: The caption is empty." in told
    assert f"{films / 'stray.gif'}: No line of the list names it." in told
    with pytest.raises(UserError, match="7 films are bad and at most 2"):
        OwnFilms(paths=(str(films),), most_bad=2).films(6, 3, 4)


def test_a_list_without_a_header_speaks_of_films_and_captions(films):
    (films / "a.tsv").write_text("影片5.gif\t\n\tnothing\n", encoding="utf-8")
    (report,) = OwnFilms(paths=(str(films / "a.tsv"),)).check()
    assert [each.what for each in report.findings["empty side"]] == ["The caption is empty.", "The film is empty."]


def test_hidden_frames_are_left_out_and_one_frame_is_told(films):
    (films / "frames" / "影片2" / "._0.png").write_bytes(b"what a file system leaves behind")
    (films / "one.png").write_bytes((films / "frames" / "影片2" / "3.png").read_bytes())
    with (films / "captions.tsv").open("a", encoding="utf-8") as file:
        file.write("\none.png\t一帧\n影片5.gif\t第 5 部\n")
    (report,) = OwnFilms(paths=(str(films / "captions.tsv"),)).films(6, 3, 4)[1]
    assert (report.kept, report.rejected) == (7, 0)
    assert dict(report.counts) == {"one frame only": 1}


def test_copies_are_told_and_stay_together(films):
    (films / "frames" / "copy").mkdir()
    for frame in (films / "frames" / "影片2").iterdir():
        (films / "frames" / "copy" / frame.name).write_bytes(frame.read_bytes())
    with (films / "captions.tsv").open("a", encoding="utf-8") as file:
        file.write("\nframes/copy\t另一句\n")
    splits, (report,) = OwnFilms(paths=(str(films),)).films(6, 3, 4)
    assert "The same film is at" in report.findings["duplicate picture"][0].what
    where = {name for name, each in splits.items() for example in each if example.target in ("第 2 部", "另一句")}
    assert len(where) == 1


def test_more_frames_than_fit_are_refused_before_they_are_read(films, monkeypatch):
    monkeypatch.setattr(picture_reading, "memory", lambda: 6 * 4 * 6 * 6 * 3 - 1)
    with pytest.raises(UserError, match="24 pictures of 6 x 6"):
        OwnFilms(paths=(str(films),)).films(6, 3, 4)


def test_a_folder_is_known_by_its_list(films):
    assert type(guess_kind([films])) is OwnFilms
    assert type(guess_kind([films / "captions.tsv"])) is OwnFilms
    (films / "captions.tsv").write_text("file\tcaption\na.png\tb\n")
    assert type(guess_kind([films])) is OwnCaptions
    (films / "captions.tsv").unlink()
    assert type(guess_kind([films])) is OwnPictures


@pytest.fixture
def divided(tmp_path):
    """A folder a split, each with films of its own and a list beside them."""
    for split, numbers in (("train", (0, 1, 2)), ("val", (3,)), ("test", (4, 5))):
        (tmp_path / split).mkdir()
        lines = ["film,caption", *(f"{film}.gif,film {film}" for film in numbers)]
        (tmp_path / split / "captions.csv").write_text("\n".join(lines))
        for film in numbers:
            frames = shades(film, 4)
            frames[0].save(tmp_path / split / f"{film}.gif", save_all=True, append_images=frames[1:])
    return tmp_path


def captions(splits) -> dict[str, list[str]]:
    return {name: [example.target for example in each] for name, each in splits.items()}


class TestFoldersOfSplits:
    """`films/train/captions.csv` and its like, as folders of pictures may have them."""

    def test_every_split_has_its_own_list(self, divided):
        assert type(guess_kind([divided])) is OwnFilms
        splits, (report,) = OwnFilms(paths=(str(divided),)).films(6, 3, 4)
        told = {"train": ["film 0", "film 1", "film 2"], "valid": ["film 3"], "test": ["film 4", "film 5"]}
        assert captions(splits) == told
        for examples in splits.values():
            for example, pixels in zip(examples, examples.pixels, strict=True):
                assert np.abs(pixels[..., 0].astype(int) - 20 * int(example.target.split()[1])).max() <= 1
        assert (report.read, report.kept, report.rejected) == (6, 6, 0)
        assert [file.removeprefix(f"{divided}/") for file in report.files] == [
            "train/captions.csv", "val/captions.csv", "test/captions.csv",
        ]  # fmt: skip

    def test_pictures_with_captions_are_divided_likewise(self, divided):
        for path in divided.glob("*/captions.csv"):
            path.write_text(path.read_text().replace("film,", "file,"))
        assert type(guess_kind([divided])) is OwnCaptions
        splits, _ = OwnCaptions(paths=(str(divided),)).pictures(6, 3)
        assert [len(splits[name]) for name in ("train", "valid", "test")] == [3, 1, 2]

    def test_a_split_that_is_not_there_is_held_out(self, divided):
        for name in ("3.gif", "captions.csv"):
            (divided / "val" / name).unlink()
        (divided / "val").rmdir()
        splits, _ = OwnFilms(paths=(str(divided),)).films(6, 3, 4)
        assert [len(splits[name]) for name in ("train", "valid", "test")] == [2, 1, 2]

    def test_a_list_beside_the_splits_says_what_belongs_to_it(self, divided):
        (divided / "captions.csv").write_text("film,caption\ntrain/0.gif,a\ntest/4.gif,b\ntest/5.gif,c\n")
        splits, (report,) = OwnFilms(paths=(str(divided),)).films(6, 3, 4)
        assert sorted(caption for each in captions(splits).values() for caption in each) == ["a", "b", "c"]
        assert "val" in str(report.findings["not on the list"][0].place)

    def test_nothing_to_learn_from_is_refused(self, divided):
        (divided / "train").rename(divided / "learn")
        with pytest.raises(UserError, match="Beside val and test there is no folder train") as caught:
            OwnFilms(paths=(str(divided),)).films(6, 3, 4)
        assert caught.value.where == str(divided)
        for split in ("val", "test"):
            (divided / split).rename(divided / f"{split} films")
        with pytest.raises(UserError, match="no list of captions in this folder") as caught:
            OwnFilms(paths=(str(divided),)).films(6, 3, 4)
        assert caught.value.where == str(divided)

    @pytest.mark.parametrize("content", [None, "film,caption\n"], ids=["no list", "no line"])
    def test_a_split_without_a_list_or_with_an_empty_one_is_named(self, divided, content):
        path = divided / "test" / "captions.csv"
        path.unlink() if content is None else path.write_text(content)
        (divided / "train" / "0.gif").write_text("an error in another list explains nothing here")
        with pytest.raises(UserError) as caught:
            OwnFilms(paths=(str(divided),)).films(6, 3, 4)
        assert caught.value.where == str(path.parent if content is None else path)
        assert run(["data", "check", str(divided)]) == 2

    def test_a_split_of_bad_films_is_not_made_up_for_by_others(self, divided):
        (divided / "val" / "3.gif").write_text("text")
        with pytest.raises(UserError, match="There is not one film in valid") as caught:
            OwnFilms(paths=(str(divided),)).films(6, 3, 4)
        assert "1 x no film" in caught.value.what

    def test_a_film_that_is_also_tested_on_is_told(self, divided):
        (divided / "test" / "4.gif").write_bytes((divided / "train" / "0.gif").read_bytes())
        (report,) = OwnFilms(paths=(str(divided),)).films(6, 3, 4)[1]
        assert dict(report.counts) == {"picture in two splits": 1}
