"""Loading many image files into one array in parallel, with a data report.

Pillow releases the global interpreter lock while it decodes, so files are decoded by several threads; each image is
resized immediately, so that only a few images are in memory in their full size. Issues are added to the report in the
order of the files, independent of the scheduling of the threads.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from seq2see.core.errors import UserError
from seq2see.data.examples import ImageExamples
from seq2see.data.progress import progress_bar
from seq2see.data.readers.data_report import DataReport, Location
from seq2see.data.readers.image_decoding import (
    SUFFIX_FORMATS,
    DecodedImage,
    ImageError,
    decode_bytes,
    read_bytes,
    strict_warnings,
)

MAX_WORKERS = 16
MAX_PENDING = 1024
"""The number of decoded images that may be queued in memory."""
ITEMS_PER_TASK = 16
"""The number of images in one task of a thread, if there are many images."""

ISSUE_MESSAGES = {
    "EXIF rotation": "It is rotated or mirrored, according to EXIF.",
    "transparent image": "Parts of it are transparent.",
    "multiple frames": "It has several frames.",
    "16-bit image": "Its gray has 16 bits.",
    "single frame": "It has one frame.",
    "CMYK colors": "Its colors are cyan, magenta, yellow and black (CMYK).",
}
"""The message of each kind of issue that decoding reports."""

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class ImageItem:
    """An image to be read: its file, its label, and the origin of the label."""

    path: Path
    label: str
    name: str
    """The name of the image in reports."""
    location: Location
    """The file itself, or the line of the list that names it."""


@dataclass(frozen=True)
class LoadedImages:
    """The images of a split, each with two fingerprints."""

    examples: ImageExamples
    file_digests: tuple[str, ...]
    """Fingerprints of the file contents, which do not depend on the image size."""
    pixel_digests: tuple[str, ...]
    """Fingerprints of the resized pixels, which are equal for copies in another format."""


ItemDecoder = Callable[[ImageItem], tuple[DecodedImage, str]]
"""Returns the decoded and resized image of an item and the fingerprint of its file; it may raise `ImageError`."""


def digest(content: bytes | NDArray[np.uint8]) -> str:
    """A short fingerprint of bytes or pixels."""
    return hashlib.blake2b(content if isinstance(content, bytes) else content.data, digest_size=16).hexdigest()


def read_item(item: ImageItem) -> bytes:
    """The content of the file of an image."""
    return read_bytes(item.path, item.name)


def load_images(
    items: Sequence[ImageItem],
    image_size: int,
    channels: int,
    report: DataReport,
    read_content: Callable[[ImageItem], bytes] = read_item,
) -> LoadedImages:
    """Load all images; invalid ones are rejected with an issue in the report."""

    def decode(item: ImageItem) -> tuple[DecodedImage, str]:
        content = read_content(item)
        return decode_bytes(content, item.name, image_size, channels), digest(content)

    return load_decoded(decode, items, allocate_pixels(len(items), image_size, channels), report)


def load_decoded(
    decode: ItemDecoder, items: Sequence[ImageItem], pixels: NDArray[np.uint8], report: DataReport
) -> LoadedImages:
    """Decode all items (images or videos) into `pixels`; invalid ones are rejected with an issue in the report."""
    kept: list[ImageItem] = []
    file_digests, pixel_digests = [], []

    def try_decode(item: ImageItem) -> tuple[DecodedImage, str] | ImageError:
        try:
            return decode(item)
        except ImageError as error:
            return error

    with strict_warnings():
        for item, result in zip(items, parallel_map(try_decode, items, f"reading {report.unit}"), strict=True):
            report.read += 1
            if isinstance(result, ImageError):
                report.rejected += 1
                report.add_issue(result.kind, item.location, result.message, text=_shown_name(item, result.location))
                continue
            decoded, file_digest = result
            report.kept += 1
            _add_issues(item, decoded, report)
            pixels[len(kept)] = decoded.pixels
            kept.append(item)
            file_digests.append(file_digest)
            pixel_digests.append(digest(decoded.pixels))
    labels, names = (tuple(getattr(item, field) for item in kept) for field in ("label", "name"))
    return LoadedImages(ImageExamples(pixels[: len(kept)], labels, names), tuple(file_digests), tuple(pixel_digests))


def _shown_name(item: ImageItem, name: str) -> str:
    """The name of an image or frame, if it is not already the file of the location."""
    return "" if item.location.file == name else name


def _add_issues(item: ImageItem, decoded: DecodedImage, report: DataReport) -> None:
    name = _shown_name(item, item.name)
    for kind in decoded.issues:
        report.add_issue(kind, item.location, ISSUE_MESSAGES[kind], text=name)
    expected = SUFFIX_FORMATS.get(item.path.suffix.lower())
    if expected and expected != decoded.format:
        message = f"The suffix is {item.path.suffix}, but the format is {decoded.format}."
        report.add_issue("format mismatch", item.location, message, text=name)
    if decoded.small_message:
        report.add_issue("small image", item.location, decoded.small_message, text=name)


def allocate_pixels(count: int, image_size: int, channels: int) -> NDArray[np.uint8]:
    """Memory for `count` images, after a check of the total memory: an allocation fails only when it is filled."""
    size = count * image_size * image_size * channels
    if size > (memory := total_memory()):
        raise UserError(
            f"{count:,} images of {image_size} x {image_size} pixels need {size / 2**30:.1f} GiB of memory, and this "
            f"machine has {memory / 2**30:.1f} GiB.",
            hint="Use a smaller source.image_size, or fewer images.",
        )
    return np.empty((count, image_size, image_size, channels), np.uint8)


def total_memory() -> int:
    """Bytes of memory of this machine; 1 TiB if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 40


def parallel_map(work: Callable[[Item], Result], items: Sequence[Item], description: str) -> Iterator[Result]:
    """The results in the order of the items, computed by several threads."""
    # Two threads for each core, because some of them wait for the disk.
    workers = min(MAX_WORKERS, 2 * (os.cpu_count() or 1))
    # Decoding a small image is as fast as submitting a task, so a task has several images if there are many.
    items_per_task = max(1, min(ITEMS_PER_TASK, len(items) // (4 * workers)))
    pool = ThreadPoolExecutor(workers, "images")
    try:
        with progress_bar(description, len(items)) as advance:
            for start in range(0, len(items), MAX_PENDING):
                stop = min(start + MAX_PENDING, len(items))
                batches = [
                    items[first : min(first + items_per_task, stop)] for first in range(start, stop, items_per_task)
                ]
                for results in pool.map(lambda batch: [work(item) for item in batch], batches):
                    yield from results
                    advance(len(results))
    finally:
        pool.shutdown(cancel_futures=True)  # after Ctrl-C, only the tasks that are running are finished
