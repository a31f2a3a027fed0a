"""Many picture files to one array, quickly, and with an account of each of them.

Pillow lets other threads work while it decodes, so files are decoded side by side; each is brought to the wanted size
at once, so that no more than a few pictures are ever in memory in their full size. What is wrong with a picture goes
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
from seq2see.sources.complaints import DataReport, Place
from seq2see.sources.picture_examples import PictureExamples
from seq2see.sources.pictures import ENDINGS, BadPicture, Decoded, look_at, read_bytes, strict_warnings
from seq2see.sources.progress import counted

MOST_WORKERS = 16
AT_ONCE = 1024
"""Pictures that may wait in memory for whoever collects them."""
FEW = 16
"""Pictures that a thread takes at a time, where there are many."""

SAID = {
    "turned by EXIF": "It lies on its side or mirrored, and says so.",
    "transparent picture": "Parts of it are transparent.",
    "several frames": "It has several frames.",
    "16-bit picture": "Its grey has 16 bits.",
    "one frame only": "It has one frame.",
    "CMYK colours": "Its colours are for printing: cyan, magenta, yellow, black.",
}
"""What was done to a picture, in words."""

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Wanted:
    """A picture to be read: which, what it shows, and who says so."""

    path: Path
    label: str
    name: str
    """What the picture is called in reports."""
    place: Place
    """The file itself, or the line of the list that names it."""


@dataclass(frozen=True)
class Gathered:
    """The pictures of a split, with two fingerprints each."""

    examples: PictureExamples
    stored: tuple[str, ...]
    """Of what is stored, which does not depend on the size that pictures are brought to."""
    seen: tuple[str, ...]
    """Of the pixels as a model sees them: equal for copies in another format."""


See = Callable[[Wanted], tuple[Decoded, str]]
"""Something wanted as pixels in the wanted size, and a fingerprint of what is stored; it may raise `BadPicture`."""


def digest(content: bytes | NDArray[np.uint8]) -> str:
    """A short fingerprint."""
    return hashlib.blake2b(content if isinstance(content, bytes) else content.data, digest_size=16).hexdigest()


def from_file(wanted: Wanted) -> bytes:
    """What a picture's file holds."""
    return read_bytes(wanted.path, wanted.name)


def gather(
    wanted: Sequence[Wanted],
    side: int,
    channels: int,
    report: DataReport,
    stored_in: Callable[[Wanted], bytes] = from_file,
) -> Gathered:
    """Read all pictures; those that cannot be read are rejected, and the report says why."""

    def see(each: Wanted) -> tuple[Decoded, str]:
        content = stored_in(each)
        return look_at(content, each.name, side, channels), digest(content)

    return gather_seen(see, wanted, room_for(len(wanted), side, channels), report)


def gather_seen(see: See, wanted: Sequence[Wanted], pixels: NDArray[np.uint8], report: DataReport) -> Gathered:
    """The same for whatever can be seen, in memory that has room for all of it."""
    kept: list[Wanted] = []
    stored, seen = [], []

    def read(each: Wanted) -> tuple[Decoded, str] | BadPicture:
        try:
            return see(each)
        except BadPicture as bad:
            return bad

    with strict_warnings():
        for each, found in zip(wanted, side_by_side(read, wanted, f"reading {report.unit}"), strict=True):
            report.read += 1
            if isinstance(found, BadPicture):
                report.rejected += 1
                report.complain(found.kind, each.place, found.what, text=_named(each, found.where))
                continue
            decoded, fingerprint = found
            report.kept += 1
            _remark(each, decoded, report)
            pixels[len(kept)] = decoded.pixels
            kept.append(each)
            stored.append(fingerprint)
            seen.append(digest(decoded.pixels))
    labels, names = (tuple(getattr(each, field) for each in kept) for field in ("label", "name"))
    return Gathered(PictureExamples(pixels[: len(kept)], labels, names), tuple(stored), tuple(seen))


def _named(wanted: Wanted, name: str) -> str:
    """The name of a picture, or of a frame, where its place is another's."""
    return "" if wanted.place.file == name else name


def _remark(wanted: Wanted, decoded: Decoded, report: DataReport) -> None:
    named = _named(wanted, wanted.name)
    for kind in decoded.remarks:
        report.complain(kind, wanted.place, SAID[kind], text=named)
    promised = ENDINGS.get(wanted.path.suffix.lower())
    if promised and promised != decoded.format:
        what = f"It is called {wanted.path.suffix} and is {decoded.format}."
        report.complain("other format", wanted.place, what, text=named)
    if decoded.small:
        report.complain("small picture", wanted.place, decoded.small, text=named)


def room_for(count: int, side: int, channels: int) -> NDArray[np.uint8]:
    """Memory for so many pictures; more than the machine has would only be noticed when it is filled."""
    wanted = count * side * side * channels
    if wanted > (there := memory()):
        raise UserError(
            f"{count:,} pictures of {side} x {side} pixels take {wanted / 2**30:.1f} GiB, and there are "
            f"{there / 2**30:.1f} GiB.",
            remedy="Take a smaller source.side, or fewer pictures.",
        )
    return np.empty((count, side, side, channels), np.uint8)


def memory() -> int:
    """Bytes of memory that this machine has; where it does not say, as many as one may hope for."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 40


def side_by_side(work: Callable[[Item], Result], items: Sequence[Item], what: str) -> Iterator[Result]:
    """Results in the order of the items, by several threads."""
    # Twice as many as cores, because some of them wait for the disk.
    workers = min(MOST_WORKERS, 2 * (os.cpu_count() or 1))
    # A small picture takes no longer than handing it out, so many are handed out a few at a time.
    few = max(1, min(FEW, len(items) // (4 * workers)))
    pool = ThreadPoolExecutor(workers, "pictures")
    try:
        with counted(what, len(items)) as advance:
            for start in range(0, len(items), AT_ONCE):
                stop = min(start + AT_ONCE, len(items))
                lots = [items[place : min(place + few, stop)] for place in range(start, stop, few)]
                for results in pool.map(lambda lot: [work(item) for item in lot], lots):
                    yield from results
                    advance(len(results))
    finally:
        pool.shutdown(cancel_futures=True)  # after Ctrl-C, only what is already being done is finished
