"""The user's own pictures as a corpus of a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from seq2see.core.settings import Settings
from seq2see.sources.complaints import DataReport, OnBad
from seq2see.sources.picture_sets import PictureSet, Splits, compare, hold_out_pictures, look_through_set


class OwnPictures(Settings):
    """Your own pictures with a label each: a folder with a folder a class, a list, or a packed set such as MNIST."""

    kind: Literal["pictures"] = "pictures"
    paths: tuple[str, ...] = Field(min_length=1, max_length=1)
    """The pictures to learn from; a folder may have folders train, valid and test in it."""
    valid: tuple[str, ...] = Field((), max_length=1)
    """Pictures to validate on; without them some of those to learn from are held out."""
    test: tuple[str, ...] = Field((), max_length=1)
    """Pictures to test on; without them some of those to learn from are held out."""
    side: int | None = Field(None, ge=1, le=4096)
    """Pixels in height and width that every picture is brought to; by itself 64, or what a packed set has."""
    bad: Literal["error", "skip"] = "skip"
    """What a picture does that cannot be read: stop, or be left out and counted."""
    most_bad: int = Field(100, ge=0)
    """With bad = "skip": more bad pictures than this are an error after all."""

    def splits(self) -> Splits:
        """Train, valid and test."""
        return self.read()[0]

    def read(self) -> tuple[Splits, list[DataReport]]:
        """The splits, and a report of everything that was noticed, for each reading."""
        found, reports = self._look_through()
        for report in reports:
            report.judge(OnBad(self.bad, self.most_bad))
        return hold_out_pictures(found.splits), reports

    def check(self) -> list[DataReport]:
        """A report of each reading, whatever is wrong with the pictures."""
        return self._look_through()[1]

    def _look_through(self) -> tuple[PictureSet, list[DataReport]]:
        """All splits as one set, compared with each other; what is named here comes before what a folder has."""
        found = look_through_set(Path(self.paths[0]), self.side)
        reports = [found.report]
        shapes = [each.examples.pixels.shape for each in found.splits.values()]
        side, channels = (shapes[0][1], shapes[0][3]) if shapes else (self.side, None)
        for name, paths in (("valid", self.valid), ("test", self.test)):
            for path in paths:
                further = look_through_set(Path(path), side, channels)
                reports.append(further.report)
                if further.splits:
                    found.splits[name] = further.splits.get(name) or further.splits["train"]
        compare(found)
        return found, reports
