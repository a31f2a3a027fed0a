"""Many image files to one array, quickly, and with an account of each of them.

Pillow lets other threads work while it decodes, so files are decoded side by side; each is brought to the wanted size
at once, so that no more than a few images are ever in memory in their full size. What is wrong with an image goes
to the report, in the order of the files, however the threads took turns.
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
from seq2see.sources.data_report import DataReport, Location
from seq2see.sources.image_decoding import (
    SUFFIX_FORMATS,
    DecodedImage,
    ImageError,
    decode_bytes,
    read_bytes,
    strict_warnings,
)
from seq2see.sources.image_examples import ImageExamples
from seq2see.sources.progress import progress_bar

MAX_WORKERS = 16
MAX_PENDING = 1024
"""Images that may wait in memory for whoever collects them."""
ITEMS_PER_TASK = 16
"""Images that a thread takes at a time, where there are many."""

ISSUE_MESSAGES = {
    "EXIF rotation": "It lies on its side or mirrored, and says so.",
    "transparent image": "Parts of it are transparent.",
    "multiple frames": "It has several frames.",
    "16-bit image": "Its gray has 16 bits.",
    "single frame": "It has one frame.",
    "CMYK colors": "Its colors are for printing: cyan, magenta, yellow, black.",
}
"""What was done to an image, in words."""

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class ImageItem:
    """An image to be read: which, what it shows, and who says so."""

    path: Path
    label: str
    name: str
    """What the image is called in reports."""
    location: Location
    """The file itself, or the line of the list that names it."""


@dataclass(frozen=True)
class LoadedImages:
    """The images of a split, with two fingerprints each."""

    examples: ImageExamples
    file_digests: tuple[str, ...]
    """Of what is stored, which does not depend on the size that images are brought to."""
    pixel_digests: tuple[str, ...]
    """Of the pixels as a model sees them: equal for copies in another format."""


ItemDecoder = Callable[[ImageItem], tuple[DecodedImage, str]]
"""Something wanted as pixels in the wanted size, and a fingerprint of what is stored; it may raise `ImageError`."""


def digest(content: bytes | NDArray[np.uint8]) -> str:
    """A short fingerprint."""
    return hashlib.blake2b(content if isinstance(content, bytes) else content.data, digest_size=16).hexdigest()


def read_item(wanted: ImageItem) -> bytes:
    """What an image's file holds."""
    return read_bytes(wanted.path, wanted.name)


def load_images(
    wanted: Sequence[ImageItem],
    side: int,
    channels: int,
    report: DataReport,
    read_content: Callable[[ImageItem], bytes] = read_item,
) -> LoadedImages:
    """Read all images; those that cannot be read are rejected, and the report says why."""

    def decode(each: ImageItem) -> tuple[DecodedImage, str]:
        content = read_content(each)
        return decode_bytes(content, each.name, side, channels), digest(content)

    return load_decoded(decode, wanted, allocate_pixels(len(wanted), side, channels), report)


def load_decoded(
    decode: ItemDecoder, wanted: Sequence[ImageItem], pixels: NDArray[np.uint8], report: DataReport
) -> LoadedImages:
    """The same for whatever can be seen, in memory that has room for all of it."""
    kept: list[ImageItem] = []
    stored, pixel_digests = [], []

    def read(each: ImageItem) -> tuple[DecodedImage, str] | ImageError:
        try:
            return decode(each)
        except ImageError as bad:
            return bad

    with strict_warnings():
        for each, found in zip(wanted, parallel_map(read, wanted, f"reading {report.unit}"), strict=True):
            report.read += 1
            if isinstance(found, ImageError):
                report.rejected += 1
                report.add_issue(found.kind, each.location, found.message, text=_shown_name(each, found.location))
                continue
            decoded, fingerprint = found
            report.kept += 1
            _add_issues(each, decoded, report)
            pixels[len(kept)] = decoded.pixels
            kept.append(each)
            stored.append(fingerprint)
            pixel_digests.append(digest(decoded.pixels))
    labels, names = (tuple(getattr(each, field) for each in kept) for field in ("label", "name"))
    return LoadedImages(ImageExamples(pixels[: len(kept)], labels, names), tuple(stored), tuple(pixel_digests))


def _shown_name(wanted: ImageItem, name: str) -> str:
    """The name of an image, or of a frame, where its place is another's."""
    return "" if wanted.location.file == name else name


def _add_issues(wanted: ImageItem, decoded: DecodedImage, report: DataReport) -> None:
    named = _shown_name(wanted, wanted.name)
    for kind in decoded.issues:
        report.add_issue(kind, wanted.location, ISSUE_MESSAGES[kind], text=named)
    promised = SUFFIX_FORMATS.get(wanted.path.suffix.lower())
    if promised and promised != decoded.format:
        message = f"It is called {wanted.path.suffix} and is {decoded.format}."
        report.add_issue("format mismatch", wanted.location, message, text=named)
    if decoded.small_message:
        report.add_issue("small image", wanted.location, decoded.small_message, text=named)


def allocate_pixels(count: int, side: int, channels: int) -> NDArray[np.uint8]:
    """Memory for so many images; more than the machine has would only be noticed when it is filled."""
    wanted = count * side * side * channels
    if wanted > (there := total_memory()):
        raise UserError(
            f"{count:,} images of {side} x {side} pixels take {wanted / 2**30:.1f} GiB, and there are "
            f"{there / 2**30:.1f} GiB.",
            hint="Take a smaller source.image_size, or fewer images.",
        )
    return np.empty((count, side, side, channels), np.uint8)


def total_memory() -> int:
    """Bytes of memory that this machine has; where it does not say, as many as one may hope for."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 40


def parallel_map(work: Callable[[Item], Result], items: Sequence[Item], description: str) -> Iterator[Result]:
    """Results in the order of the items, by several threads."""
    # Twice as many as cores, because some of them wait for the disk.
    workers = min(MAX_WORKERS, 2 * (os.cpu_count() or 1))
    # A small image takes no longer than handing it out, so many are handed out a few at a time.
    items_per_task = max(1, min(ITEMS_PER_TASK, len(items) // (4 * workers)))
    pool = ThreadPoolExecutor(workers, "images")
    try:
        with progress_bar(description, len(items)) as advance:
            for start in range(0, len(items), MAX_PENDING):
                stop = min(start + MAX_PENDING, len(items))
                batches = [
                    items[place : min(place + items_per_task, stop)] for place in range(start, stop, items_per_task)
                ]
                for results in pool.map(lambda batch: [work(item) for item in batch], batches):
                    yield from results
                    advance(len(results))
    finally:
        pool.shutdown(cancel_futures=True)  # after Ctrl-C, only what is already being done is finished
