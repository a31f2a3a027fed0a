"""Pictures and films with captions: what is to be seen in each, in several people's words.

Your own come as a list: a .csv, .tsv or .jsonl whose columns are `file` (or `path`, or `image`, or `film`) and
`caption`; or as a folder with such a list in it, called `captions.csv`, say, or with folders train, valid and test that
have one each. A picture may stand on several lines, with a caption on each. What a line calls a film is an animated
picture or a folder of frames (`films.py`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import overload

from seq2see.core.errors import UserError, no_file
from seq2see.sources.complaints import DataReport, Place
from seq2see.sources.compression import bare_name
from seq2see.sources.examples import Example
from seq2see.sources.films import watch
from seq2see.sources.lines import file_name
from seq2see.sources.own_files import TABLES
from seq2see.sources.picture_examples import PictureExamples
from seq2see.sources.picture_folders import called_like_a_picture, entries, is_folder, split_folders
from seq2see.sources.picture_reading import Gathered, Wanted, gather, gather_seen, room_for
from seq2see.sources.picture_sets import FoundSet, listed

LIST = "captions"
"""What the list in a folder is called, whatever the ending."""


@dataclass(frozen=True, eq=False)
class CaptionedPictures(PictureExamples):
    """A split of pictures with captions. As an `Example` a picture is its name and its captions, the first one first.

    Whoever learns from them takes one caption at a time; whoever is judged by them may say any of them.
    """

    captions: tuple[tuple[str, ...], ...] = ()
    """All captions of each picture; its label is the first."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.captions) != len(self.labels) or not all(self.captions):
            raise ValueError("every picture needs captions")

    @overload
    def __getitem__(self, place: int) -> Example: ...
    @overload
    def __getitem__(self, place: slice) -> CaptionedPictures: ...
    def __getitem__(self, place: int | slice) -> Example | CaptionedPictures:
        if isinstance(place, slice):
            return CaptionedPictures(self.pixels[place], self.labels[place], self.names[place], self.captions[place])
        return replace(super().__getitem__(place), answers=self.captions[place])

    @property
    def classes(self) -> tuple[str, ...]:
        """Captions differ as they like."""
        return ()

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all pixels and all captions in their order."""
        return hashlib.sha256(f"{super().fingerprint}{self.captions!r}".encode()).hexdigest()


def with_captions(found: Gathered, captions: Mapping[str, Sequence[str]]) -> Gathered:
    """The same pictures with the captions that belong to their names."""
    examples = found.examples
    said = tuple(tuple(captions[name]) for name in examples.names)
    captioned = CaptionedPictures(examples.pixels, tuple(each[0] for each in said), examples.names, said)
    return replace(found, examples=captioned)


def look_through_captions(path: Path, side: int, channels: int) -> FoundSet:
    """The pictures that a list names, and everything there is to say about them, without judging."""
    return look_through_list(path, "pictures", lambda wanted, report: gather(wanted, side, channels, report))


def look_through_films(path: Path, side: int, channels: int, frames: int) -> FoundSet:
    """The films that a list names, in so many frames, and everything there is to say about them, without judging."""

    def gathered(wanted: Sequence[Wanted], report: DataReport) -> Gathered:
        room = room_for(len(wanted) * frames, side, channels).reshape(-1, frames, side, side, channels)
        return gather_seen(lambda each: watch(each.path, side, channels, frames), wanted, room, report)

    return look_through_list(path, "films", gathered)


def look_through_list(path: Path, unit: str, read: Callable[[Sequence[Wanted], DataReport], Gathered]) -> FoundSet:
    """What a list names, each with all its captions; of a folder, what the list in it, or in each split, names."""
    if not path.exists():
        raise no_file(path)
    found = FoundSet(path, report=DataReport(unit=unit))
    places = caption_folders(path, found.report) if path.is_dir() else {"train": path}
    sides = ("film" if unit == "films" else "file", "caption")
    for split, place in places.items():
        rows = listed(list_in(place) if place.is_dir() else place, found.report, sides)
        if place.is_dir():
            _leave_out_others(place, rows, found.report)
        captions: dict[str, list[str]] = {}
        for row in rows:
            captions.setdefault(row.name, []).append(row.label)
        first = {row.name: row for row in reversed(rows)}
        found.splits[split] = with_captions(read([first[name] for name in captions], found.report), captions)
    found.complain_of_nothing()
    return found


def caption_folders(folder: Path, report: DataReport) -> dict[str, Path]:
    """Where the list of each split lies: all in the folder itself, or one in each of its folders train, valid, test."""
    return {"train": folder} if _lists(folder) else split_folders(folder, report)


def list_in(folder: Path) -> Path:
    """The list in a folder: the one table there that is called captions."""
    lists = _lists(folder)
    if len(lists) == 1:
        return lists[0]
    what = "There is no list of captions in this folder."
    if lists:
        what = f"There are several lists of captions in this folder: {', '.join(each.name for each in lists)}."
    remedy = f"Put one {LIST}.csv (or .tsv, .jsonl) into it, with the columns file (or film) and caption."
    raise UserError(what, where=file_name(folder), remedy=remedy)


def _lists(folder: Path) -> list[Path]:
    """The tables in a folder that are called captions."""
    there = [each for each in entries(folder, DataReport()) if bare_name(each).suffix.lower() in TABLES]
    return [each for each in there if bare_name(each).stem.lower() == LIST]


def _leave_out_others(folder: Path, rows: Sequence[Wanted], report: DataReport) -> None:
    """Count what lies beside the list in a folder, looks like something to learn from, and is named by no line."""
    named = {os.path.normpath(row.path) for row in rows}
    named |= {str(above) for path in named for above in Path(path).parents}
    for each in entries(folder, report):
        if each.name.startswith(".") or not (is_folder(each) or called_like_a_picture(each)):
            continue
        if os.path.normpath(each) not in named:
            report.read += 1
            report.skipped += 1
            report.complain("not on the list", Place(file_name(each)), "No line of the list names it.")
