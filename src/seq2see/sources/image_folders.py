"""Images in folders, one folder a class: `photos/cat/1.jpg`, or with splits `photos/train/cat/1.jpg`.

What lies deeper belongs to the class all the same. Hidden files and what is not called like an image are left out
and counted; links are followed, unless they lead back to where they are.
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
"""What the folder of a split may be called, in small letters."""

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
"""Endings of images that are not decoded: leaving them out without a word would be no service."""


def find_images(folder: Path, report: DataReport) -> dict[str, list[ImageItem]]:
    """The images of each split that the folder has; all are `train` where it has none."""
    above = tuple(_identity(each) for each in (folder.resolve(), *folder.resolve().parents))
    return {name: _classes(place, report, above) for name, place in split_folders(folder, report).items()}


def split_folders(folder: Path, report: DataReport) -> dict[str, Path]:
    """The folder of each split. A class may be called `train`, too: what counts is what stands beside it."""
    named: dict[str, list[Path]] = {name: [] for name in SPLIT_FOLDERS}
    others = []
    for each in list_folder(folder, report):
        if is_folder(each) and not each.name.startswith("."):
            split = next((name for name, words in SPLIT_FOLDERS.items() if each.name.lower() in words), None)
            named[split].append(each) if split else others.append(each)
    held = named["valid"] + named["test"]
    if not named["train"] and held and (not others or (named["valid"] and named["test"])):
        message = f"Beside {' and '.join(place.name for place in held)} there is no folder train."
        raise UserError(message, location=file_name(folder), hint="Call the folder to learn from train.")
    if not named["train"] or not (held or not others):
        return {"train": folder}
    for split, places in named.items():
        if len(places) > 1:
            both = " and ".join(place.name for place in places)
            raise UserError(f"{both} are both {split}.", location=file_name(folder), hint="Keep one of the two.")
    for each in others:
        message = f"'{each.name}' is no split: beside {named['train'][0].name} there are valid and test."
        report.add_issue("ignored file", Location(file_name(each)), message)
    return {split: places[0] for split, places in named.items() if places}


def _classes(folder: Path, report: DataReport, above: tuple[Identity, ...]) -> list[ImageItem]:
    found: list[ImageItem] = []
    above = (*above, _identity(folder))
    for each in list_folder(folder, report):
        if _is_ignored(each, report):
            continue
        if not is_folder(each):
            report.read += 1
            report.rejected += 1
            message = "It lies beside the folders of the classes, in none of them."
            report.add_issue("image without a class", Location(file_name(each)), message)
            continue
        label = unicodedata.normalize("NFC", file_name(Path(each.name)))  # one name, on whatever system it was written
        inside = [
            ImageItem(path, label, file_name(path), Location(file_name(path))) for path in _walk(each, report, above)
        ]
        if not inside:
            report.add_issue("empty class", Location(file_name(each)), f"There is no image of the class '{label}'.")
        found += inside
    return found


def _identity(folder: Path) -> Identity:
    """A folder by its numbers, whatever links lead to it."""
    status = folder.stat()
    return status.st_dev, status.st_ino


def _walk(folder: Path, report: DataReport, above: tuple[Identity, ...]) -> Iterator[Path]:
    """Every image in a folder and in the folders in it; `above` are the folders that it lies in."""
    try:
        here = _identity(folder)
    except OSError as error:
        _unreadable(folder, error, report)
        return
    if here in above:
        report.add_issue("symlink loop", Location(file_name(folder)), "This folder lies in itself.")
        return
    for each in list_folder(folder, report):
        if _is_ignored(each, report):
            continue
        if is_folder(each):
            yield from _walk(each, report, (*above, here))
        else:
            yield each


def list_folder(folder: Path, report: DataReport) -> list[Path]:
    """What lies in a folder, in the order of the names, so that it is the same on every machine."""
    try:
        return sorted((Path(entry.path) for entry in os.scandir(folder)), key=lambda path: path.name)
    except OSError as error:
        _unreadable(folder, error, report)
        return []


def _unreadable(folder: Path, error: OSError, report: DataReport) -> None:
    message, place = f"The folder cannot be read: {error.strerror}.", Location(file_name(folder))
    if all(told.location != place for told in report.issues.get("unreadable image", [])):  # a set is looked into twice
        report.add_issue("unreadable image", place, message)


def is_folder(path: Path) -> bool:
    """Whether it is a folder, or a link to one."""
    try:
        return path.is_dir()
    except OSError:  # a link that leads to itself is no folder; reading it will say what it is
        return False


def has_image_suffix(path: Path) -> bool:
    """Whether its name ends as those of images do, decoded here or not."""
    return path.suffix.lower() in SUFFIX_FORMATS.keys() | UNSUPPORTED_SUFFIXES


def _is_file(path: Path) -> bool:
    """Whether it is read: a pipe is not, a link to nowhere is, and is then found to be unreadable."""
    try:
        return path.is_file() or path.is_symlink()
    except OSError:
        return True


def _is_ignored(path: Path, report: DataReport) -> bool:
    """Whether something is neither a folder nor called like an image; files are counted."""
    hidden = path.name.startswith(".") or path.name == "__MACOSX"
    if is_folder(path):
        if hidden:
            report.add_issue("ignored file", Location(file_name(path)), "A hidden folder.")
        return hidden
    like_a_image = has_image_suffix(path)
    if not hidden and like_a_image and _is_file(path):
        return False
    report.read += 1
    report.skipped += 1
    message = "A hidden file." if hidden else "Not called like an image." if not like_a_image else "Not a file."
    report.add_issue("ignored file", Location(file_name(path)), message)
    return True
