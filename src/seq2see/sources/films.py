"""Films to pixels: an animated picture (GIF, WebP, PNG), or a folder with a picture for each frame.

Frames are decoded by the rules of `pictures.py`. In a folder they stand in the order of their names, where numbers
count as numbers: `frame2.png` comes before `frame10.png`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seq2see.sources.lines import file_name
from seq2see.sources.picture_folders import called_like_a_picture, is_folder
from seq2see.sources.picture_reading import digest
from seq2see.sources.pictures import (
    MOST_PIXELS,
    BadPicture,
    Decoded,
    decode_frame,
    look_at,
    opened_picture,
    read_bytes,
    strict_warnings,
)

MOST_FRAMES = 10_000
"""An animated picture may have as many; a file of a few kilobytes can claim a million."""
MOST_OF_ALL = 20 * MOST_PIXELS
"""Pixels that all frames together may have."""


def spread(count: int, wanted: int) -> NDArray[np.int64]:
    """Which of `count` frames are shown: `wanted` of them at equal distances, the first and the last among them.

    >>> spread(15, 8).tolist(), spread(3, 4).tolist()
    ([0, 2, 4, 6, 8, 10, 12, 14], [0, 1, 1, 2])
    """
    return (np.arange(wanted) * (count - 1) + (wanted - 1) // 2) // (wanted - 1)


def see_film(path: Path, side: int, channels: int, frames: int) -> tuple[NDArray[np.uint8], tuple[str, ...]]:
    """(frame, height, width, channel) of a film in this size, with remarks."""
    with strict_warnings():
        film, _ = watch(path, side, channels, frames)
    return film.pixels, film.told


def see_frames(files: Sequence[bytes], side: int, channels: int, frames: int) -> NDArray[np.uint8]:
    """The same of files that are in memory: one animated picture, or a picture for each frame, in their order."""
    with strict_warnings():
        if len(files) == 1:
            shown = _animated(files[0], "film", side, channels)
        else:
            shown = [look_at(each, f"frame {place + 1}", side, channels) for place, each in enumerate(files)]
    return _spread_out(shown, frames)


def _spread_out(shown: Sequence[Decoded], frames: int) -> NDArray[np.uint8]:
    """(frame, height, width, channel): so many of them, at equal distances."""
    return np.stack([shown[place].pixels for place in spread(len(shown), frames)])


def watch(path: Path, side: int, channels: int, frames: int) -> tuple[Decoded, str]:
    """A film whose pixels are (frame, height, width, channel), and a fingerprint of what is stored."""
    shown, stored = _from_folder(path, side, channels, frames) if is_folder(path) else _from_file(path, side, channels)
    remarks = dict.fromkeys(kind for each in shown for kind in each.remarks)
    if len(shown) == 1:
        remarks["one frame only"] = None
    return replace(shown[0], pixels=_spread_out(shown, frames), remarks=tuple(remarks)), stored


def _from_folder(path: Path, side: int, channels: int, frames: int) -> tuple[list[Decoded], str]:
    """The frames of a folder that are shown; no others are read.

    The first and the last are shown however many are wanted, so they are its fingerprint, with how many there are.
    """
    try:
        inside = [each for each in path.iterdir() if called_like_a_picture(each) and not each.name.startswith(".")]
    except OSError as error:
        what = f"The folder cannot be read: {error.strerror}."
        raise BadPicture("unreadable picture", what, file_name(path)) from None
    if not inside:
        raise BadPicture("no film", "There is no picture in this folder.", file_name(path))
    files, shown = sorted(inside, key=_in_order), []
    places = dict.fromkeys(spread(len(files), frames).tolist()) if len(files) > frames else range(len(files))
    prints = []
    for place in places:
        content = read_bytes(files[place], file_name(files[place]))
        prints.append(digest(content))
        shown.append(_still(look_at(content, file_name(files[place]), side, channels)))
    return shown, digest(f"{len(files)} {prints[0]} {prints[-1]}".encode())


def _still(frame: Decoded) -> Decoded:
    """A frame that is not blamed for having others beside it."""
    return replace(frame, remarks=tuple(each for each in frame.remarks if each != "several frames"))


def _in_order(path: Path) -> list[tuple[int, str]]:
    """By their names, and by the numbers in them."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", path.name)]


def _from_file(path: Path, side: int, channels: int) -> tuple[list[Decoded], str]:
    content = read_bytes(path, file_name(path))
    return _animated(content, file_name(path), side, channels), digest(content)


def _animated(content: bytes, where: str, side: int, channels: int) -> list[Decoded]:
    """All frames of an animated picture."""
    try:
        return list(_frames(content, where, side, channels))
    except BadPicture as bad:
        raise (BadPicture("no film", bad.what, bad.where) if bad.kind == "no picture" else bad) from None


def _frames(content: bytes, where: str, side: int, channels: int) -> Iterator[Decoded]:
    with opened_picture(content, where) as image:
        most = min(MOST_FRAMES, MOST_OF_ALL // max(1, image.size[0] * image.size[1]))
        for number in range(most + 1):
            try:
                image.seek(number)
            except EOFError:
                return
            yield _still(decode_frame(image, where, side, channels))
        raise BadPicture("too many pixels", f"It has more than {most:,} frames.", where)
