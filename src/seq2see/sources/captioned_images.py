"""Images and videos with captions: what is to be seen in each, in several people's words.

Your own come as a list: a .csv, .tsv or .jsonl whose columns are `file` (or `path`, or `image`, or `video`) and
`caption`; or as a folder with such a list in it, called `captions.csv`, say, or with folders train, valid and test that
have one each. An image may stand on several lines, with a caption on each. What a line calls a video is an animated
image or a folder of frames (`videos.py`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import overload

from seq2see.core.errors import UserError, missing_file
from seq2see.sources.compression import without_compression_suffix
from seq2see.sources.data_report import DataReport, Location
from seq2see.sources.examples import Example
from seq2see.sources.image_examples import ImageExamples
from seq2see.sources.image_folders import has_image_suffix, is_folder, list_folder, split_folders
from seq2see.sources.image_loading import ImageItem, LoadedImages, allocate_pixels, load_decoded, load_images
from seq2see.sources.image_sets import ScannedSet, read_image_list
from seq2see.sources.lines import file_name
from seq2see.sources.pair_files import TABLE_READERS
from seq2see.sources.video_decoding import decode_video

CAPTION_LIST = "captions"
"""What the list in a folder is called, whatever the ending."""


@dataclass(frozen=True, eq=False)
class CaptionedImages(ImageExamples):
    """A split of images with captions. As an `Example` an image is its name and its captions, the first one first.

    Whoever learns from them takes one caption at a time; whoever is judged by them may say any of them.
    """

    captions: tuple[tuple[str, ...], ...] = ()
    """All captions of each image; its label is the first."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.captions) != len(self.labels) or not all(self.captions):
            raise ValueError("every image needs captions")

    @overload
    def __getitem__(self, place: int) -> Example: ...
    @overload
    def __getitem__(self, place: slice) -> CaptionedImages: ...
    def __getitem__(self, place: int | slice) -> Example | CaptionedImages:
        if isinstance(place, slice):
            return CaptionedImages(self.pixels[place], self.labels[place], self.names[place], self.captions[place])
        return replace(super().__getitem__(place), references=self.captions[place])

    @property
    def classes(self) -> tuple[str, ...]:
        """Captions differ as they like."""
        return ()

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all pixels and all captions in their order."""
        return hashlib.sha256(f"{super().fingerprint}{self.captions!r}".encode()).hexdigest()


def with_captions(found: LoadedImages, captions: Mapping[str, Sequence[str]]) -> LoadedImages:
    """The same images with the captions that belong to their names."""
    examples = found.examples
    said = tuple(tuple(captions[name]) for name in examples.names)
    captioned = CaptionedImages(examples.pixels, tuple(each[0] for each in said), examples.names, said)
    return replace(found, examples=captioned)


def scan_captioned_images(path: Path, side: int, channels: int) -> ScannedSet:
    """The images that a list names, and everything there is to say about them, without judging."""
    return scan_list(path, "images", lambda wanted, report: load_images(wanted, side, channels, report))


def scan_captioned_videos(path: Path, side: int, channels: int, frames: int) -> ScannedSet:
    """The videos that a list names, in so many frames, and everything there is to say about them, without judging."""

    def gathered(wanted: Sequence[ImageItem], report: DataReport) -> LoadedImages:
        room = allocate_pixels(len(wanted) * frames, side, channels).reshape(-1, frames, side, side, channels)
        return load_decoded(lambda each: decode_video(each.path, side, channels, frames), wanted, room, report)

    return scan_list(path, "videos", gathered)


def scan_list(path: Path, unit: str, read: Callable[[Sequence[ImageItem], DataReport], LoadedImages]) -> ScannedSet:
    """What a list names, each with all its captions; of a folder, what the list in it, or in each split, names."""
    if not path.exists():
        raise missing_file(path)
    found = ScannedSet(path, report=DataReport(unit=unit))
    places = caption_folders(path, found.report) if path.is_dir() else {"train": path}
    columns = ("video" if unit == "videos" else "file", "caption")
    for split, place in places.items():
        rows = read_image_list(find_caption_list(place) if place.is_dir() else place, found.report, columns)
        if place.is_dir():
            _count_unlisted(place, rows, found.report)
        captions: dict[str, list[str]] = {}
        for row in rows:
            captions.setdefault(row.name, []).append(row.label)
        first = {row.name: row for row in reversed(rows)}
        found.splits[split] = with_captions(read([first[name] for name in captions], found.report), captions)
    found.check_not_empty()
    return found


def caption_folders(folder: Path, report: DataReport) -> dict[str, Path]:
    """Where the list of each split lies: all in the folder itself, or one in each of its folders train, valid, test."""
    return {"train": folder} if _caption_lists(folder) else split_folders(folder, report)


def find_caption_list(folder: Path) -> Path:
    """The list in a folder: the one table there that is called captions."""
    lists = _caption_lists(folder)
    if len(lists) == 1:
        return lists[0]
    message = "There is no list of captions in this folder."
    if lists:
        message = f"There are several lists of captions in this folder: {', '.join(each.name for each in lists)}."
    hint = f"Put one {CAPTION_LIST}.csv (or .tsv, .jsonl) into it, with the columns file (or video) and caption."
    raise UserError(message, location=file_name(folder), hint=hint)


def _caption_lists(folder: Path) -> list[Path]:
    """The tables in a folder that are called captions."""
    there = [
        each
        for each in list_folder(folder, DataReport())
        if without_compression_suffix(each).suffix.lower() in TABLE_READERS
    ]
    return [each for each in there if without_compression_suffix(each).stem.lower() == CAPTION_LIST]


def _count_unlisted(folder: Path, rows: Sequence[ImageItem], report: DataReport) -> None:
    """Count what lies beside the list in a folder, looks like something to learn from, and is named by no line."""
    named = {os.path.normpath(row.path) for row in rows}
    named |= {str(above) for path in named for above in Path(path).parents}
    for each in list_folder(folder, report):
        if each.name.startswith(".") or not (is_folder(each) or has_image_suffix(each)):
            continue
        if os.path.normpath(each) not in named:
            report.read += 1
            report.skipped += 1
            report.add_issue("unlisted file", Location(file_name(each)), "No line of the list names it.")
