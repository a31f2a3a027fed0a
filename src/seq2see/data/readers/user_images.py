"""The user's own images and videos, with labels or captions, as a corpus of a recipe.

Images with labels are read by `image_sets.py`. Data with captions are a list: a .csv, .tsv or .jsonl with the columns
`file` (or `path`, `image`, `video`) and `caption`; or a folder that contains such a list, for example `captions.csv`;
or a folder with folders train, valid and test, each with a list. An image may be on several lines, with a caption on
each. A video is an animated image or a folder of frames (`video_decoding.py`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, overload

from pydantic import Field

from seq2see.core.errors import UserError, missing_file
from seq2see.core.settings import Settings
from seq2see.data.examples import Example, ImageExamples
from seq2see.data.hold_out import check_hold_out
from seq2see.data.readers.data_report import DataReport, ErrorPolicy, Location
from seq2see.data.readers.image_files import ImageItem, LoadedImages, allocate_pixels, load_decoded, load_images
from seq2see.data.readers.image_sets import (
    DEFAULT_IMAGE_SIZE,
    ImageSplits,
    ScannedSet,
    check_duplicates,
    check_splits,
    has_image_suffix,
    hold_out_images,
    is_folder,
    list_folder,
    read_image_list,
    scan_image_set,
    split_folders,
)
from seq2see.data.readers.lines import file_name, without_compression_suffix
from seq2see.data.readers.pair_files import TABLE_READERS
from seq2see.data.readers.video_decoding import decode_video

DEFAULT_FRAMES = 8
"""The number of frames in the check of videos."""

Scan = Callable[[Path], ScannedSet]
"""Reads a set, and returns it with its data report."""


class UserImages(Settings):
    """Your own images with labels: a folder with one folder for each class, a list, or a packed set such as MNIST."""

    kind: Literal["images"] = "images"
    paths: tuple[str, ...] = Field(min_length=1, max_length=1)
    """The training images; the folder may contain folders train, valid and test."""
    valid: tuple[str, ...] = Field((), max_length=1)
    """Validation images; by default some of the training images are held out."""
    test: tuple[str, ...] = Field((), max_length=1)
    """Test images; by default some of the training images are held out."""
    on_error: Literal["error", "skip"] = "skip"
    """What happens at an image that cannot be read: stop with an error, or skip and count it."""
    max_errors: int = Field(100, ge=0)
    """The most images that on_error = "skip" may skip; more are an error."""

    def images(self, image_size: int, channels: int) -> tuple[ImageSplits, list[DataReport]]:
        """Train, valid and test in this size, and the data report of each reading."""
        return self._read(lambda path: scan_image_set(path, image_size, channels))

    def check(self) -> list[DataReport]:
        """The data report of each reading, without raising an error for invalid images."""
        return self._check(lambda path: scan_image_set(path, DEFAULT_IMAGE_SIZE, 3))

    def _read(self, scan: Scan) -> tuple[ImageSplits, list[DataReport]]:
        scanned, reports = self._scan(scan)
        for report in reports:
            report.raise_for_errors(ErrorPolicy(self.on_error, self.max_errors))
        return hold_out_images(scanned.splits), reports

    def _check(self, scan: Scan) -> list[DataReport]:
        scanned, reports = self._scan(scan)
        check_hold_out(lambda: hold_out_images(scanned.splits), scanned.report)
        return reports

    def _scan(self, scan: Scan) -> tuple[ScannedSet, list[DataReport]]:
        """All splits as one checked set; `valid` and `test` replace the splits of the folder."""
        scanned = scan(Path(self.paths[0]))
        reports = [scanned.report]
        for name, paths in (("valid", self.valid), ("test", self.test)):
            for path in paths:
                other = scan(Path(path))
                reports.append(other.report)
                if other.splits:
                    scanned.splits[name] = other.splits.get(name) or other.splits["train"]
        self._check_splits(scanned)
        return scanned, reports

    def _check_splits(self, scanned: ScannedSet) -> None:
        check_splits(scanned)


class UserCaptionedImages(UserImages):
    """Your own images with captions: a list of files and captions, or a folder that contains such a list."""

    kind: Literal["captioned-images"] = "captioned-images"  # type: ignore[assignment]

    def images(self, image_size: int, channels: int) -> tuple[ImageSplits, list[DataReport]]:
        """Train, valid and test in this size, and the data report of each reading."""
        return self._read(lambda path: scan_captioned_images(path, image_size, channels))

    def check(self) -> list[DataReport]:
        """The data report of each reading, without raising an error for invalid images."""
        return self._check(lambda path: scan_captioned_images(path, DEFAULT_IMAGE_SIZE, 3))

    def _check_splits(self, scanned: ScannedSet) -> None:
        """Only duplicates are checked: captions are not classes."""
        check_duplicates(scanned.splits, scanned.report)
        scanned.report.discard_issues("conflicting labels")


class UserCaptionedVideos(UserCaptionedImages):
    """Your own videos with captions: a list of animated images or folders of frames, and their captions."""

    kind: Literal["captioned-videos"] = "captioned-videos"  # type: ignore[assignment]

    def videos(self, image_size: int, channels: int, frames: int) -> tuple[ImageSplits, list[DataReport]]:
        """Train, valid and test in this size and number of frames, and the data report of each reading."""
        return self._read(lambda path: scan_captioned_videos(path, image_size, channels, frames))

    def check(self) -> list[DataReport]:
        """The data report of each reading, without raising an error for invalid videos."""
        return self._check(lambda path: scan_captioned_videos(path, DEFAULT_IMAGE_SIZE, 3, DEFAULT_FRAMES))


# --- reading images and videos with captions ---


CAPTION_LIST = "captions"
"""The file name of the list in a folder, without its suffix."""


@dataclass(frozen=True, eq=False)
class CaptionedImages(ImageExamples):
    """A split of images with captions. As an `Example` an image has its name as source and its first caption as target.

    In training each caption is a target of its own; in evaluation all captions are references.
    """

    captions: tuple[tuple[str, ...], ...] = ()
    """All captions of each image; its label is the first."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.captions) != len(self.labels) or not all(self.captions):
            raise ValueError("every image needs captions")

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> CaptionedImages: ...
    def __getitem__(self, index: int | slice) -> Example | CaptionedImages:
        if isinstance(index, slice):
            return CaptionedImages(self.pixels[index], self.labels[index], self.names[index], self.captions[index])
        return replace(super().__getitem__(index), references=self.captions[index])

    @property
    def classes(self) -> tuple[str, ...]:
        """Empty: captions are not classes."""
        return ()

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all pixels and all captions in their order."""
        return hashlib.sha256(f"{super().fingerprint}{self.captions!r}".encode()).hexdigest()


def with_captions(loaded: LoadedImages, captions: Mapping[str, Sequence[str]]) -> LoadedImages:
    """Loaded images with the captions of their names."""
    examples = loaded.examples
    all_captions = tuple(tuple(captions[name]) for name in examples.names)
    labels = tuple(each[0] for each in all_captions)
    return replace(loaded, examples=CaptionedImages(examples.pixels, labels, examples.names, all_captions))


def scan_captioned_images(path: Path, image_size: int, channels: int) -> ScannedSet:
    """The images of a list with the data report, without raising an error for invalid images."""
    return scan_list(path, "images", lambda items, report: load_images(items, image_size, channels, report))


def scan_captioned_videos(path: Path, image_size: int, channels: int, frames: int) -> ScannedSet:
    """The videos of a list, resampled to `frames` frames, with the data report, without raising an error."""

    def load_videos(items: Sequence[ImageItem], report: DataReport) -> LoadedImages:
        pixels = allocate_pixels(len(items) * frames, image_size, channels)
        pixels = pixels.reshape(-1, frames, image_size, image_size, channels)
        return load_decoded(lambda item: decode_video(item.path, image_size, channels, frames), items, pixels, report)

    return scan_list(path, "videos", load_videos)


def scan_list(path: Path, unit: str, load: Callable[[Sequence[ImageItem], DataReport], LoadedImages]) -> ScannedSet:
    """The items of a list, each with all its captions; of a folder, the list in it, or that of each split."""
    if not path.exists():
        raise missing_file(path)
    scanned = ScannedSet(path, report=DataReport(unit=unit))
    paths = caption_folders(path, scanned.report) if path.is_dir() else {"train": path}
    columns = ("video" if unit == "videos" else "file", "caption")
    for split, split_path in paths.items():
        file = find_caption_list(split_path) if split_path.is_dir() else split_path
        rows = read_image_list(file, scanned.report, columns)
        if split_path.is_dir():
            _count_unlisted(split_path, rows, scanned.report)
        captions: dict[str, list[str]] = {}
        for row in rows:
            captions.setdefault(row.name, []).append(row.label)
        first = {row.name: row for row in reversed(rows)}
        loaded = load([first[name] for name in captions], scanned.report)
        scanned.splits[split] = with_captions(loaded, captions)
    scanned.check_not_empty()
    return scanned


def caption_folders(folder: Path, report: DataReport) -> dict[str, Path]:
    """The folder of the list of each split: the folder itself, or one of its folders train, valid, test."""
    return {"train": folder} if _caption_lists(folder) else split_folders(folder, report)


def find_caption_list(folder: Path) -> Path:
    """The list in a folder: the only table there with the name captions."""
    lists = _caption_lists(folder)
    if len(lists) == 1:
        return lists[0]
    message = "There is no list of captions in this folder."
    if lists:
        message = f"There are several lists of captions in this folder: {', '.join(each.name for each in lists)}."
    hint = f"Add one {CAPTION_LIST}.csv (or .tsv, .jsonl) with the columns file (or video) and caption."
    raise UserError(message, location=file_name(folder), hint=hint)


def _caption_lists(folder: Path) -> list[Path]:
    """The tables in a folder with the name captions."""
    tables = [
        path
        for path in list_folder(folder, DataReport())
        if without_compression_suffix(path).suffix.lower() in TABLE_READERS
    ]
    return [path for path in tables if without_compression_suffix(path).stem.lower() == CAPTION_LIST]


def _count_unlisted(folder: Path, rows: Sequence[ImageItem], report: DataReport) -> None:
    """Count the images and folders in the folder of a list that are not in the list."""
    listed = {os.path.normpath(row.path) for row in rows}
    listed |= {str(parent) for path in listed for parent in Path(path).parents}
    for path in list_folder(folder, report):
        if path.name.startswith(".") or not (is_folder(path) or has_image_suffix(path)):
            continue
        if os.path.normpath(path) not in listed:
            report.read += 1
            report.skipped += 1
            report.add_issue("unlisted file", Location(file_name(path)), "It is not in the list.")
