"""The user's own pictures and films as a corpus of a recipe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import Field

from seq2see.core.settings import Settings
from seq2see.sources.captioned_pictures import look_through_captions, look_through_films
from seq2see.sources.complaints import DataReport, OnBad
from seq2see.sources.holding_out import try_holding_out
from seq2see.sources.picture_sets import (
    USUAL_SIDE,
    FoundSet,
    Splits,
    compare,
    compare_pictures,
    hold_out_pictures,
    look_through_set,
)

USUAL_FRAMES = 8
"""The frames that films are checked in."""

Look = Callable[[Path], FoundSet]
"""Read a set, and tell everything there is to say about it."""


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
        return self._judged(lambda path: look_through_set(path, side, channels))

    def check(self) -> list[DataReport]:
        """A report of each reading, whatever is wrong with the pictures."""
        return self._checked(lambda path: look_through_set(path, USUAL_SIDE, 3))

    def _judged(self, look: Look) -> tuple[Splits, list[DataReport]]:
        found, reports = self._look_through(look)
        for report in reports:
            report.judge(OnBad(self.bad, self.most_bad))
        return hold_out_pictures(found.splits), reports

    def _checked(self, look: Look) -> list[DataReport]:
        found, reports = self._look_through(look)
        try_holding_out(lambda: hold_out_pictures(found.splits), found.report)
        return reports

    def _look_through(self, look: Look) -> tuple[FoundSet, list[DataReport]]:
        """All splits as one set, compared with each other; what is named here comes before what a folder has."""
        found = look(Path(self.paths[0]))
        reports = [found.report]
        for name, paths in (("valid", self.valid), ("test", self.test)):
            for path in paths:
                further = look(Path(path))
                reports.append(further.report)
                if further.splits:
                    found.splits[name] = further.splits.get(name) or further.splits["train"]
        self._compare(found)
        return found, reports

    def _compare(self, found: FoundSet) -> None:
        compare(found)


class OwnCaptions(OwnPictures):
    """Your own pictures with captions: a list of files and what is to be seen in them, or a folder with one in it."""

    kind: Literal["captions"] = "captions"  # type: ignore[assignment]

    def pictures(self, side: int, channels: int) -> tuple[Splits, list[DataReport]]:
        """Train, valid and test in this size, and a report of everything that was noticed, for each reading."""
        return self._judged(lambda path: look_through_captions(path, side, channels))

    def check(self) -> list[DataReport]:
        """A report of each reading, whatever is wrong with the pictures."""
        return self._checked(lambda path: look_through_captions(path, USUAL_SIDE, 3))

    def _compare(self, found: FoundSet) -> None:
        """Captions differ as they like: only pictures are compared."""
        compare_pictures(found.splits, found.report)
        found.report.forget("picture with two labels")


class OwnFilms(OwnCaptions):
    """Your own films with captions: a list of animated pictures or folders of frames and what happens in them."""

    kind: Literal["films"] = "films"  # type: ignore[assignment]

    def films(self, side: int, channels: int, frames: int) -> tuple[Splits, list[DataReport]]:
        """Train, valid and test in this size and in so many frames, and a report for each reading."""
        return self._judged(lambda path: look_through_films(path, side, channels, frames))

    def check(self) -> list[DataReport]:
        """A report of each reading, whatever is wrong with the films."""
        return self._checked(lambda path: look_through_films(path, USUAL_SIDE, 3, USUAL_FRAMES))
