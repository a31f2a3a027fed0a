"""Pictures with captions: what is to be seen in each, in several people's words.

Your own come as a list: a .csv, .tsv or .jsonl whose columns are `file` (or `path`, or `image`) and `caption`. A
picture may stand on several lines, with a caption on each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import overload

from seq2see.core.errors import UserError, no_file
from seq2see.sources.examples import Example
from seq2see.sources.lines import file_name
from seq2see.sources.picture_examples import PictureExamples
from seq2see.sources.picture_reading import Gathered, gather
from seq2see.sources.picture_sets import FoundSet, listed


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
    if not path.exists():
        raise no_file(path)
    if path.is_dir():
        remedy = "Give a list (.csv, .tsv, .jsonl) with the columns file and caption."
        raise UserError("Captions are read from a list, and this is a folder.", where=file_name(path), remedy=remedy)
    found = FoundSet(path)
    rows = listed(path, found.report)
    captions: dict[str, list[str]] = {}
    for row in rows:
        captions.setdefault(row.name, []).append(row.label)
    first = {row.name: row for row in reversed(rows)}
    gathered = gather([first[name] for name in captions], side, channels, found.report)
    found.splits = {"train": with_captions(gathered, captions)}
    return found
