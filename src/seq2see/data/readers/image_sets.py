"""Reading sets of labeled images in any supported layout.

The layouts are a folder with one folder for each class, a packed set such as MNIST or CIFAR-10 (`packed_images.py`),
and a list: a .csv, .tsv or .jsonl with the columns `file` (or `path`, `image`; relative to the list) and `label`. All
become arrays of one size, and every image is counted: read = kept + skipped + rejected.

Folders are `photos/cat/1.jpg`, or with splits `photos/train/cat/1.jpg`. Images in nested folders belong to the class as
well. Hidden files and files without an image suffix are skipped and counted; symbolic links are followed, unless they
form a loop.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from seq2see.core.errors import UserError, missing_file
from seq2see.data.examples import ImageExamples
from seq2see.data.hold_out import split_groups
from seq2see.data.readers.data_report import DataReport, Location
from seq2see.data.readers.image_files import (
    MAX_PENDING,
    SUFFIX_FORMATS,
    ImageItem,
    LoadedImages,
    allocate_pixels,
    center_crop_resize,
    digest,
    load_images,
    parallel_map,
)
from seq2see.data.readers.lines import file_name, without_compression_suffix
from seq2see.data.readers.packed_images import PackedImages, find_packed_reader
from seq2see.data.readers.pair_files import TABLE_READERS, scan_pairs
from seq2see.data.readers.table_columns import COLUMN_NAMES, IMAGE_COLUMN_NAMES, ColumnNames, ColumnRule

DEFAULT_IMAGE_SIZE = 32
"""The default size of images that are read from files."""

ImageSplits = dict[str, ImageExamples]


@dataclass
class ScannedSet:
    """The splits of an image set, and its data report."""

    path: Path
    splits: dict[str, LoadedImages] = field(default_factory=dict)
    report: DataReport = field(default_factory=lambda: DataReport(unit="images"))

    @property
    def location(self) -> Location:
        """The location of the whole set."""
        return Location(file_name(self.path))

    def check_not_empty(self) -> None:
        """Add an issue for every split without images, unless an error has already caused it."""
        if self.report.first_error is not None and not self.report.kept:
            return
        for split, each in self.splits.items():
            if not each.file_digests:
                within = f"in {split}" if len(self.splits) > 1 else "in it"
                message = f"There is no {self.report.unit.removesuffix('s')} {within}."
                self.report.add_issue("no images", self.location, message)


def scan_image_set(path: Path, image_size: int | None = None, channels: int | None = None) -> ScannedSet:
    """All splits of a set, with the data report, without raising an error for invalid images."""
    if not path.exists():
        raise missing_file(path)
    scanned = ScannedSet(path)
    report = scanned.report
    try:
        if path.is_dir() and (read := find_packed_reader(path)) is not None:
            packed = read()
            scanned.splits = {name: resize_packed(each, image_size, channels, report) for name, each in packed.items()}
        else:
            items = find_images(path, report) if path.is_dir() else {"train": read_image_list(path, report)}
            scanned.splits = {
                name: load_images(each, image_size or DEFAULT_IMAGE_SIZE, channels or 3, report)
                for name, each in items.items()
            }
    except UserError as error:
        report.add_issue("damaged dataset", Location(error.location or file_name(path)), error.message, hint=error.hint)
    report.files = report.files or [file_name(path)]
    scanned.check_not_empty()
    return scanned


def read_image_list(path: Path, report: DataReport, columns: ColumnNames = ("file", "label")) -> list[ImageItem]:
    """The images of a list; `columns` are the default names of its two columns."""
    if has_image_suffix(path):
        hint = "Give a folder with one folder for each class, or a list (.csv, .tsv, .jsonl)."
        raise UserError("This is one image, not a set of images.", location=file_name(path), hint=hint)
    if without_compression_suffix(path).suffix.lower() not in TABLE_READERS:
        hint = f"Give a folder, or a list: {', '.join(TABLE_READERS)}."
        raise UserError("The format of this list is unknown.", location=file_name(path), hint=hint)
    # A list may have both a label and a caption for each image: `columns` take precedence.
    names = (columns, *((image, columns[1]) for image in IMAGE_COLUMN_NAMES), *COLUMN_NAMES)
    rows, _ = scan_pairs([path], report, ColumnRule(names))
    report.discard_issues("length ratio")  # a label is short
    report.discard_issues("duplicate pair")  # duplicate images are found by their pixels
    report.read -= len(rows)  # images are counted when they are loaded
    report.kept -= len(rows)
    items = []
    for row in rows:
        file, _, line = row.location.rpartition(":")
        image = path.parent / row.source.strip()
        if "\\" in row.source and not image.exists():  # a list that was written on Windows
            image = path.parent / row.source.strip().replace("\\", "/")
        label = unicodedata.normalize("NFC", row.target.strip())  # as for the names of folders
        items.append(ImageItem(image, label, file_name(image), Location(file, int(line))))
    return items


def resize_packed(
    packed: PackedImages, image_size: int | None, channels: int | None, report: DataReport
) -> LoadedImages:
    """A packed split, resized to `image_size` and converted to `channels`, if they are given."""
    count, height, width, depth = packed.pixels.shape
    report.read += count
    report.kept += count
    file_digests = tuple(digest(each) for each in packed.pixels)
    pixels, pixel_digests = packed.pixels, file_digests
    image_size, channels = image_size or min(height, width), channels or depth
    if (height, width, depth) != (image_size, image_size, channels):
        pixels = _resized(packed, image_size, channels)
        pixel_digests = tuple(digest(each) for each in pixels)
    names = tuple(f"{packed.file}#{number}" for number in range(count))
    return LoadedImages(ImageExamples(pixels, packed.labels, names), file_digests, pixel_digests)


def _resized(packed: PackedImages, image_size: int, channels: int) -> NDArray[np.uint8]:
    pixels = allocate_pixels(len(packed.pixels), image_size, channels)

    def resize(index: int) -> None:
        row = packed.pixels[index]
        image = center_crop_resize(Image.fromarray(row[..., 0] if row.shape[-1] == 1 else row), image_size)
        resized = np.array(image.convert("L" if channels == 1 else "RGB"))
        pixels[index] = resized.reshape(image_size, image_size, channels)

    for _ in parallel_map(resize, range(len(pixels)), "resizing images"):
        pass
    return pixels


def check_splits(scanned: ScannedSet) -> None:
    """Add the issues of the whole set: classes that differ between splits, and duplicate images."""
    report, location = scanned.report, scanned.location
    classes = {name: dict.fromkeys(each.examples.labels) for name, each in scanned.splits.items() if each.file_digests}
    train_classes = classes.pop("train", {})
    if len(train_classes) == 1:
        message = f"All training images are of the class '{next(iter(train_classes))}'."
        report.add_issue("single class", location, message, hint=_nested_classes_hint(scanned))
    for split, split_classes in classes.items():
        unknown = [f"'{label}'" for label in split_classes if label not in train_classes]
        if unknown and train_classes:
            plural = "classes" if len(unknown) > 1 else "a class"
            message = f"The split {split} has {plural} without a training image: {', '.join(unknown)}."
            report.add_issue("unknown class", location, message)
        for label in train_classes:
            if label not in split_classes:
                report.add_issue("class missing in split", location, f"There is no image of '{label}' in {split}.")
    check_duplicates(scanned.splits, report)


def _nested_classes_hint(scanned: ScannedSet) -> str:
    """The hint for folders of classes that are one level deeper than the given folder; else an empty string."""
    folders = {os.path.dirname(name) for name in scanned.splits["train"].examples.names}
    parent = os.path.commonpath(folders)
    if not scanned.path.is_dir() or parent in folders:
        return ""
    return f"If the folders in {parent} are the classes, give that folder instead; or add images of other classes."


def check_duplicates(splits: Mapping[str, LoadedImages], report: DataReport) -> None:
    """Add an issue for every image that is a duplicate of another."""
    first: dict[str, tuple[str, str, str]] = {}
    for split, loaded in splits.items():
        examples = loaded.examples
        for pixel_digest, label, name in zip(loaded.pixel_digests, examples.labels, examples.names, strict=True):
            first_split, first_label, first_name = first.setdefault(pixel_digest, (split, label, name))
            if first_name is name:
                continue
            kind = "duplicate image" if first_split == split else "image in two splits"
            message = f"The same {report.unit.removesuffix('s')} is at {first_name} ({first_split})."
            report.add_issue(kind, Location(name), message)
            if first_label != label:
                message = f"Its label is '{label}' here and '{first_label}' at {first_name}."
                report.add_issue("conflicting labels", Location(name), message)


def hold_out_images(splits: Mapping[str, LoadedImages]) -> ImageSplits:
    """The splits, with the missing ones held out from the training images; equal images belong to one split.

    At least one image of each class remains in training. The remaining training images are moved within their array,
    because a second copy may not fit into memory.
    """
    train = splits["train"]
    missing = [name for name in ("test", "valid") if name not in splits]
    if not missing:
        return {name: each.examples for name, each in splits.items()}
    # Equal images are found by their pixels, but the name of a group is a digest of its files: so the split does not
    # depend on the image size.
    names: dict[str, str] = {}
    for pixel_digest, file_digest in zip(train.pixel_digests, train.file_digests, strict=True):
        names[pixel_digest] = min(names.get(pixel_digest, file_digest), file_digest)
    groups = [names[pixel_digest] for pixel_digest in train.pixel_digests]
    labels = [(label,) for label in train.examples.classes]
    if (different := len(set(groups))) < (needed := max(len(set(labels)), 1) + len(missing)):
        message = f"There are {different:,} different images, and at least {needed:,} are needed: "
        message += f"one{' of each class' if labels else ''} for train, and one each for {' and '.join(missing)}."
        raise UserError(message, hint="Add images, or give some as corpus.valid and corpus.test.")
    rows_of = split_groups(range(len(groups)), groups, missing, labels)
    held_out = {name: select_examples(train.examples, rows) for name, rows in rows_of.items() if name != "train"}
    remaining = {"train": select_examples(train.examples, rows_of["train"], compact_rows)}
    return remaining | held_out | {name: each.examples for name, each in splits.items() if name != "train"}


def select_examples(
    examples: ImageExamples,
    rows: Sequence[int],
    select_pixels: Callable[[NDArray[np.uint8], Sequence[int]], NDArray[np.uint8]] = lambda pixels, rows: pixels[rows],
) -> ImageExamples:
    """The images of these rows, in this order."""
    others = [each.name for each in fields(examples) if each.name != "pixels"]
    selected = {name: tuple(getattr(examples, name)[row] for row in rows) for name in others}
    return replace(examples, pixels=select_pixels(examples.pixels, rows), **selected)


def compact_rows(pixels: NDArray[np.uint8], rows: Sequence[int]) -> NDArray[np.uint8]:
    """Move these rows, which must be sorted, to the beginning of their array.

    >>> compact_rows(np.arange(5, dtype=np.uint8), [0, 3, 4]).tolist()
    [0, 3, 4]
    """
    for start in range(0, len(rows), MAX_PENDING):
        batch = rows[start : start + MAX_PENDING]
        pixels[start : start + len(batch)] = pixels[batch]  # rows only move up, so none is overwritten before its move
    return pixels[: len(rows)]


Identity = tuple[int, int]

SPLIT_FOLDERS: dict[str, tuple[str, ...]] = {
    "train": ("train", "training"),
    "valid": ("valid", "val", "validation", "dev"),
    "test": ("test", "testing"),
}
"""The possible names of the folder of a split, in lower case."""

UNSUPPORTED_SUFFIXES = {
    ".tif",
    ".tiff",
    ".heic",
    ".heif",
    ".avif",
    ".svg",
    ".psd",
    ".ico",
    ".jp2",
    ".jxl",
    ".tga",
    ".ppm",
}
"""Suffixes of images that are not decoded: such a file is an error, and not an ignored file."""


def find_images(folder: Path, report: DataReport) -> dict[str, list[ImageItem]]:
    """The images of each split of the folder; all are `train` if it has no folders for splits."""
    ancestors = tuple(_identity(each) for each in (folder.resolve(), *folder.resolve().parents))
    return {split: _find_classes(path, report, ancestors) for split, path in split_folders(folder, report).items()}


def split_folders(folder: Path, report: DataReport) -> dict[str, Path]:
    """The folder of each split. A class may also have the name `train`: the other folders decide."""
    folders: dict[str, list[Path]] = {name: [] for name in SPLIT_FOLDERS}
    others = []
    for each in list_folder(folder, report):
        if is_folder(each) and not each.name.startswith("."):
            split = next((name for name, names in SPLIT_FOLDERS.items() if each.name.lower() in names), None)
            folders[split].append(each) if split else others.append(each)
    held_out = folders["valid"] + folders["test"]
    if not folders["train"] and held_out and (not others or (folders["valid"] and folders["test"])):
        message = f"There are folders {' and '.join(path.name for path in held_out)}, but no folder train."
        raise UserError(message, location=file_name(folder), hint="Rename the folder of the training images to train.")
    if not folders["train"] or not (held_out or not others):
        return {"train": folder}
    for split, paths in folders.items():
        if len(paths) > 1:
            both = " and ".join(path.name for path in paths)
            message = f"{both} are both folders of the split {split}."
            raise UserError(message, location=file_name(folder), hint="Keep one of the two.")
    for each in others:
        message = f"'{each.name}' is not the folder of a split; {folders['train'][0].name} in the same folder is one."
        report.add_issue("ignored file", Location(file_name(each)), message)
    return {split: paths[0] for split, paths in folders.items() if paths}


def _find_classes(folder: Path, report: DataReport, ancestors: tuple[Identity, ...]) -> list[ImageItem]:
    """The images of one split, with the names of their folders as labels."""
    items: list[ImageItem] = []
    ancestors = (*ancestors, _identity(folder))
    for each in list_folder(folder, report):
        if _is_ignored(each, report):
            continue
        if not is_folder(each):
            report.read += 1
            report.rejected += 1
            message = "It is not in the folder of any class."
            report.add_issue("image without a class", Location(file_name(each)), message)
            continue
        label = unicodedata.normalize("NFC", file_name(Path(each.name)))  # file systems differ in normalization
        of_class = [
            ImageItem(path, label, file_name(path), Location(file_name(path)))
            for path in _walk(each, report, ancestors)
        ]
        if not of_class:
            report.add_issue("empty class", Location(file_name(each)), f"There is no image of the class '{label}'.")
        items += of_class
    return items


def _identity(folder: Path) -> Identity:
    """The device and inode of a folder, which are equal for all links to it."""
    status = folder.stat()
    return status.st_dev, status.st_ino


def _walk(folder: Path, report: DataReport, ancestors: tuple[Identity, ...]) -> Iterator[Path]:
    """Every image in a folder and its subfolders; `ancestors` are the folders that contain it."""
    try:
        here = _identity(folder)
    except OSError as error:
        _unreadable(folder, error, report)
        return
    if here in ancestors:
        report.add_issue("symlink loop", Location(file_name(folder)), "This folder contains itself.")
        return
    for each in list_folder(folder, report):
        if _is_ignored(each, report):
            continue
        if is_folder(each):
            yield from _walk(each, report, (*ancestors, here))
        else:
            yield each


def list_folder(folder: Path, report: DataReport) -> list[Path]:
    """The content of a folder, sorted by name, so that the order does not depend on the machine."""
    try:
        return sorted((Path(entry.path) for entry in os.scandir(folder)), key=lambda path: path.name)
    except OSError as error:
        _unreadable(folder, error, report)
        return []


def _unreadable(folder: Path, error: OSError, report: DataReport) -> None:
    message, location = f"The folder cannot be read: {error.strerror}.", Location(file_name(folder))
    if all(issue.location != location for issue in report.issues.get("unreadable image", [])):  # folders are read twice
        report.add_issue("unreadable image", location, message)


def is_folder(path: Path) -> bool:
    """Whether a path is a folder, or a link to one."""
    try:
        return path.is_dir()
    except OSError:  # a link to itself is not a folder; reading it as a file reports the error
        return False


def has_image_suffix(path: Path) -> bool:
    """Whether a path has the suffix of an image format, supported or not."""
    return path.suffix.lower() in SUFFIX_FORMATS.keys() | UNSUPPORTED_SUFFIXES


def _is_file(path: Path) -> bool:
    """Whether a path is read as a file: pipes are not; broken links are, and are then unreadable images."""
    try:
        return path.is_file() or path.is_symlink()
    except OSError:
        return True


def _is_ignored(path: Path, report: DataReport) -> bool:
    """Whether a path is hidden, or neither a folder nor a file with an image suffix; ignored files are counted."""
    hidden = path.name.startswith(".") or path.name == "__MACOSX"
    if is_folder(path):
        if hidden:
            report.add_issue("ignored file", Location(file_name(path)), "A hidden folder.")
        return hidden
    is_image = has_image_suffix(path)
    if not hidden and is_image and _is_file(path):
        return False
    report.read += 1
    report.skipped += 1
    message = "A hidden file." if hidden else "No image suffix." if not is_image else "Not a regular file."
    report.add_issue("ignored file", Location(file_name(path)), message)
    return True
