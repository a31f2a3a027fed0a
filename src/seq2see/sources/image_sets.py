"""Sets of labeled images, in whatever form they come: one door to all of them.

A folder with a folder a class (`image_folders.py`), a packed set such as MNIST or CIFAR-10 (`packed_images.py`), or
a list: a .csv, .tsv or .jsonl whose columns are `file` (or `path`, or `image`, read from where the list lies) and
`label`. All become arrays of one size, with an account of every image: read = kept + skipped + rejected.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seq2see.core.errors import UserError, missing_file
from seq2see.sources.compression import without_compression_suffix
from seq2see.sources.data_report import DataReport, Location
from seq2see.sources.hold_out import split_groups
from seq2see.sources.image_decoding import center_crop_resize
from seq2see.sources.image_examples import ImageExamples
from seq2see.sources.image_folders import find_images, has_image_suffix
from seq2see.sources.image_loading import (
    MAX_PENDING,
    ImageItem,
    LoadedImages,
    allocate_pixels,
    digest,
    load_images,
    parallel_map,
)
from seq2see.sources.lines import file_name
from seq2see.sources.packed_images import PackedImages, find_packed_reader
from seq2see.sources.pair_files import TABLE_READERS, scan_pairs
from seq2see.sources.tables import COLUMN_NAMES, IMAGE_COLUMN_NAMES, ColumnNames

DEFAULT_IMAGE_SIZE = 32
"""The size that image files are brought to where nothing is said."""

ImageSplits = dict[str, ImageExamples]


@dataclass
class ScannedSet:
    """What was found: the splits that the set has, and the account."""

    path: Path
    splits: dict[str, LoadedImages] = field(default_factory=dict)
    report: DataReport = field(default_factory=lambda: DataReport(unit="images"))

    @property
    def location(self) -> Location:
        """Where the whole set stands."""
        return Location(file_name(self.path))

    def check_not_empty(self) -> None:
        """Say which splits are there and have nothing in them, unless something else is known to be the reason."""
        if self.report.first_error is not None and not self.report.kept:
            return
        for split, each in self.splits.items():
            if not each.file_digests:
                within = f"in {split}" if len(self.splits) > 1 else "in it"
                message = f"There is not one {self.report.unit.removesuffix('s')} {within}."
                self.report.add_issue("no images", self.location, message)


def scan_image_set(path: Path, side: int | None = None, channels: int | None = None) -> ScannedSet:
    """Everything in a set, and everything there is to say about it, without judging."""
    if not path.exists():
        raise missing_file(path)
    found = ScannedSet(path)
    report = found.report
    try:
        if not path.is_dir():
            found.splits = {
                "train": load_images(read_image_list(path, report), side or DEFAULT_IMAGE_SIZE, channels or 3, report)
            }
        elif (read := find_packed_reader(path)) is not None:
            found.splits = {name: resize_packed(packed, side, channels, report) for name, packed in read().items()}
        else:
            wanted = find_images(path, report)
            found.splits = {
                name: load_images(each, side or DEFAULT_IMAGE_SIZE, channels or 3, report)
                for name, each in wanted.items()
            }
    except UserError as error:
        report.add_issue("damaged dataset", Location(error.location or file_name(path)), error.message, hint=error.hint)
    report.files = report.files or [file_name(path)]
    found.check_not_empty()
    return found


def read_image_list(path: Path, report: DataReport, columns: ColumnNames = ("file", "label")) -> list[ImageItem]:
    """The images that a list names; `columns` are what its two columns are usually called."""
    if has_image_suffix(path):
        hint = "Give a folder with a folder a class, or a list (.csv, .tsv, .jsonl)."
        raise UserError("This is one image, not a set of them.", location=file_name(path), hint=hint)
    if without_compression_suffix(path).suffix.lower() not in TABLE_READERS:
        hint = f"Give a folder, or a list: {', '.join(TABLE_READERS)}."
        raise UserError("The name does not say which kind of list this is.", location=file_name(path), hint=hint)
    # A list may have a label and a caption of each image: what is wanted here is looked for first.
    names = (columns, *((image, columns[1]) for image in IMAGE_COLUMN_NAMES), *COLUMN_NAMES)
    rows, _ = scan_pairs([path], report, names)
    report.discard_issues("length ratio")  # a label is short
    report.discard_issues("duplicate pair")  # images are compared by what they show
    report.read -= len(rows)  # whoever reads the images counts them
    report.kept -= len(rows)
    wanted = []
    for row in rows:
        file, _, line = row.location.rpartition(":")
        image = path.parent / row.source.strip()
        if "\\" in row.source and not image.exists():  # a list that was written on Windows
            image = path.parent / row.source.strip().replace("\\", "/")
        label = unicodedata.normalize("NFC", row.target.strip())  # as the names of folders
        wanted.append(ImageItem(image, label, file_name(image), Location(file, int(line))))
    return wanted


def resize_packed(packed: PackedImages, side: int | None, channels: int | None, report: DataReport) -> LoadedImages:
    """A packed split in the wanted size."""
    count, height, width, depth = packed.pixels.shape
    report.read += count
    report.kept += count
    stored = tuple(digest(each) for each in packed.pixels)
    pixels, pixel_digests = packed.pixels, stored
    wanted = (side or min(height, width), channels or depth)
    if (height, width, depth) != (wanted[0], *wanted):
        pixels = _resized(packed, *wanted)
        pixel_digests = tuple(digest(each) for each in pixels)
    names = tuple(f"{packed.file}#{number}" for number in range(count))
    return LoadedImages(ImageExamples(pixels, packed.labels, names), stored, pixel_digests)


def _resized(packed: PackedImages, side: int, channels: int) -> NDArray[np.uint8]:
    from PIL import Image

    pixels = allocate_pixels(len(packed.pixels), side, channels)

    def one(place: int) -> None:
        row = packed.pixels[place]
        image = center_crop_resize(Image.fromarray(row[..., 0] if row.shape[-1] == 1 else row), side)
        pixels[place] = np.array(image.convert("L" if channels == 1 else "RGB")).reshape(side, side, channels)

    for _ in parallel_map(one, range(len(pixels)), "resizing images"):
        pass
    return pixels


def check_splits(found: ScannedSet) -> None:
    """Say what only the whole set shows: classes that differ, and images that are there twice."""
    report, location = found.report, found.location
    classes = {name: dict.fromkeys(each.examples.labels) for name, each in found.splits.items() if each.file_digests}
    learned = classes.pop("train", {})
    if len(learned) == 1:
        message = f"All images to learn from are of the class '{next(iter(learned))}'."
        report.add_issue("single class", location, message, hint=_nested_classes_hint(found))
    for split, shown in classes.items():
        strange = [f"'{label}'" for label in shown if label not in learned]
        if strange and learned:
            many = "are classes that have" if len(strange) > 1 else "is a class that has"
            message = f"In {split} there {many} no image to learn from: {', '.join(strange)}."
            report.add_issue("unknown class", location, message)
        for label in learned:
            if label not in shown:
                report.add_issue("class missing in split", location, f"There is no image of '{label}' in {split}.")
    check_duplicates(found.splits, report)


def _nested_classes_hint(found: ScannedSet) -> str:
    """What to do where all classes lie in one folder more than was named; nothing else if they do not."""
    inside = {os.path.dirname(name) for name in found.splits["train"].examples.names}
    above = os.path.commonpath(inside)
    if not found.path.is_dir() or above in inside:
        return ""
    return f"If the folders in {above} are the classes, name it instead; or give images of other classes too."


def check_duplicates(splits: Mapping[str, LoadedImages], report: DataReport) -> None:
    """Say which images are there twice."""
    first: dict[str, tuple[str, str, str]] = {}
    for split, gathered in splits.items():
        examples = gathered.examples
        for image, label, name in zip(gathered.pixel_digests, examples.labels, examples.names, strict=True):
            before = first.setdefault(image, (split, label, name))
            if before[2] is name:
                continue
            kind = "duplicate image" if before[0] == split else "image in two splits"
            same = f"The same {report.unit.removesuffix('s')} is at {before[2]} ({before[0]})."
            report.add_issue(kind, Location(name), same)
            if before[1] != label:
                message = f"Here it is '{label}', at {before[2]} it is '{before[1]}'."
                report.add_issue("conflicting labels", Location(name), message)


def hold_out_images(given: Mapping[str, LoadedImages]) -> ImageSplits:
    """The splits, with what is not given held out from those to learn from; equal images stay together.

    Of each class at least one image is learned from, however few it has.
    The memory of what is given is used again for what is left of it, because a second copy may not fit.
    """
    train = given["train"]
    wanted = [name for name in ("test", "valid") if name not in given]
    if not wanted:
        return {name: each.examples for name, each in given.items()}
    # Equal images are known by how they look, but named by what is stored: so the size that all are brought to
    # does not change who is held out.
    names: dict[str, str] = {}
    for looks, stored in zip(train.pixel_digests, train.file_digests, strict=True):
        names[looks] = min(names.get(looks, stored), stored)
    groups = [names[looks] for looks in train.pixel_digests]
    labels = [(label,) for label in train.examples.classes]
    if (different := len(set(groups))) < (needed := max(len(set(labels)), 1) + len(wanted)):
        message = f"Of {different:,} different images none can be held out: at least {needed:,} are needed, "
        message += f"one{' of each class' if labels else ''} to learn from, and one each for {' and '.join(wanted)}."
        raise UserError(message, hint="Give more, or name some: corpus.valid, corpus.test.")
    places = split_groups(range(len(groups)), groups, wanted, labels)
    held = {name: select_examples(train.examples, rows) for name, rows in places.items() if name != "train"}
    splits = {"train": select_examples(train.examples, places["train"], compact_rows), **held}
    return splits | {name: each.examples for name, each in given.items() if name != "train"}


def select_examples(
    examples: ImageExamples,
    places: Sequence[int],
    select_pixels: Callable[[NDArray[np.uint8], Sequence[int]], NDArray[np.uint8]] = lambda pixels, places: pixels[
        places
    ],
) -> ImageExamples:
    """Some of the images, in this order."""
    others = [each.name for each in fields(examples) if each.name != "pixels"]
    picked = {name: tuple(getattr(examples, name)[place] for place in places) for name in others}
    return replace(examples, pixels=select_pixels(examples.pixels, places), **picked)


def compact_rows(pixels: NDArray[np.uint8], places: Sequence[int]) -> NDArray[np.uint8]:
    """Rows in their old order and in their old memory, with no gaps between them.

    >>> moved_up(np.arange(5, dtype=np.uint8), [0, 3, 4]).tolist()
    [0, 3, 4]
    """
    for start in range(0, len(places), MAX_PENDING):
        some = places[start : start + MAX_PENDING]
        pixels[start : start + len(some)] = pixels[some]  # no row moves down, so none is overwritten before it moved
    return pixels[: len(places)]
