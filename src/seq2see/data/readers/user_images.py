"""The user's own images and videos as a corpus of a recipe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import Field

from seq2see.core.settings import Settings
from seq2see.data.hold_out import check_hold_out
from seq2see.data.readers.captioned_images import scan_captioned_images, scan_captioned_videos
from seq2see.data.readers.data_report import DataReport, ErrorPolicy
from seq2see.data.readers.image_sets import (
    DEFAULT_IMAGE_SIZE,
    ImageSplits,
    ScannedSet,
    check_duplicates,
    check_splits,
    hold_out_images,
    scan_image_set,
)

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
    """Your own images with captions: a list of files and captions, or a folder that contains one."""

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
