"""A set of pictures as a corpus of one's own reads it, in the size in which it is stored if none is given."""

from __future__ import annotations

from pathlib import Path

from seq2see.sources.complaints import DataReport, OnBad
from seq2see.sources.picture_sets import Splits, compare, hold_out_pictures, look_through_set


def read_picture_set(
    path: Path, side: int | None = None, channels: int | None = None, on_bad: OnBad | None = None
) -> tuple[Splits, DataReport]:
    """Train, valid and test of a set, and the report; what it does not have is held out.

    A few bad pictures are left out, unless `on_bad` says otherwise.
    """
    found = look_through_set(path, side, channels)
    compare(found)
    found.report.judge(on_bad or OnBad("skip"))
    return hold_out_pictures(found.splits), found.report
