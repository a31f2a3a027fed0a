"""Picture sets of the catalogue in use: they are found, verified and read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from seq2see.core.errors import UserError
from seq2see.core.settings import Settings
from seq2see.sources.archives import tar_members
from seq2see.sources.captioned_pictures import with_captions
from seq2see.sources.catalogue import get
from seq2see.sources.complaints import DataReport, OnBad, Place
from seq2see.sources.holdings import Holding
from seq2see.sources.lines import read_lines
from seq2see.sources.own_files import read_pairs
from seq2see.sources.packed_pictures import Packed, read_cifar, read_mnist, read_sprites
from seq2see.sources.picture_corpora import CLOTHES_NAMES
from seq2see.sources.picture_reading import Gathered, Wanted, gather
from seq2see.sources.picture_sets import Splits, hold_out_pictures, in_size


class CataloguedPictures(Settings):
    """A picture set of the catalogue: `seq2see data list` shows them."""

    kind: Literal["catalogue-pictures"] = "catalogue-pictures"
    name: Literal["mnist", "fashion-mnist", "cifar10", "flickr8k-small"] = "cifar10"
    """Which set, by its name in the catalogue."""

    def pictures(self, side: int, channels: int) -> tuple[Splits, list[DataReport]]:
        """Train, valid and test in this size; fetched first if they are not on this machine."""
        report = DataReport(unit="pictures")
        given = READERS[self.name](get(self.name), side, channels, report)
        report.judge(OnBad())
        return hold_out_pictures(given), [report]


def read_digits(holding: Holding, side: int, channels: int, report: DataReport) -> dict[str, Gathered]:
    """MNIST: the label of a picture is its digit."""
    return _all_in_size(read_mnist(holding.paths[0].parent), side, channels, report)


def read_clothes(holding: Holding, side: int, channels: int, report: DataReport) -> dict[str, Gathered]:
    """Fashion-MNIST: the numbers of the classes become their names."""
    splits = {
        split: Packed(each.pixels, tuple(CLOTHES_NAMES[int(label)] for label in each.labels), each.file)
        for split, each in read_mnist(holding.paths[0].parent).items()
    }
    return _all_in_size(splits, side, channels, report)


def read_things(holding: Holding, side: int, channels: int, report: DataReport) -> dict[str, Gathered]:
    """CIFAR-10, in whichever of its two forms it was found."""
    first = holding.paths[0]
    read = read_sprites if first.suffix == ".png" else read_cifar
    return _all_in_size(read(first.parent), side, channels, report)


def _all_in_size(splits: dict[str, Packed], side: int, channels: int, report: DataReport) -> dict[str, Gathered]:
    return {name: in_size(each, side, channels, report) for name, each in splits.items()}


def read_photos(holding: Holding, side: int, channels: int, report: DataReport) -> dict[str, Gathered]:
    """Flickr8k: the pictures for development are tested on; some of those to learn from are held out to validate on."""
    archive, captions, *lists = holding.paths
    said: dict[str, list[str]] = {}
    for row in read_pairs([captions])[0]:
        said.setdefault(row.source.partition("#")[0], []).append(row.target.strip())
    listed = {split: _listed(path) for split, path in zip(("train", "test"), lists, strict=True)}
    stored = tar_members(archive, {name for names in listed.values() for name in names})
    gathered = {}
    for split, names in listed.items():
        for name in names:
            if name not in stored or name not in said:
                what = f"There is no {'picture' if name not in stored else 'caption of'} '{name}'."
                raise UserError(what, where=str(archive if name not in stored else captions))
        wanted = [Wanted(Path(name), said[name][0], name, Place(f"{archive}/{name}")) for name in names]
        found = gather(wanted, side, channels, report, lambda each: stored[each.name])
        gathered[split] = with_captions(found, said)
    return gathered


def _listed(path: Path) -> list[str]:
    """Names, one a line."""
    report = DataReport()
    names = [line.text.strip() for line in read_lines(path, report)]
    report.judge(OnBad())
    return [name for name in names if name]


READERS: dict[str, Callable[[Holding, int, int, DataReport], dict[str, Gathered]]] = {
    "mnist": read_digits,
    "fashion-mnist": read_clothes,
    "cifar10": read_things,
    "flickr8k-small": read_photos,
}
