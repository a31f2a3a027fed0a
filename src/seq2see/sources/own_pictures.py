"""The user's own pictures as a corpus of a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from seq2see.core.settings import Settings
from seq2see.sources.captioned_pictures import look_through_captions
from seq2see.sources.complaints import DataReport, OnBad
from seq2see.sources.picture_sets import (
    USUAL_SIDE,
    FoundSet,
    Splits,
    compare,
    compare_pictures,
    hold_out_pictures,
    look_through_set,
)


class OwnPictures(Settings):
    """Your own pictures with a label each: a folder with a folder a class, a list, or a packed set such as MNIST."""

    kind: Literal["pictures"] = "pictures"
    paths: tuple[str, ...] = Field(min_length=1, max_length=1)
    """The pictures to learn from; a folder may have folders train, valid and test in it."""
    valid: tuple[str, ...] = Field((), max_length=1)
    """Pictures to validate on; without them some of those to learn from are held out."""
    test: tuple[str, ...] = Field((), max_length=1)
    """Pictures to test on; without them some of those to learn from are held out."""
    bad: Literal["error", "skip"] = "skip"
    """What a picture does that cannot be read: stop, or be left out and counted."""
    most_bad: int = Field(100, ge=0)
    """With bad = "skip": more bad pictures than this are an error after all."""

    def pictures(self, side: int, channels: int) -> tuple[Splits, list[DataReport]]:
        """Train, valid and test in this size, and a report of everything that was noticed, for each reading."""
        found, reports = self._look_through(side, channels)
        for report in reports:
            report.judge(OnBad(self.bad, self.most_bad))
        return hold_out_pictures(found.splits), reports

    def check(self) -> list[DataReport]:
        """A report of each reading, whatever is wrong with the pictures."""
        return self._look_through(USUAL_SIDE, 3)[1]

    def _look_through(self, side: int, channels: int) -> tuple[FoundSet, list[DataReport]]:
        """All splits as one set, compared with each other; what is named here comes before what a folder has."""
        found = self._one(Path(self.paths[0]), side, channels)
        reports = [found.report]
        for name, paths in (("valid", self.valid), ("test", self.test)):
            for path in paths:
                further = self._one(Path(path), side, channels)
                reports.append(further.report)
                if further.splits:
                    found.splits[name] = further.splits.get(name) or further.splits["train"]
        self._compare(found)
        return found, reports

    def _one(self, path: Path, side: int, channels: int) -> FoundSet:
        return look_through_set(path, side, channels)

    def _compare(self, found: FoundSet) -> None:
        compare(found)


class OwnCaptions(OwnPictures):
    """Your own pictures with captions: a list of files and what is to be seen in them."""

    kind: Literal["captions"] = "captions"  # type: ignore[assignment]

    def _one(self, path: Path, side: int, channels: int) -> FoundSet:
        return look_through_captions(path, side, channels)

    def _compare(self, found: FoundSet) -> None:
        """Captions differ as they like: only pictures are compared."""
        compare_pictures(found.splits, found.report)
        found.report.forget("picture with two labels")
