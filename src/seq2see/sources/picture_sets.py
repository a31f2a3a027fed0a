"""Sets of labelled pictures, in whatever form they come: one door to all of them.

A folder with a folder a class (`picture_folders.py`), a packed set such as MNIST or CIFAR-10 (`packed_pictures.py`), or
a list: a .csv, .tsv or .jsonl whose columns are `file` (or `path`, or `image`, read from where the list lies) and
`label`. All become arrays of one size, with an account of every picture: read = kept + skipped + rejected.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seq2see.core.errors import UserError, no_file
from seq2see.sources.complaints import DataReport, Place
from seq2see.sources.compression import bare_name
from seq2see.sources.holding_out import divide
from seq2see.sources.lines import file_name
from seq2see.sources.own_files import TABLES, look_through
from seq2see.sources.packed_pictures import Packed, find_packed
from seq2see.sources.picture_examples import PictureExamples
from seq2see.sources.picture_folders import called_like_a_picture, find_pictures
from seq2see.sources.picture_reading import AT_ONCE, Gathered, Wanted, digest, gather, room_for, side_by_side
from seq2see.sources.pictures import fit
from seq2see.sources.tables import NAMES, PICTURE_NAMES, Sides

USUAL_SIDE = 32
"""The size that picture files are brought to where nothing is said."""

Splits = dict[str, PictureExamples]


@dataclass
class FoundSet:
    """What was found: the splits that the set has, and the account."""

    path: Path
    splits: dict[str, Gathered] = field(default_factory=dict)
    report: DataReport = field(default_factory=lambda: DataReport(unit="pictures"))

    @property
    def place(self) -> Place:
        """Where the whole set stands."""
        return Place(file_name(self.path))

    def complain_of_nothing(self) -> None:
        """Say which splits are there and have nothing in them, unless something else is known to be the reason."""
        if self.report.first_error is not None and not self.report.kept:
            return
        for split, each in self.splits.items():
            if not each.stored:
                within = f"in {split}" if len(self.splits) > 1 else "in it"
                what = f"There is not one {self.report.unit.removesuffix('s')} {within}."
                self.report.complain("no pictures", self.place, what)


def look_through_set(path: Path, side: int | None = None, channels: int | None = None) -> FoundSet:
    """Everything in a set, and everything there is to say about it, without judging."""
    if not path.exists():
        raise no_file(path)
    found = FoundSet(path)
    report = found.report
    try:
        if not path.is_dir():
            found.splits = {"train": gather(listed(path, report), side or USUAL_SIDE, channels or 3, report)}
        elif (read := find_packed(path)) is not None:
            found.splits = {name: in_size(packed, side, channels, report) for name, packed in read().items()}
        else:
            wanted = find_pictures(path, report)
            found.splits = {
                name: gather(each, side or USUAL_SIDE, channels or 3, report) for name, each in wanted.items()
            }
    except UserError as error:
        report.complain("damaged set", Place(error.where or file_name(path)), error.what, remedy=error.remedy)
    report.files = report.files or [file_name(path)]
    found.complain_of_nothing()
    return found


def listed(path: Path, report: DataReport, sides: Sides = ("file", "label")) -> list[Wanted]:
    """The pictures that a list names; `sides` are what its two columns are usually called."""
    if called_like_a_picture(path):
        remedy = "Give a folder with a folder a class, or a list (.csv, .tsv, .jsonl)."
        raise UserError("This is one picture, not a set of them.", where=file_name(path), remedy=remedy)
    if bare_name(path).suffix.lower() not in TABLES:
        remedy = f"Give a folder, or a list: {', '.join(TABLES)}."
        raise UserError("The name does not say which kind of list this is.", where=file_name(path), remedy=remedy)
    # A list may have a label and a caption of each picture: what is wanted here is looked for first.
    names = (sides, *((picture, sides[1]) for picture in PICTURE_NAMES), *NAMES)
    rows, _ = look_through([path], report, names)
    report.forget("length ratio")  # a label is short
    report.forget("duplicate pair")  # pictures are compared by what they show
    report.read -= len(rows)  # whoever reads the pictures counts them
    report.kept -= len(rows)
    wanted = []
    for row in rows:
        file, _, line = row.place.rpartition(":")
        picture = path.parent / row.source.strip()
        if "\\" in row.source and not picture.exists():  # a list that was written on Windows
            picture = path.parent / row.source.strip().replace("\\", "/")
        label = unicodedata.normalize("NFC", row.target.strip())  # as the names of folders
        wanted.append(Wanted(picture, label, file_name(picture), Place(file, int(line))))
    return wanted


def in_size(packed: Packed, side: int | None, channels: int | None, report: DataReport) -> Gathered:
    """A packed split in the wanted size."""
    count, height, width, depth = packed.pixels.shape
    report.read += count
    report.kept += count
    stored = tuple(digest(each) for each in packed.pixels)
    pixels, seen = packed.pixels, stored
    wanted = (side or min(height, width), channels or depth)
    if (height, width, depth) != (wanted[0], *wanted):
        pixels = _resized(packed, *wanted)
        seen = tuple(digest(each) for each in pixels)
    names = tuple(f"{packed.file}#{number}" for number in range(count))
    return Gathered(PictureExamples(pixels, packed.labels, names), stored, seen)


def _resized(packed: Packed, side: int, channels: int) -> NDArray[np.uint8]:
    from PIL import Image

    pixels = room_for(len(packed.pixels), side, channels)

    def one(place: int) -> None:
        row = packed.pixels[place]
        image = fit(Image.fromarray(row[..., 0] if row.shape[-1] == 1 else row), side)
        pixels[place] = np.array(image.convert("L" if channels == 1 else "RGB")).reshape(side, side, channels)

    for _ in side_by_side(one, range(len(pixels)), "resizing pictures"):
        pass
    return pixels


def compare(found: FoundSet) -> None:
    """Say what only the whole set shows: classes that differ, and pictures that are there twice."""
    report, where = found.report, found.place
    classes = {name: dict.fromkeys(each.examples.labels) for name, each in found.splits.items() if each.stored}
    learnt = classes.pop("train", {})
    if len(learnt) == 1:
        what = f"All pictures to learn from are of the class '{next(iter(learnt))}'."
        report.complain("one class", where, what, remedy=_too_deep(found))
    for split, shown in classes.items():
        strange = [f"'{label}'" for label in shown if label not in learnt]
        if strange and learnt:
            many = "are classes that have" if len(strange) > 1 else "is a class that has"
            what = f"In {split} there {many} no picture to learn from: {', '.join(strange)}."
            report.complain("classes differ", where, what)
        for label in learnt:
            if label not in shown:
                report.complain("class not tested", where, f"There is no picture of '{label}' in {split}.")
    compare_pictures(found.splits, report)


def _too_deep(found: FoundSet) -> str:
    """What to do where all classes lie in one folder more than was named; nothing else if they do not."""
    inside = {os.path.dirname(name) for name in found.splits["train"].examples.names}
    above = os.path.commonpath(inside)
    if not found.path.is_dir() or above in inside:
        return ""
    return f"If the folders in {above} are the classes, name it instead; or give pictures of other classes too."


def compare_pictures(splits: Mapping[str, Gathered], report: DataReport) -> None:
    """Say which pictures are there twice."""
    first: dict[str, tuple[str, str, str]] = {}
    for split, gathered in splits.items():
        examples = gathered.examples
        for picture, label, name in zip(gathered.seen, examples.labels, examples.names, strict=True):
            before = first.setdefault(picture, (split, label, name))
            if before[2] is name:
                continue
            kind = "duplicate picture" if before[0] == split else "picture in two splits"
            same = f"The same {report.unit.removesuffix('s')} is at {before[2]} ({before[0]})."
            report.complain(kind, Place(name), same)
            if before[1] != label:
                what = f"Here it is '{label}', at {before[2]} it is '{before[1]}'."
                report.complain("picture with two labels", Place(name), what)


def hold_out_pictures(given: Mapping[str, Gathered]) -> Splits:
    """The splits, with what is not given held out from those to learn from; equal pictures stay together.

    Of each class at least one picture is learnt from, however few it has.
    The memory of what is given is used again for what is left of it, because a second copy may not fit.
    """
    train = given["train"]
    wanted = [name for name in ("test", "valid") if name not in given]
    if not wanted:
        return {name: each.examples for name, each in given.items()}
    # Equal pictures are known by how they look, but named by what is stored: so the size that all are brought to
    # does not change who is held out.
    names: dict[str, str] = {}
    for looks, stored in zip(train.seen, train.stored, strict=True):
        names[looks] = min(names.get(looks, stored), stored)
    groups = [names[looks] for looks in train.seen]
    labels = [(label,) for label in train.examples.classes]
    if (different := len(set(groups))) < (needed := max(len(set(labels)), 1) + len(wanted)):
        what = f"Of {different:,} different pictures none can be held out: at least {needed:,} are needed, "
        what += f"one{' of each class' if labels else ''} to learn from, and one each for {' and '.join(wanted)}."
        raise UserError(what, remedy="Give more, or name some: corpus.valid, corpus.test.")
    places = divide(range(len(groups)), groups, wanted, labels)
    held = {name: pick(train.examples, rows) for name, rows in places.items() if name != "train"}
    splits = {"train": pick(train.examples, places["train"], moved_up), **held}
    return splits | {name: each.examples for name, each in given.items() if name != "train"}


def pick(
    examples: PictureExamples,
    places: Sequence[int],
    rows_of: Callable[[NDArray[np.uint8], Sequence[int]], NDArray[np.uint8]] = lambda pixels, places: pixels[places],
) -> PictureExamples:
    """Some of the pictures, in this order."""
    others = [each.name for each in fields(examples) if each.name != "pixels"]
    picked = {name: tuple(getattr(examples, name)[place] for place in places) for name in others}
    return replace(examples, pixels=rows_of(examples.pixels, places), **picked)


def moved_up(pixels: NDArray[np.uint8], places: Sequence[int]) -> NDArray[np.uint8]:
    """Rows in their old order and in their old memory, with no gaps between them.

    >>> moved_up(np.arange(5, dtype=np.uint8), [0, 3, 4]).tolist()
    [0, 3, 4]
    """
    for start in range(0, len(places), AT_ONCE):
        some = places[start : start + AT_ONCE]
        pixels[start : start + len(some)] = pixels[some]  # no row moves down, so none is overwritten before it moved
    return pixels[: len(places)]
