"""Images in folders, one folder for each class: `photos/cat/1.jpg`, or with splits `photos/train/cat/1.jpg`.

Images in nested folders belong to the class as well. Hidden files and files without an image suffix are skipped and
counted; symbolic links are followed, unless they form a loop.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from seq2see.core.errors import UserError
from seq2see.sources.data_report import DataReport, Location
from seq2see.sources.image_decoding import SUFFIX_FORMATS
from seq2see.sources.image_loading import ImageItem
from seq2see.sources.lines import file_name

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
