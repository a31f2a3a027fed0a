"""The user's own images and videos as a corpus of a recipe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import Field

from seq2see.core.settings import Settings
from seq2see.sources.captioned_images import scan_captioned_images, scan_captioned_videos
from seq2see.sources.data_report import DataReport, ErrorPolicy
from seq2see.sources.hold_out import check_hold_out
from seq2see.sources.image_sets import (
    DEFAULT_IMAGE_SIZE,
    ImageSplits,
    ScannedSet,
    check_duplicates,
    check_splits,
    hold_out_images,
    scan_image_set,
)

DEFAULT_FRAMES = 8
"""The frames that videos are checked in."""

Scan = Callable[[Path], ScannedSet]
"""Read a set, and tell everything there is to say about it."""


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
        """Train, valid and test in this size, and a report of everything that was noticed, for each reading."""
        return self._read(lambda path: scan_image_set(path, image_size, channels))

    def check(self) -> list[DataReport]:
        """A report of each reading, whatever is wrong with the images."""
        return self._check(lambda path: scan_image_set(path, DEFAULT_IMAGE_SIZE, 3))

    def _read(self, scan: Scan) -> tuple[ImageSplits, list[DataReport]]:
        found, reports = self._scan(scan)
        for report in reports:
            report.raise_for_errors(ErrorPolicy(self.on_error, self.max_errors))
        return hold_out_images(found.splits), reports

    def _check(self, scan: Scan) -> list[DataReport]:
        found, reports = self._scan(scan)
        check_hold_out(lambda: hold_out_images(found.splits), found.report)
        return reports

    def _scan(self, scan: Scan) -> tuple[ScannedSet, list[DataReport]]:
        """All splits as one set, compared with each other; what is named here comes before what a folder has."""
        found = scan(Path(self.paths[0]))
        reports = [found.report]
        for name, paths in (("valid", self.valid), ("test", self.test)):
            for path in paths:
                further = scan(Path(path))
                reports.append(further.report)
                if further.splits:
                    found.splits[name] = further.splits.get(name) or further.splits["train"]
        self._check_splits(found)
        return found, reports

    def _check_splits(self, found: ScannedSet) -> None:
        check_splits(found)


class UserCaptionedImages(UserImages):
    """Your own images with captions: a list of files and captions, or a folder that contains one."""

    kind: Literal["captioned-images"] = "captioned-images"  # type: ignore[assignment]

    def images(self, image_size: int, channels: int) -> tuple[ImageSplits, list[DataReport]]:
        """Train, valid and test in this size, and a report of everything that was noticed, for each reading."""
        return self._read(lambda path: scan_captioned_images(path, image_size, channels))

    def check(self) -> list[DataReport]:
        """A report of each reading, whatever is wrong with the images."""
        return self._check(lambda path: scan_captioned_images(path, DEFAULT_IMAGE_SIZE, 3))

    def _check_splits(self, found: ScannedSet) -> None:
        """Captions differ as they like: only images are compared."""
        check_duplicates(found.splits, found.report)
        found.report.discard_issues("conflicting labels")


class UserCaptionedVideos(UserCaptionedImages):
    """Your own videos with captions: a list of animated images or folders of frames, and their captions."""

    kind: Literal["captioned-videos"] = "captioned-videos"  # type: ignore[assignment]

    def videos(self, image_size: int, channels: int, frames: int) -> tuple[ImageSplits, list[DataReport]]:
        """Train, valid and test in this size and in so many frames, and a report for each reading."""
        return self._read(lambda path: scan_captioned_videos(path, image_size, channels, frames))

    def check(self) -> list[DataReport]:
        """A report of each reading, whatever is wrong with the videos."""
        return self._check(lambda path: scan_captioned_videos(path, DEFAULT_IMAGE_SIZE, 3, DEFAULT_FRAMES))
