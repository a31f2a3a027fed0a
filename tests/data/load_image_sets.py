"""A set of images as a corpus of one's own reads it, in the size in which it is stored if none is given."""

from __future__ import annotations

from pathlib import Path

from seq2see.data.readers.data_report import DataReport, ErrorPolicy
from seq2see.data.readers.image_sets import ImageSplits, check_splits, hold_out_images, scan_image_set


def read_image_set(
    path: Path, image_size: int | None = None, channels: int | None = None, policy: ErrorPolicy | None = None
) -> tuple[ImageSplits, DataReport]:
    """Train, valid and test of a set, and the report; what it does not have is held out.

    A few bad images are left out, unless `policy` says otherwise.
    """
    found = scan_image_set(path, image_size, channels)
    check_splits(found)
    found.report.raise_for_errors(policy or ErrorPolicy("skip"))
    return hold_out_images(found.splits), found.report
