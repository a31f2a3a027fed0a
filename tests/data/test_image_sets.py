"""Sets of images: every layout is read, every image is counted, and one invalid file stops nothing."""

from __future__ import annotations

import gzip
import json
import os
import threading
import time
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from load_image_sets import read_image_set
from PIL import Image

from catalogue_stubs import idx_file
from seq2see.core.errors import UserError
from seq2see.data.readers import image_files, image_sets
from seq2see.data.readers.data_report import DataReport, ErrorPolicy
from seq2see.data.readers.image_files import parallel_map
from seq2see.data.readers.image_sets import check_splits, compact_rows, resize_packed, scan_image_set
from seq2see.data.readers.packed_images import CIFAR_CLASSES, PackedImages

STRICT = ErrorPolicy("error")


def noise(number: int, size: tuple[int, int] = (9, 7)) -> Image.Image:
    """An image that is different for each number."""
    return Image.fromarray(np.random.default_rng(number).integers(0, 256, (*size[::-1], 3), dtype=np.uint8))


def save(path: Path, number: int = 0, **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise(number).save(path, **options)
    return path


def photos(folder: Path, classes: dict[str, int], first: int = 0) -> Path:
    """A folder with the given number of images of each class."""
    for label, count in classes.items():
        for number in range(count):
            save(folder / label / f"{number:03}.png", first := first + 1)
    return folder


def account(report) -> tuple[int, int, int, int]:
    assert report.read == report.kept + report.skipped + report.rejected
    return report.read, report.kept, report.skipped, report.rejected


def scan(path: Path):
    scanned = scan_image_set(path, 8)
    check_splits(scanned)
    return scanned.report


class TestFolders:
    def test_a_folder_for_each_class(self, tmp_path):
        splits, report = read_image_set(photos(tmp_path, {"猫": 30, "狗": 30}), image_size=8)
        assert {name: len(each) for name, each in splits.items()} == {"train": 54, "valid": 3, "test": 3}
        assert account(report) == (60, 60, 0, 0)
        assert not report.counts
        train = splits["train"]
        assert train.pixels.shape == (54, 8, 8, 3)
        assert train.pixels.dtype == np.uint8
        assert set(train.labels) == {"猫", "狗"}
        for name, label, pixels in zip(train.names, train.labels, train.pixels, strict=True):
            assert Path(name).parent.name == label
            assert abs(pixels.mean() - np.array(Image.open(name)).mean()) < 12
        held = {name for split in ("valid", "test") for name in splits[split].names}
        assert not held & set(train.names)

    def test_the_held_out_images_depend_on_the_images_alone(self, tmp_path):
        one = read_image_set(photos(tmp_path / "a", {"x": 20, "y": 20}), image_size=8)[0]
        (tmp_path / "a" / "x").rename(tmp_path / "a" / "zz")
        other = read_image_set(tmp_path / "a", image_size=12)[0]
        for split in ("valid", "test"):
            assert {Path(name).name for name in one[split].names} == {Path(name).name for name in other[split].names}

    @pytest.mark.parametrize("word", ["valid", "val", "Validation"])
    def test_a_folder_for_each_split(self, tmp_path, word):
        for index, split in enumerate(("train", word, "test")):
            photos(tmp_path / split, {"a": 3, "b": 3}, first=100 * index)
        splits, report = read_image_set(tmp_path, image_size=8)
        assert {name: len(each) for name, each in splits.items()} == {"train": 6, "valid": 6, "test": 6}
        assert {Path(name).parts[-3] for name in splits["valid"].names} == {word}
        assert not report.counts

    def test_missing_splits_of_a_folder_are_held_out(self, tmp_path):
        photos(tmp_path / "train", {"a": 20, "b": 20})
        photos(tmp_path / "test", {"a": 2, "b": 2}, first=100)
        splits, _ = read_image_set(tmp_path, image_size=8)
        assert {name: len(each) for name, each in splits.items()} == {"train": 38, "valid": 2, "test": 4}

    def test_train_may_be_a_class(self, tmp_path):
        splits, _ = read_image_set(photos(tmp_path, {"train": 5, "bus": 5}), image_size=8)
        assert set(splits["train"].labels) == {"train", "bus"}

    @pytest.mark.parametrize("others", [("valid", "test"), ("test",), ("Validation", "testing", "learn")])
    def test_splits_without_train_are_not_read_as_classes(self, tmp_path, others):
        for name in others:
            photos(tmp_path / name, {"a": 5, "b": 5})
        with pytest.raises(UserError, match=f"There are folders {' and '.join(others[:2])}, but no folder train"):
            read_image_set(tmp_path, image_size=8)

    def test_test_may_be_a_class(self, tmp_path):
        splits, _ = read_image_set(photos(tmp_path, {"test": 5, "exam": 5}), image_size=8)
        assert set(splits["train"].labels) == {"test", "exam"}

    def test_folders_next_to_the_splits_are_reported(self, tmp_path):
        for index, name in enumerate(("train", "test", "more")):
            photos(tmp_path / name, {"a": 2, "b": 2}, 10 * index)
        report = scan(tmp_path)
        assert [each.location.file for each in report.issues["ignored file"]] == [str(tmp_path / "more")]
        assert account(report) == (8, 8, 0, 0)

    def test_two_folders_for_one_split(self, tmp_path):
        for name in ("train", "val", "valid"):
            photos(tmp_path / name, {"a": 2, "b": 2})
        with pytest.raises(UserError, match="val and valid are both folders of the split valid"):
            read_image_set(tmp_path, image_size=8)

    def test_images_in_deeper_folders_belong_to_the_class(self, tmp_path):
        photos(tmp_path, {"a": 3, "b": 3})
        save(tmp_path / "a" / "2026" / "夏天" / "x.png", 50)
        splits, report = read_image_set(tmp_path, image_size=8)
        assert account(report) == (7, 7, 0, 0)
        found = dict(pair for each in splits.values() for pair in zip(each.names, each.labels, strict=True))
        assert found[str(tmp_path / "a" / "2026" / "夏天" / "x.png")] == "a"

    def test_endings_in_any_case_and_formats_by_their_bytes(self, tmp_path):
        photos(tmp_path, {"a": 3, "b": 3})
        save(tmp_path / "a" / "x.JPG", 50)
        save(tmp_path / "a" / "y.jpg", 51, format="PNG")
        _, report = read_image_set(tmp_path, image_size=8)
        assert account(report) == (8, 8, 0, 0)
        assert dict(report.counts) == {"format mismatch": 1}
        assert "The suffix is .jpg, but the format is PNG" in report.issues["format mismatch"][0].message

    def test_hidden_and_other_files_are_left_out_and_counted(self, tmp_path):
        photos(tmp_path, {"a": 3, "b": 3})
        for name in ("a/.DS_Store", "a/._001.png", "b/Thumbs.db", "README.md", ".hidden.png"):
            (tmp_path / name).write_bytes(b"x")
        save(tmp_path / ".ipynb_checkpoints" / "001.png")
        save(tmp_path / "__MACOSX" / "001.png")
        save(tmp_path / "a" / ".ipynb_checkpoints" / "001.png")
        splits, report = read_image_set(tmp_path, image_size=8)
        assert account(report) == (11, 6, 5, 0)
        assert dict(report.counts) == {"ignored file": 8}
        assert sum(map(len, splits.values())) == 6

    def test_a_pipe_is_not_waited_for(self, tmp_path):
        photos(tmp_path, {"a": 3, "b": 3})
        os.mkfifo(tmp_path / "a" / "pipe.png")
        os.mkfifo(tmp_path / "b" / "pipe")
        (tmp_path / "b" / "link.png").symlink_to("pipe")
        _, report = read_image_set(tmp_path, image_size=8)
        assert account(report) == (9, 6, 2, 1)
        assert report.counts["unreadable image"] == 1

    def test_links_are_followed_but_not_in_a_circle(self, tmp_path):
        photos(tmp_path / "set", {"a": 3, "b": 3})
        photos(tmp_path / "elsewhere", {"c": 4}, first=50)
        (tmp_path / "set" / "c").symlink_to(tmp_path / "elsewhere" / "c")
        for link, target in (("a/up", ".."), ("b/self", "."), ("b/out", "../..")):
            (tmp_path / "set" / link).symlink_to(target)
        (tmp_path / "set" / "a" / "loop.png").symlink_to("loop.png")
        (tmp_path / "set" / "a" / "gone.png").symlink_to("nowhere.png")
        splits, report = read_image_set(tmp_path / "set", image_size=8)
        assert dict(report.counts) == {"symlink loop": 3, "unreadable image": 2}
        assert account(report) == (12, 10, 0, 2)
        assert set(splits["train"].labels) <= {"a", "b", "c"}

    def test_names_that_are_no_unicode_are_escaped(self, tmp_path):
        photos(tmp_path, {"a": 3})
        strange = Path(os.fsdecode(os.fsencode(tmp_path) + b"/b\xff"))
        for number in range(3):
            save(strange / os.fsdecode(b"\xfe%d.png" % number), 50 + number)
        (strange / os.fsdecode(b"\xfd.png")).write_bytes(b"text")
        splits, report = read_image_set(tmp_path, image_size=8)
        assert {label for each in splits.values() for label in each.labels} == {"a", r"b\udcff"}
        assert account(report) == (7, 6, 0, 1)
        assert json.dumps(report.to_json()).encode("utf-8")
        assert "\n".join(report.to_lines()).encode("utf-8")

    def test_unreadable_files_are_reported(self, tmp_path, monkeypatch):
        """Root may read everything, so the errors are simulated."""
        photos(tmp_path, {"a": 3, "b": 3})
        (tmp_path / "a" / "closed").mkdir()
        stat, scandir = Path.stat, os.scandir

        def refuse(path):
            if Path(path).name in ("001.png", "closed"):
                raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr(Path, "stat", lambda path, **options: refuse(path) or stat(path, **options))
        monkeypatch.setattr(os, "scandir", lambda path: refuse(path) or scandir(path))
        report = scan(tmp_path)
        assert account(report)[1:] == (4, 1, 2)
        assert {Path(each.location.file).name for each in report.issues["unreadable image"]} == {"001.png"}

    @pytest.mark.parametrize("call", ["scandir", "stat"])
    def test_a_folder_that_may_not_be_read_is_reported(self, tmp_path, monkeypatch, call):
        photos(tmp_path, {"a": 3, "b": 3, "c": 3})
        original = {"scandir": os.scandir, "stat": image_sets._identity}[call]

        def refuse(path):
            if Path(path).name == "b":
                raise PermissionError(13, "Permission denied", str(path))
            return original(path)

        if call == "scandir":
            monkeypatch.setattr(os, "scandir", refuse)
        else:
            monkeypatch.setattr(image_sets, "_identity", refuse)
        report = scan(tmp_path)
        assert account(report) == (6, 6, 0, 0)
        (issue,) = report.issues["unreadable image"]
        assert issue.location.file == str(tmp_path / "b")
        assert "Permission denied" in issue.message

    def test_a_set_that_may_not_be_read_is_reported(self, tmp_path, monkeypatch):
        photos(tmp_path, {"a": 3, "b": 3})

        def refuse(path):
            raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr(os, "scandir", refuse)
        monkeypatch.setattr(Path, "iterdir", refuse)
        with pytest.raises(UserError, match="The folder cannot be read: Permission denied") as caught:
            read_image_set(tmp_path, image_size=8)
        assert caught.value.location == str(tmp_path)
        assert scan(tmp_path).counts["unreadable image"] == 1  # although the folder is read twice

    def test_one_name_in_two_normal_forms_is_one_class(self, tmp_path):
        photos(tmp_path / "train", {unicodedata.normalize("NFC", "café"): 3, "x": 3})
        photos(tmp_path / "test", {unicodedata.normalize("NFD", "café"): 3, "x": 3}, first=50)
        splits, report = read_image_set(tmp_path, image_size=8)
        assert set(splits["test"].labels) == {"café", "x"}
        assert not report.counts

    def test_a_small_image_is_enlarged_and_reported(self, tmp_path):
        photos(tmp_path, {"a": 3, "b": 3})
        Image.new("RGB", (1, 1), "red").save(tmp_path / "a" / "dot.png")
        _, report = read_image_set(tmp_path, image_size=8)
        assert dict(report.counts) == {"small image": 1}
        assert "1 x 1 pixels" in report.issues["small image"][0].message


class TestBadImages:
    def spoil(self, folder: Path) -> Path:
        photos(folder, {"猫": 20, "狗": 20})
        whole = save(folder / "猫" / "cut.png", 90).read_bytes()
        (folder / "猫" / "cut.png").write_bytes(whole[: len(whole) // 2])
        (folder / "猫" / "text.png").write_text("not an image")
        (folder / "狗" / "empty.jpg").write_bytes(b"")
        save(folder / "狗" / "scan.tif", 91)
        return folder

    def test_bad_images_are_named_and_left_out(self, tmp_path):
        splits, report = read_image_set(self.spoil(tmp_path), image_size=8)
        assert account(report) == (44, 40, 0, 4)
        assert dict(report.counts) == {"corrupt image": 2, "not an image": 2}
        files = {issue.location.file for issues in report.issues.values() for issue in issues}
        assert {Path(file).name for file in files} == {"cut.png", "text.png", "empty.jpg", "scan.tif"}
        assert sum(map(len, splits.values())) == 40
        lines = "\n".join(report.to_lines())
        assert "44 images read = 40 kept + 0 skipped + 4 rejected" in lines
        assert "text.png: This is not an image but text." in lines

    def test_unless_the_policy_forbids_it(self, tmp_path):
        with pytest.raises(
            UserError, match=r"The file is empty. \(and 1 more like it; also 2 x not an image\)"
        ) as caught:
            read_image_set(self.spoil(tmp_path), 8, policy=STRICT)
        assert caught.value.location == str(tmp_path / "狗" / "empty.jpg")

    def test_too_many_of_them_stop_it(self, tmp_path):
        with pytest.raises(UserError, match="4 images have errors, and at most 3 may be skipped"):
            read_image_set(self.spoil(tmp_path), 8, policy=ErrorPolicy("skip", 3))

    def test_repairs_are_counted(self, tmp_path):
        photos(tmp_path, {"a": 3, "b": 3})
        exif = Image.Exif()
        exif[0x0112] = 6
        save(tmp_path / "a" / "turned.jpg", 50, exif=exif)
        noise(51).save(tmp_path / "a" / "video.gif", save_all=True, append_images=[noise(52)])
        noise(53).convert("CMYK").save(tmp_path / "b" / "print.jpg")
        Image.fromarray(np.full((8, 8), 999, np.uint16)).save(tmp_path / "b" / "deep.png")
        Image.new("RGBA", (8, 8), (1, 2, 3, 4)).save(tmp_path / "b" / "glass.png")
        _, report = read_image_set(tmp_path, 8, policy=STRICT)
        kinds = ("EXIF rotation", "multiple frames", "CMYK colors", "16-bit image", "transparent image")
        assert dict(report.counts) == dict.fromkeys(kinds, 1)
        assert account(report) == (11, 11, 0, 0)


class TestClasses:
    def test_an_empty_class_is_left_out_and_reported_or_refused(self, tmp_path):
        photos(tmp_path, {"a": 5, "b": 5})
        (tmp_path / "空的").mkdir()
        splits, report = read_image_set(tmp_path, image_size=8)
        assert set(splits["train"].labels) == {"a", "b"}
        assert "no image of the class '空的'" in report.issues["empty class"][0].message
        with pytest.raises(UserError, match="no image of the class '空的'"):
            read_image_set(tmp_path, 8, policy=STRICT)

    def test_one_class_only(self, tmp_path):
        with pytest.raises(UserError, match="All training images are of the class 'a'"):
            read_image_set(photos(tmp_path, {"a": 9}), image_size=8)

    def test_classes_without_a_training_image_are_named(self, tmp_path):
        photos(tmp_path / "train", {"a": 3, "b": 3})
        photos(tmp_path / "test", {"a": 3, "B": 3, "鸟": 1}, first=50)
        with pytest.raises(UserError, match=r"The split test has classes without a training image.*'B', '鸟'"):
            read_image_set(tmp_path, image_size=8)

    def test_classes_missing_in_a_split_are_named(self, tmp_path):
        photos(tmp_path / "train", {"a": 3, "b": 3})
        photos(tmp_path / "test", {"a": 3}, first=50)
        _, report = read_image_set(tmp_path, image_size=8)
        assert [each.message for each in report.issues["class missing in split"]] == [
            "There is no image of 'b' in test."
        ]

    def test_images_without_a_class(self, tmp_path):
        photos(tmp_path, {"a": 3, "b": 3})
        save(tmp_path / "stray.png", 50)
        _, report = read_image_set(tmp_path, image_size=8)
        assert account(report) == (7, 6, 0, 1)
        assert dict(report.counts) == {"image without a class": 1}

    def test_images_without_classes_at_all(self, tmp_path):
        save(tmp_path / "1.png", 1)
        with pytest.raises(UserError, match="not in the folder of any class") as caught:
            read_image_set(tmp_path, image_size=8)
        assert "folder of its class" in caught.value.hint

    def test_without_training_images_no_class_is_unknown(self, tmp_path):
        photos(tmp_path / "test", {"a": 2})
        (tmp_path / "train").mkdir()
        assert list(scan(tmp_path).counts) == ["no images"]

    def test_no_images(self, tmp_path):
        with pytest.raises(UserError, match="no image"):
            read_image_set(tmp_path, image_size=8)

    @pytest.mark.parametrize("split", ["train", "valid", "test"])
    def test_a_split_without_valid_images_is_not_replaced_by_held_out_ones(self, tmp_path, split):
        """Otherwise held-out images would be evaluated in place of the test images."""
        for name in ("train", "valid", "test"):
            photos(tmp_path / name, {"a": 3, "b": 3})
        for path in (tmp_path / split).glob("*/*"):
            path.write_text("text")
        with pytest.raises(UserError, match=f"There is no image in {split}") as caught:
            read_image_set(tmp_path, image_size=8)
        assert "6 x not an image" in caught.value.message

    @pytest.mark.parametrize("deeper", ["photos", "photos/train"])
    def test_classes_one_folder_too_deep_are_reported(self, tmp_path, deeper):
        photos(tmp_path / deeper, {"猫": 3, "dog": 3})
        if deeper != "photos":
            photos(tmp_path / "photos" / "test", {"猫": 2, "dog": 2}, 50)
        (issue,) = scan(tmp_path).issues["single class"]
        assert issue.hint.startswith(
            f"If the folders in {tmp_path / 'photos'} are the classes, give that folder instead"
        )

    def test_one_class_in_several_folders_is_one_class(self, tmp_path):
        photos(tmp_path, {"cat": 3, "cat/small": 3})
        (issue,) = scan(tmp_path).issues["single class"]
        assert issue.hint == "Add images of other classes: one folder for each class."
        (tmp_path / "list.csv").write_text("file,label\ncat/000.png,cat\ncat/small/000.png,cat\n")
        (issue,) = scan(tmp_path / "list.csv").issues["single class"]
        assert issue.hint == "Add images of other classes: one folder for each class."

    def test_a_list_without_a_line_has_no_images(self, tmp_path):
        (tmp_path / "list.csv").write_text("file,label\n")
        (issue,) = scan(tmp_path / "list.csv").issues["no examples"]
        assert issue.message == "There is no image in it."

    @pytest.mark.parametrize("seed", range(10))
    def test_of_each_class_at_least_one_image_is_in_training(self, tmp_path, seed):
        photos(tmp_path, {"many": 17, "two": 2, "one": 1, "another": 1}, 100 * seed)
        splits, _ = read_image_set(tmp_path, 8)
        assert set(splits["train"].labels) == {"many", "two", "one", "another"}
        assert len(splits["valid"]) == len(splits["test"]) == 1

    def test_too_few_images(self, tmp_path):
        with pytest.raises(UserError, match="at least 4 are needed: one of each class for train"):
            read_image_set(photos(tmp_path, {"a": 1, "b": 1}), image_size=8)


class TestTwice:
    def test_equal_images_stay_together_and_are_reported(self, tmp_path):
        photos(tmp_path, {"a": 40, "b": 40})
        for number in range(40):  # a copy of each in another format
            Image.open(tmp_path / "a" / f"{number:03}.png").save(tmp_path / "a" / f"copy{number:03}.bmp")
        splits, report = read_image_set(tmp_path, image_size=8)
        assert dict(report.counts) == {"duplicate image": 40}
        pixels_of = {name: {each.tobytes() for each in split.pixels} for name, split in splits.items()}
        assert not pixels_of["train"] & pixels_of["test"]
        assert not pixels_of["train"] & pixels_of["valid"]

    def test_the_order_of_copies_changes_no_split(self, tmp_path):
        photos(tmp_path, {"a": 40, "b": 40})
        for number in range(40):
            Image.open(tmp_path / "a" / f"{number:03}.png").save(tmp_path / "a" / f"x{number:03}.bmp")
        before = read_image_set(tmp_path, image_size=8)[0]
        for path in list((tmp_path / "a").glob("x*")):
            path.rename(path.with_name(f"!{path.name}"))  # now each copy comes first
        after = read_image_set(tmp_path, image_size=8)[0]
        for split in ("valid", "test"):
            assert {each.tobytes() for each in before[split].pixels} == {each.tobytes() for each in after[split].pixels}

    def test_an_image_in_two_splits_is_reported(self, tmp_path):
        photos(tmp_path / "train", {"a": 3, "b": 3})
        photos(tmp_path / "test", {"a": 3, "b": 3}, first=50)
        save(tmp_path / "test" / "a" / "seen.png", 1)
        _, report = read_image_set(tmp_path, image_size=8)
        assert dict(report.counts) == {"image in two splits": 1}
        issue = report.issues["image in two splits"][0]
        assert issue.location.file == str(tmp_path / "test" / "a" / "seen.png")
        assert str(tmp_path / "train" / "a" / "000.png") in issue.message

    def test_an_image_with_two_labels_is_reported(self, tmp_path):
        photos(tmp_path, {"a": 3, "b": 3})
        save(tmp_path / "b" / "x.png", 1)
        _, report = read_image_set(tmp_path, image_size=8)
        assert dict(report.counts) == {"duplicate image": 1, "conflicting labels": 1}
        assert "Its label is 'b' here" in report.issues["conflicting labels"][0].message


ROWS = [(f"images/图{number}.png", "猫" if number % 2 else "狗") for number in range(10)]
LISTS = {
    "list.csv": "image,label\n" + "".join(f"{file},{label}\n" for file, label in ROWS),
    "turned.csv": "id,label,file\n" + "".join(f"7,{label},{file}\n" for file, label in ROWS),
    "list.tsv": "path\tlabel\n" + "".join(f"{file}\t{label}\n" for file, label in ROWS),
    "metadata.csv": "file_name,label\n" + "".join(f"{file},{label}\n" for file, label in ROWS),
    "bare.tsv": "".join(f"{file}\t{label}\n" for file, label in ROWS),
    "windows.tsv": "".join(f"{file}\t{label}\n".replace("/", "\\") for file, label in ROWS),
    "list.jsonl": "".join(json.dumps({"file": file, "label": label}) + "\n" for file, label in ROWS),
}


class TestLists:
    @pytest.mark.parametrize("name", LISTS)
    def test_paths_are_relative_to_the_list(self, tmp_path, name, monkeypatch):
        for number, (file, _) in enumerate(ROWS):
            save(tmp_path / file, number)
        (tmp_path / name).write_text(LISTS[name], encoding="utf-8")
        monkeypatch.chdir("/")
        splits, report = read_image_set(tmp_path / name, image_size=8)
        found = dict(pair for each in splits.values() for pair in zip(each.names, each.labels, strict=True))
        assert found == {str(tmp_path / file): label for file, label in ROWS}
        assert account(report) == (10, 10, 0, 0)
        assert not report.counts
        assert report.files == [str(tmp_path / name)]

    def test_issues_of_texts_do_not_apply_to_images(self, tmp_path):
        """A name is longer than its label, and an image that is listed twice is reported as an image."""
        names = [f"{'long' * 20}/{number}.png" for number in range(6)]
        for number, name in enumerate(names):
            save(tmp_path / name, number)
        lines = [f"{name}\t{'ab'[number % 2]}\n" for number, name in enumerate(names)]
        (tmp_path / "list.tsv").write_text("".join([*lines, lines[0]]), encoding="utf-8")
        _, report = read_image_set(tmp_path / "list.tsv", image_size=8)
        assert dict(report.counts) == {"duplicate image": 1}
        assert account(report) == (7, 7, 0, 0)

    def test_spaces_around_a_label_make_no_other_class(self, tmp_path):
        lines = "".join(
            f"{save(tmp_path / f'{number}.png', number).name}\ta{' ' * (number % 2)}\n" for number in range(4)
        )
        (tmp_path / "list.tsv").write_text(lines)
        assert scan_image_set(tmp_path / "list.tsv", 8).splits["train"].examples.labels == ("a",) * 4

    def test_a_name_without_a_suffix_implies_no_format(self, tmp_path):
        save(tmp_path / "a.png", 1).rename(tmp_path / "a")
        (tmp_path / "list.csv").write_text("a,one\n")
        assert not scan_image_set(tmp_path / "list.csv", 8).report.counts

    def test_a_name_with_a_backslash_in_it_is_a_name(self, tmp_path):
        save(tmp_path / "a\\b.png", 1)
        (tmp_path / "list.csv").write_text("a\\b.png,one\n")
        assert account(scan_image_set(tmp_path / "list.csv", 8).report) == (1, 1, 0, 0)

    def test_labels_in_two_normal_forms_are_one(self, tmp_path):
        forms = ("NFC", "NFD")
        lines = [f"{number}.png\t{unicodedata.normalize(forms[number % 2], 'café')}\n" for number in range(4)]
        for number in range(8):
            save(tmp_path / f"{number}.png", number)
        lines += [f"{number}.png\ttea\n" for number in range(4, 8)]
        (tmp_path / "list.tsv").write_text("".join(lines), encoding="utf-8")
        splits, _ = read_image_set(tmp_path / "list.tsv", image_size=8)
        assert {label for each in splits.values() for label in each.labels} == {"café", "tea"}

    def test_errors_have_the_line(self, tmp_path):
        for number, (file, _) in enumerate(ROWS):
            save(tmp_path / file, number)
        lines = LISTS["list.csv"].split("\n")
        lines[2] = "images/gone.png,猫"
        lines[4] = "images/图3.png,"
        lines[6] = "too,many,columns"
        (tmp_path / "images" / "图6.png").write_text("text")
        (tmp_path / "list.csv").write_text("\n".join(lines), encoding="utf-8")
        _, report = read_image_set(tmp_path / "list.csv", image_size=8)
        assert account(report) == (10, 6, 0, 4)
        lines_of = {kind: [issue.location.line for issue in each] for kind, each in report.issues.items()}
        expected = {"unreadable image": [3], "empty field": [5], "wrong column count": [7], "not an image": [8]}
        assert lines_of == expected
        with pytest.raises(UserError) as caught:
            read_image_set(tmp_path / "list.csv", 8, policy=STRICT)
        assert caught.value.location.startswith(str(tmp_path / "list.csv"))

    @pytest.mark.parametrize(
        ("name", "words"), [("a.png", "one image, not a set"), ("a.dat", "format of this list is unknown")]
    )
    def test_files_that_are_no_lists(self, tmp_path, name, words):
        save(tmp_path / "a.png").rename(tmp_path / name)
        with pytest.raises(UserError, match=words):
            read_image_set(tmp_path / name, image_size=8)

    def test_nothing_there(self, tmp_path):
        (tmp_path / "photos").mkdir()
        with pytest.raises(UserError, match=r"Did you mean.*photos"):
            read_image_set(tmp_path / "fotos")


def some_pixels(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(0, 256, shape, dtype=np.uint8)


class TestMnist:
    def write(self, folder: Path, suffix: str = "", dot: str = "-") -> dict[str, np.ndarray]:
        pack = gzip.compress if suffix else bytes
        pixels = {"train": some_pixels(40, 6, 6), "t10k": some_pixels(9, 6, 6)}
        for stem, each in pixels.items():
            labels = (np.arange(len(each)) % 3).astype(np.uint8)
            (folder / f"{stem}-images{dot}idx3-ubyte{suffix}").write_bytes(pack(idx_file(each)))
            (folder / f"{stem}-labels{dot}idx1-ubyte{suffix}").write_bytes(pack(idx_file(labels)))
        return pixels

    @pytest.mark.parametrize(("suffix", "dot"), [("", "-"), (".gz", "-"), ("", ".")])
    def test_as_published_packed_or_unpacked(self, tmp_path, suffix, dot):
        pixels = self.write(tmp_path, suffix, dot)
        splits, report = read_image_set(tmp_path)
        assert {name: len(each) for name, each in splits.items()} == {"train": 38, "valid": 2, "test": 9}
        assert (splits["test"].pixels == pixels["t10k"][..., None]).all()
        assert splits["test"].labels == tuple("012012012")
        assert all(each.pixels.flags.writeable for each in splits.values())  # else torch warns
        for name, image, label in zip(
            *(getattr(splits["valid"], each) for each in ("names", "pixels", "labels")), strict=True
        ):
            number = int(name.rpartition("#")[2])
            assert (image[..., 0] == pixels["train"][number]).all()
            assert label == str(number % 3)
        assert account(report) == (49, 49, 0, 0)

    def test_in_a_folder_below_and_in_another_size_and_color(self, tmp_path):
        (tmp_path / "data").mkdir()
        self.write(tmp_path / "data")
        splits, _ = read_image_set(tmp_path, image_size=12, channels=3)
        assert splits["train"].pixels.shape == (38, 12, 12, 3)
        assert (splits["train"].pixels[..., 0] == splits["train"].pixels[..., 2]).all()

    def test_images_with_equal_resized_pixels_are_duplicates(self):
        pixels = np.zeros((2, 28, 28, 1), np.uint8)
        pixels[1, 3, 3] = 1  # too small a difference to be visible after downscaling
        packed = PackedImages(pixels, ("0", "0"), "train-images")
        small, whole = (resize_packed(packed, size, 1, DataReport()) for size in (4, 28))
        assert len(set(small.file_digests)) == len(set(whole.file_digests)) == len(set(whole.pixel_digests)) == 2
        assert len(set(small.pixel_digests)) == 1

    def test_the_size_changes_no_split(self, tmp_path):
        self.write(tmp_path)
        assert read_image_set(tmp_path)[0]["valid"].names == read_image_set(tmp_path, 9)[0]["valid"].names

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda content: content[:-1], "Expected 1,456 bytes, found 1,455."),
            (lambda content: content + b"x", "Expected 1,456 bytes, found 1,457 or more."),
            (lambda content: content[:10], "Expected at least 16 bytes, found 10."),
            (lambda content: b"\0\0\x0d\3" + content[4:], "the first bytes 00 00 08 03, found 00 00 0d 03"),
            (lambda content: content[:4] + b"\xff" * 12, "header claims 4,294,967,295 x"),
            (lambda content: content[:4] + b"\0" * 4 + content[8:16], "header claims 0 x"),
            (lambda content: b"", "Expected at least 16 bytes, found 0."),
        ],
    )
    @pytest.mark.parametrize("suffix", ["", ".gz"])
    def test_errors_state_the_number_of_bytes(self, tmp_path, change, words, suffix):
        self.write(tmp_path, suffix)
        path = tmp_path / f"train-images-idx3-ubyte{suffix}"
        whole = gzip.decompress(path.read_bytes()) if suffix else path.read_bytes()
        path.write_bytes(gzip.compress(change(whole)) if suffix else change(whole))
        with pytest.raises(UserError, match=words) as caught:
            read_image_set(tmp_path)
        assert caught.value.location == str(path)

    @pytest.mark.parametrize("count", [8, 10])
    def test_labels_of_another_set(self, tmp_path, count):
        self.write(tmp_path)
        (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(idx_file(np.zeros(count, np.uint8)))
        with pytest.raises(UserError, match=f"It has {count} labels, but t10k-images-idx3-ubyte has 9 images"):
            read_image_set(tmp_path)

    @pytest.mark.parametrize("missing", ["train-labels-idx1-ubyte", "t10k-images-idx3-ubyte"])
    def test_a_file_that_is_missing(self, tmp_path, missing):
        self.write(tmp_path)
        (tmp_path / missing).unlink()
        with pytest.raises(UserError, match=f"There is no {missing}"):
            read_image_set(tmp_path)

    def test_without_test_images_some_are_held_out(self, tmp_path):
        self.write(tmp_path)
        for path in tmp_path.glob("t10k*"):
            path.unlink()
        assert {name: len(each) for name, each in read_image_set(tmp_path)[0].items()} == {
            "train": 36, "valid": 2, "test": 2,
        }  # fmt: skip


class TestCifar:
    BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")

    def images(self) -> tuple[np.ndarray, np.ndarray]:
        return some_pixels(6, 4, 32, 32, 3), np.arange(24).reshape(6, 4).astype(np.uint8) % 10

    def write_binary(self, folder: Path) -> None:
        pixels, labels = self.images()
        for name, each, numbers in zip(self.BATCHES, pixels, labels, strict=True):
            rows = np.concatenate([numbers[:, None], each.transpose(0, 3, 1, 2).reshape(4, -1)], axis=1)
            (folder / f"{name}.bin").write_bytes(rows.tobytes())

    def write_sprites(self, folder: Path, word: str) -> None:
        pixels, labels = self.images()
        for name, each in zip(self.BATCHES, pixels, strict=True):
            Image.fromarray(each.reshape(4, 1024, 3)).save(folder / f"{name}.png")
        (folder / f"train_{word}.json").write_text(json.dumps(labels[:5].flatten().tolist()))
        (folder / f"test_{word}.json").write_text(json.dumps(labels[5].tolist()))

    def expect(self, folder: Path) -> None:
        pixels, labels = self.images()
        splits, report = read_image_set(folder)
        assert {name: len(each) for name, each in splits.items()} == {"train": 19, "valid": 1, "test": 4}
        assert (splits["test"].pixels == pixels[5]).all()
        assert splits["test"].labels == tuple(CIFAR_CLASSES[number] for number in labels[5])
        number = int(splits["valid"].names[0].rpartition("#")[2])
        assert (splits["valid"].pixels[0] == pixels.reshape(-1, 32, 32, 3)[number]).all()
        assert splits["valid"].labels[0] == CIFAR_CLASSES[labels.flatten()[number]]
        assert account(report) == (24, 24, 0, 0)

    def test_binary_batches(self, tmp_path):
        self.write_binary(tmp_path)
        self.expect(tmp_path)

    @pytest.mark.parametrize("word", ["lables", "labels"])
    def test_sprites(self, tmp_path, word):
        (tmp_path / "package").mkdir()
        self.write_sprites(tmp_path / "package", word)
        self.expect(tmp_path)

    def test_other_names_of_the_classes(self, tmp_path):
        self.write_binary(tmp_path)
        (tmp_path / "batches.meta.txt").write_text("零\n一\n二\n三\n四\n五\n六\n七\n八\n九\n\n", encoding="utf-8")
        assert read_image_set(tmp_path)[0]["test"].labels == ("零", "一", "二", "三")

    @pytest.mark.parametrize(
        ("name", "change", "words"),
        [
            (
                "data_batch_3.bin",
                lambda content: content[:-5],
                r"Expected 12,292 bytes \(4 images of 3,073\), found 12,287",
            ),
            ("test_batch.bin", lambda content: b"", "Expected 3,073 bytes"),
            ("data_batch_2.bin", lambda content: b"\x0a" + content[1:], "Image 0 has the label 10, but there are 10"),
        ],
    )
    def test_errors_of_a_batch(self, tmp_path, name, change, words):
        self.write_binary(tmp_path)
        (tmp_path / name).write_bytes(change((tmp_path / name).read_bytes()))
        with pytest.raises(UserError, match=words) as caught:
            read_image_set(tmp_path)
        assert caught.value.location == str(tmp_path / name)

    @pytest.mark.parametrize("write", [write_binary, lambda self, folder: self.write_sprites(folder, "labels")])
    def test_a_batch_that_is_missing(self, tmp_path, write):
        write(self, tmp_path)
        missing = next(tmp_path.glob("data_batch_4.*"))
        missing.unlink()
        with pytest.raises(UserError, match=f"There is no {missing.name}"):
            read_image_set(tmp_path)

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ("[1, 2, 3]", "a list of 4 labels, found 3"),
            ('{"a": 1}', "a list of 4 labels, found no list"),
            ("[0, 1, 2, 10]", "from 0 to 9, found 10 at index 3"),
            ("[0, true, 2, 3]", "found True at index 1"),
            ("[0, 1", "cannot be read"),
        ],
    )
    def test_labels_that_make_no_sense(self, tmp_path, content, words):
        self.write_sprites(tmp_path, "labels")
        (tmp_path / "test_labels.json").write_text(content)
        with pytest.raises(UserError, match=words):
            read_image_set(tmp_path)

    def test_no_labels(self, tmp_path):
        self.write_sprites(tmp_path, "labels")
        (tmp_path / "train_labels.json").unlink()
        with pytest.raises(UserError, match=r"There is no train_labels.json"):
            read_image_set(tmp_path)

    @pytest.mark.parametrize(("width", "found"), [(9, "9"), (33 * 33, "1,089"), (33 * 32, "1,056")])
    def test_sprites_of_another_size(self, tmp_path, width, found):
        self.write_sprites(tmp_path, "labels")
        noise(0, (width, 32)).save(tmp_path / "data_batch_1.png")
        with pytest.raises(UserError, match=f"rows of 1,024 pixels, an image each, found {found}"):
            read_image_set(tmp_path)

    def test_a_broken_sprite(self, tmp_path):
        self.write_sprites(tmp_path, "labels")
        whole = (tmp_path / "test_batch.png").read_bytes()
        (tmp_path / "test_batch.png").write_bytes(whole[: len(whole) // 2])
        with pytest.raises(UserError, match="damaged or truncated") as caught:
            read_image_set(tmp_path)
        assert caught.value.location == str(tmp_path / "test_batch.png")


class TestParallelMap:
    def test_results_come_in_the_order_of_the_items_however_long_each_takes(self):
        def work(number: int) -> int:
            time.sleep(0.002 * (number % 3))
            return number

        assert list(parallel_map(work, range(300), "counting")) == list(range(300))

    def test_no_item_is_processed_twice_for_any_number_of_items_per_task(self, monkeypatch):
        monkeypatch.setattr(image_files, "MAX_PENDING", 100)
        monkeypatch.setattr(image_files, "ITEMS_PER_TASK", 7)
        assert list(parallel_map(lambda item: item, range(2001), "counting")) == list(range(2001))

    def test_even_two_items_are_processed_in_parallel(self):
        meeting = threading.Barrier(2, timeout=10)
        list(parallel_map(lambda item: meeting.wait(), range(2), "meeting"))  # one thread alone would time out

    def test_an_error_ends_it(self):
        def work(number: int) -> None:
            if number == 5:
                raise UserError("stop")

        with pytest.raises(UserError, match="stop"):
            list(parallel_map(work, range(5000), "failing"))


@pytest.mark.parametrize("count", [1, 5, 1024, 3000])
def test_rows_move_up_without_a_second_copy(count):
    kept = [row for row in range(2 * count) if row % 2 or row > count]
    rows = np.random.default_rng(1).integers(0, 256, (2 * count, 3), dtype=np.uint8)
    expected = rows[kept]
    moved = compact_rows(rows, kept)
    assert (moved == expected).all()
    assert np.shares_memory(moved, rows)
