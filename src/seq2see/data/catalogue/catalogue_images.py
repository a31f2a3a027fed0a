"""Reading the image sets of the catalogue."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from seq2see.core.errors import UserError
from seq2see.core.settings import Settings
from seq2see.data.catalogue.catalogue import get_corpus
from seq2see.data.catalogue.corpus_files import CorpusFiles
from seq2see.data.catalogue.download import read_tar_members
from seq2see.data.catalogue.image_corpora import FASHION_MNIST_CLASSES
from seq2see.data.readers.captioned_images import with_captions
from seq2see.data.readers.data_report import DataReport, ErrorPolicy, Location
from seq2see.data.readers.image_loading import ImageItem, LoadedImages, load_images
from seq2see.data.readers.image_sets import ImageSplits, hold_out_images, resize_packed
from seq2see.data.readers.lines import read_lines
from seq2see.data.readers.packed_images import PackedImages, read_cifar, read_mnist, read_sprites
from seq2see.data.readers.pair_files import read_pairs


class CatalogueImages(Settings):
    """An image set of the catalogue: `seq2see data list` shows them."""

    kind: Literal["catalogue-images"] = "catalogue-images"
    name: Literal["mnist", "fashion-mnist", "cifar10", "flickr8k-small"] = "cifar10"
    """The name of the image set in the catalogue."""

    def images(self, image_size: int, channels: int) -> tuple[ImageSplits, list[DataReport]]:
        """Train, valid and test in this size; downloaded first if they are not on this machine."""
        report = DataReport(unit="images")
        splits = READERS[self.name](get_corpus(self.name), image_size, channels, report)
        report.raise_for_errors(ErrorPolicy())
        return hold_out_images(splits), [report]


def read_mnist_corpus(
    corpus_files: CorpusFiles, image_size: int, channels: int, report: DataReport
) -> dict[str, LoadedImages]:
    """MNIST: the label of an image is its digit."""
    return _all_in_size(read_mnist(corpus_files.paths[0].parent), image_size, channels, report)


def read_fashion_mnist(
    corpus_files: CorpusFiles, image_size: int, channels: int, report: DataReport
) -> dict[str, LoadedImages]:
    """Fashion-MNIST: the label of an image is the name of its class, not the class index."""
    splits = {
        split: PackedImages(each.pixels, tuple(FASHION_MNIST_CLASSES[int(label)] for label in each.labels), each.file)
        for split, each in read_mnist(corpus_files.paths[0].parent).items()
    }
    return _all_in_size(splits, image_size, channels, report)


def read_cifar10(
    corpus_files: CorpusFiles, image_size: int, channels: int, report: DataReport
) -> dict[str, LoadedImages]:
    """CIFAR-10, in the format that was found: sprites or binary batches."""
    first = corpus_files.paths[0]
    read = read_sprites if first.suffix == ".png" else read_cifar
    return _all_in_size(read(first.parent), image_size, channels, report)


def _all_in_size(
    splits: dict[str, PackedImages], image_size: int, channels: int, report: DataReport
) -> dict[str, LoadedImages]:
    return {name: resize_packed(each, image_size, channels, report) for name, each in splits.items()}


def read_flickr8k(
    corpus_files: CorpusFiles, image_size: int, channels: int, report: DataReport
) -> dict[str, LoadedImages]:
    """Flickr8k: the development images are the test split; some of the training images are held out as valid."""
    archive, captions, *lists = corpus_files.paths
    captions_of: dict[str, list[str]] = {}
    for row in read_pairs([captions])[0]:
        captions_of.setdefault(row.source.partition("#")[0], []).append(row.target.strip())
    names_of = {split: _read_names(path) for split, path in zip(("train", "test"), lists, strict=True)}
    contents = read_tar_members(archive, {name for names in names_of.values() for name in names})
    splits = {}
    for split, names in names_of.items():
        for name in names:
            if name not in contents or name not in captions_of:
                message = f"There is no {'image' if name not in contents else 'caption of'} '{name}'."
                raise UserError(message, location=str(archive if name not in contents else captions))
        items = [ImageItem(Path(name), captions_of[name][0], name, Location(f"{archive}/{name}")) for name in names]
        loaded = load_images(items, image_size, channels, report, lambda each: contents[each.name])
        splits[split] = with_captions(loaded, captions_of)
    return splits


def _read_names(path: Path) -> list[str]:
    """The names of a file, one per line."""
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
