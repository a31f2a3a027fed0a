"""Image sets of the catalogue in use: they are found, verified and read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from seq2see.core.errors import UserError
from seq2see.core.settings import Settings
from seq2see.sources.archives import read_tar_members
from seq2see.sources.captioned_images import with_captions
from seq2see.sources.catalogue import get
from seq2see.sources.corpus_files import CorpusFiles
from seq2see.sources.data_report import DataReport, ErrorPolicy, Location
from seq2see.sources.image_corpora import FASHION_MNIST_CLASSES
from seq2see.sources.image_loading import ImageItem, LoadedImages, load_images
from seq2see.sources.image_sets import ImageSplits, hold_out_images, resize_packed
from seq2see.sources.lines import read_lines
from seq2see.sources.packed_images import PackedImages, read_cifar, read_mnist, read_sprites
from seq2see.sources.pair_files import read_pairs


class CatalogueImages(Settings):
    """An image set of the catalogue: `seq2see data list` shows them."""

    kind: Literal["catalogue-images"] = "catalogue-images"
    name: Literal["mnist", "fashion-mnist", "cifar10", "flickr8k-small"] = "cifar10"
    """Which set, by its name in the catalogue."""

    def images(self, side: int, channels: int) -> tuple[ImageSplits, list[DataReport]]:
        """Train, valid and test in this size; fetched first if they are not on this machine."""
        report = DataReport(unit="images")
        given = READERS[self.name](get(self.name), side, channels, report)
        report.raise_for_errors(ErrorPolicy())
        return hold_out_images(given), [report]


def read_mnist_corpus(
    corpus_files: CorpusFiles, side: int, channels: int, report: DataReport
) -> dict[str, LoadedImages]:
    """MNIST: the label of an image is its digit."""
    return _all_in_size(read_mnist(corpus_files.paths[0].parent), side, channels, report)


def read_fashion_mnist(
    corpus_files: CorpusFiles, side: int, channels: int, report: DataReport
) -> dict[str, LoadedImages]:
    """Fashion-MNIST: the numbers of the classes become their names."""
    splits = {
        split: PackedImages(each.pixels, tuple(FASHION_MNIST_CLASSES[int(label)] for label in each.labels), each.file)
        for split, each in read_mnist(corpus_files.paths[0].parent).items()
    }
    return _all_in_size(splits, side, channels, report)


def read_cifar10(corpus_files: CorpusFiles, side: int, channels: int, report: DataReport) -> dict[str, LoadedImages]:
    """CIFAR-10, in whichever of its two forms it was found."""
    first = corpus_files.paths[0]
    read = read_sprites if first.suffix == ".png" else read_cifar
    return _all_in_size(read(first.parent), side, channels, report)


def _all_in_size(
    splits: dict[str, PackedImages], side: int, channels: int, report: DataReport
) -> dict[str, LoadedImages]:
    return {name: resize_packed(each, side, channels, report) for name, each in splits.items()}


def read_flickr8k(corpus_files: CorpusFiles, side: int, channels: int, report: DataReport) -> dict[str, LoadedImages]:
    """Flickr8k: the images for development are tested on; some of those to learn from are held out to validate on."""
    archive, captions, *lists = corpus_files.paths
    said: dict[str, list[str]] = {}
    for row in read_pairs([captions])[0]:
        said.setdefault(row.source.partition("#")[0], []).append(row.target.strip())
    listed = {split: _read_names(path) for split, path in zip(("train", "test"), lists, strict=True)}
    stored = read_tar_members(archive, {name for names in listed.values() for name in names})
    gathered = {}
    for split, names in listed.items():
        for name in names:
            if name not in stored or name not in said:
                message = f"There is no {'image' if name not in stored else 'caption of'} '{name}'."
                raise UserError(message, location=str(archive if name not in stored else captions))
        wanted = [ImageItem(Path(name), said[name][0], name, Location(f"{archive}/{name}")) for name in names]
        found = load_images(wanted, side, channels, report, lambda each: stored[each.name])
        gathered[split] = with_captions(found, said)
    return gathered


def _read_names(path: Path) -> list[str]:
    """Names, one a line."""
    report = DataReport()
    names = [line.text.strip() for line in read_lines(path, report)]
    report.raise_for_errors(ErrorPolicy())
    return [name for name in names if name]


READERS: dict[str, Callable[[CorpusFiles, int, int, DataReport], dict[str, LoadedImages]]] = {
    "mnist": read_mnist_corpus,
    "fashion-mnist": read_fashion_mnist,
    "cifar10": read_cifar10,
    "flickr8k-small": read_flickr8k,
}
