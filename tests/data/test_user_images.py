"""The user's own images: splits by settings, and the check of a folder from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from seq2see.cli.app import run
from seq2see.core.errors import UserError
from seq2see.data.readers import image_files
from seq2see.data.readers.user_images import CaptionedImages, UserCaptionedImages, UserImages


def photos(folder: Path, classes: dict[str, int], seed: int = 0) -> str:
    """A folder with the given number of images of each class."""
    random = np.random.default_rng(seed)
    for label, count in classes.items():
        (folder / label).mkdir(parents=True)
        for number in range(count):
            Image.fromarray(random.integers(0, 256, (9, 9, 3), dtype=np.uint8)).save(folder / label / f"{number}.png")
    return str(folder)


def test_validation_and_test_images_may_be_in_other_folders(tmp_path):
    train, valid, test = (photos(tmp_path / name, {"a": 4, "b": 4}, seed) for seed, name in enumerate("xyz"))
    corpus = UserImages(paths=(train,), valid=(valid,), test=(test,))
    splits, reports = corpus.images(8, 3)
    assert {name: len(each) for name, each in splits.items()} == {"train": 8, "valid": 8, "test": 8}
    assert {name: Path(each.names[0]).parts[-3] for name, each in splits.items()} == {
        "train": "x", "valid": "y", "test": "z",
    }  # fmt: skip
    assert [report.read for report in reports] == [8, 8, 8]
    assert not any(report.counts for report in reports)
    assert {each.pixels.shape[1:] for each in splits.values()} == {(8, 8, 3)}
    assert {each.pixels.shape[1:] for each in corpus.images(5, 1)[0].values()} == {(5, 5, 1)}


def test_of_a_set_with_splits_the_right_one_is_used(tmp_path):
    train = photos(tmp_path / "x", {"a": 4, "b": 4})
    for seed, split in enumerate(("train", "test"), 5):
        photos(tmp_path / "y" / split, {"a": 2, "b": 2}, seed)
    splits, _ = UserImages(paths=(train,), valid=(str(tmp_path / "y"),), test=(str(tmp_path / "y"),)).images(8, 3)
    assert {name: Path(each.names[0]).parts[-3] for name, each in splits.items()} == {
        "train": "x", "valid": "train", "test": "test",
    }  # fmt: skip


def test_splits_in_other_folders_are_compared_too(tmp_path):
    train, test = photos(tmp_path / "x", {"a": 4, "b": 4}), photos(tmp_path / "z", {"a": 4, "c": 4}, 1)
    with pytest.raises(UserError, match="without a training image: 'c'"):
        UserImages(paths=(train,), test=(test,)).images(8, 3)
    same = photos(tmp_path / "same", {"a": 4, "b": 4})
    assert UserImages(paths=(train,), test=(same,)).check()[0].counts["image in two splits"] == 8


def test_invalid_images_are_an_error_if_the_policy_says_so(tmp_path):
    train = photos(tmp_path, {"a": 9, "b": 9})
    (tmp_path / "a" / "甲.png").write_text("text")
    assert sum(map(len, UserImages(paths=(train,)).images(8, 3)[0].values())) == 18
    with pytest.raises(UserError, match="not an image but text") as caught:
        UserImages(paths=(train,), on_error="error").images(8, 3)
    assert caught.value.location == str(tmp_path / "a" / "甲.png")
    with pytest.raises(UserError, match="1 images have errors, and at most 0"):
        UserImages(paths=(train,), max_errors=0).images(8, 3)


def test_an_empty_set_is_an_error_with_its_folder(tmp_path):
    train = photos(tmp_path / "x", {"a": 4, "b": 4})
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no image") as caught:
        UserImages(paths=(train,), test=(str(tmp_path / "empty"),)).images(8, 3)
    assert caught.value.location == str(tmp_path / "empty")


def test_a_folder_is_checked_from_the_command_line(tmp_path, capsys):
    folder = photos(tmp_path / "照片", {"猫": 5, "狗": 5})
    assert run(["data", "check", folder]) == 0
    output = capsys.readouterr().out
    assert "checked as images with labels" in output
    assert "10 images read = 10 kept + 0 skipped + 0 rejected" in output
    (tmp_path / "照片" / "猫" / "假.png").write_text("text")
    assert run(["data", "check", folder]) == 2
    output = capsys.readouterr().out
    assert "11 images read = 10 kept + 0 skipped + 1 rejected" in output
    assert "猫/假.png: This is not an image but text." in output


@pytest.fixture
def captions(tmp_path):
    photos(tmp_path, {"p": 12})
    lines = [f'p/{number}.png,"图 {number}, 第 {index} 句"' for number in range(12) for index in range(3)]
    (tmp_path / "list.csv").write_text("\n".join(["image,caption", *lines]), encoding="utf-8")
    return tmp_path / "list.csv"


def test_an_image_has_all_the_captions_of_its_lines(captions):
    splits, (report,) = UserCaptionedImages(paths=(str(captions),)).images(8, 3)
    assert {name: len(each) for name, each in splits.items()} == {"train": 10, "valid": 1, "test": 1}
    assert (report.read, report.kept, report.rejected) == (12, 12, 0)
    assert not report.counts
    for examples in splits.values():
        for example, pixels in zip(examples, examples.pixels, strict=True):
            number = Path(example.source).stem
            assert example.references == tuple(f"图 {number}, 第 {index} 句" for index in range(3))
            stored = np.array(Image.open(example.source).resize((8, 8), Image.Resampling.BICUBIC))
            assert np.abs(stored.astype(int) - pixels).max() <= 2


def test_a_caption_list_is_checked_with_its_lines(captions, capsys):
    (captions.parent / "p" / "3.png").write_text("text")
    (captions.parent / "p" / "copy.png").write_bytes((captions.parent / "p" / "4.png").read_bytes())
    with captions.open("a", encoding="utf-8") as file:
        file.write("\np/copy.png,另一句\np/5.png,\n")
    assert run(["data", "check", str(captions)]) == 2
    output = capsys.readouterr().out
    assert "checked as images with captions" in output
    assert "14 images read = 12 kept + 0 skipped + 2 rejected" in output
    assert f"{captions}:11: This is not an image but text." in output
    assert f"{captions}:39:0" not in output
    assert f"{captions}:39: The caption is empty." in output
    assert "duplicate image, 1 found" in output
    assert "two labels" not in output


@pytest.mark.parametrize(
    ("name", "lines", "message", "hint"),
    [
        ("a.csv", "p/0.png,a cat\np/1.png,\n", "a.csv:2: The caption is empty.", "Fill in the field"),
        ("a.csv", "p/0.png,a cat\n,a dog\n", "a.csv:2: The file is empty.", "Fill in the field"),
        ("a.tsv", "p/0.png\ta cat\np/1.png\t\n", "a.tsv:2:9: The caption is empty.", "Fill in the field"),
        ("a.jsonl", '{"image": "p/0.png"}\n', "a.jsonl:1:1: The key 'caption' is missing.", "keys image and caption."),
        ("a.jsonl", '{"caption": "a cat"}\n', "a.jsonl:1:1: The key 'file' is missing.", "keys file and caption."),
        ("a.jsonl", "{\n", "a.jsonl:1:2: This is not JSON", 'per line: {"file": "...", "caption": "..."}.'),
        ("a.jsonl", "1\n", "a.jsonl:1:1: Expected an object", 'in quotes: {"file": "...", "caption": "..."}.'),
    ],
)
def test_without_a_header_the_columns_have_their_default_names(tmp_path, name, lines, message, hint):
    photos(tmp_path, {"p": 2})
    (tmp_path / name).write_text(lines)
    (report,) = UserCaptionedImages(paths=(str(tmp_path / name),)).check()
    (issue,) = (each for kind in report.issues for each in report.issues[kind] if each == report.first_error)
    assert f"{issue.location}: {issue.message}".removeprefix(f"{tmp_path}/").startswith(message)
    assert issue.hint.endswith(hint) or issue.hint.startswith(hint)


def test_messages_of_a_list_of_labels_without_a_header_name_labels(tmp_path):
    photos(tmp_path, {"p": 2})
    (tmp_path / "a.csv").write_text("p/0.png,cat\np/1.png,\n")
    (report,) = UserImages(paths=(str(tmp_path / "a.csv"),)).check()
    assert report.issues["empty field"][0].message == "The label is empty."


def test_of_a_label_and_a_caption_each_task_reads_its_own(tmp_path):
    photos(tmp_path, {"p": 6})
    rows = [{"path": f"p/{number}.png", "label": "ab"[number % 2], "caption": f"图 {number}"} for number in range(6)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
    (tmp_path / "a.csv").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "a.tsv").write_text("\n".join(lines).replace(",", "\t"), encoding="utf-8")
    for name in ("a.jsonl", "a.csv", "a.tsv"):
        captions, labels = (
            {
                example.target
                for split in kind(paths=(str(tmp_path / name),)).images(8, 3)[0].values()
                for example in split
            }
            for kind in (UserCaptionedImages, UserImages)
        )
        assert captions == {f"图 {number}" for number in range(6)}
        assert labels == {"a", "b"}


def test_a_caption_after_a_label_is_reported_at_its_column(tmp_path):
    photos(tmp_path, {"p": 2})
    (tmp_path / "a.tsv").write_text("file\tlabel\tcaption\np/0.png\ta\tone\np/1.png\tb\t\n")
    (report,) = UserCaptionedImages(paths=(str(tmp_path / "a.tsv"),)).check()
    (issue,) = report.issues["empty field"]
    (tmp_path / "b.tsv").write_text("file\tlabel\tcaption\np/0.png\ta\np/1.png\tb\n")
    (other,) = UserCaptionedImages(paths=(str(tmp_path / "b.tsv"),)).check()
    assert other.issues["wrong column count"][0].message == "Expected 3 columns, found 2."
    assert (str(issue.location), issue.message) == (f"{tmp_path / 'a.tsv'}:3:11", "The caption is empty.")


def test_a_folder_of_captioned_images_contains_its_list(captions):
    folder = captions.parent
    with pytest.raises(UserError, match="no list of captions"):
        UserCaptionedImages(paths=(str(folder),)).check()
    listed = UserCaptionedImages(paths=(str(captions),)).images(8, 3)[0]["train"].fingerprint
    captions.rename(folder / "Captions.csv")
    splits, (report,) = UserCaptionedImages(paths=(str(folder),)).images(8, 3)
    assert splits["train"].fingerprint == listed
    assert (report.read, report.kept) == (12, 12)
    (folder / "captions.tsv").write_text("a.png\tb\n")
    with pytest.raises(UserError, match=r"several lists .*: Captions.csv, captions.tsv"):
        UserCaptionedImages(paths=(str(folder),)).check()


def test_listed_files_are_not_reported_as_unlisted(captions):
    folder = captions.parent
    captions.rename(folder / "captions.csv")
    (folder / "p" / "0.png").rename(folder / "a.png")
    (folder / "captions.csv").write_text("file,caption\np/../a.png,one\np/1.png,two\n")
    for name in ("._a.png", "stray.png"):
        (folder / name).write_bytes((folder / "a.png").read_bytes())
    (report,) = UserCaptionedImages(paths=(str(folder),)).check()
    assert [each.location.file for each in report.issues["unlisted file"]] == [str(folder / "stray.png")]
    assert (report.read, report.kept, report.skipped) == (3, 2, 1)


def test_an_image_without_captions_is_a_bug():
    pixels = np.zeros((2, 4, 4, 3), np.uint8)
    for captions in ((("a",),), (("a",), ())):
        with pytest.raises(ValueError, match="every image needs captions"):
            CaptionedImages(pixels, ("a", "b"), ("1.png", "2.png"), captions)


def test_more_images_than_fit_are_refused_before_they_are_read(tmp_path, monkeypatch):
    train = photos(tmp_path, {"a": 9, "b": 9})
    monkeypatch.setattr(image_files, "total_memory", lambda: 18 * 8 * 8 * 3 - 1)
    with pytest.raises(UserError, match=r"18 images of 8 x 8 pixels need 0.0 GiB") as caught:
        UserImages(paths=(train,)).images(8, 3)
    assert "source.image_size" in caught.value.hint
    monkeypatch.setattr(image_files, "total_memory", lambda: 18 * 8 * 8 * 3)
    UserImages(paths=(train,)).images(8, 3)


def test_a_fingerprint_is_of_all_captions(captions):
    def fingerprint() -> str:
        return UserCaptionedImages(paths=(str(captions),)).images(8, 3)[0]["train"].fingerprint

    before = fingerprint()
    assert fingerprint() == before
    text = captions.read_text(encoding="utf-8")
    captions.write_text(text.replace("第 2 句", "第 9 句"), encoding="utf-8")  # the last of three
    assert fingerprint() != before
