"""Films to pixels: an animated picture (GIF, WebP, PNG), or a folder with a picture for each frame.

Frames are decoded by the rules of `pictures.py`. In a folder they stand in the order of their names, where numbers
count as numbers: `frame2.png` comes before `frame10.png`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seq2see.sources.pictures import (
    ENDINGS,
    MOST_PIXELS,
    BadPicture,
    Decoded,
    decode_frame,
    opened_picture,
    read_bytes,
    see_picture,
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
    shown = _from_folder(path, side, channels, frames) if path.is_dir() else _from_file(path, side, channels)
    told = dict.fromkeys(remark for each in shown for remark in each.told)
    if len(shown) == 1:
        told["it has one frame only, which is shown all the time"] = None
    return np.stack([shown[place].pixels for place in spread(len(shown), frames)]), tuple(told)


def _from_folder(path: Path, side: int, channels: int, frames: int) -> list[Decoded]:
    """The frames of a folder that are shown; no others are read."""
    files = sorted((each for each in path.iterdir() if each.suffix.lower() in ENDINGS), key=_in_order)
    if not files:
        raise BadPicture("no picture", "There is no picture in this folder.", str(path))
    places = dict.fromkeys(spread(len(files), frames).tolist()) if len(files) > frames else range(len(files))
    return [see_picture(files[place], side=side, channels=channels) for place in places]


def _in_order(path: Path) -> list[tuple[int, str]]:
    """By their names, and by the numbers in them."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", path.name)]


def _from_file(path: Path, side: int, channels: int) -> list[Decoded]:
    with strict_warnings():
        return list(_frames(read_bytes(path, str(path)), str(path), side, channels))


def _frames(content: bytes, where: str, side: int, channels: int) -> Iterator[Decoded]:
    with opened_picture(content, where) as image:
        most = min(MOST_FRAMES, MOST_OF_ALL // max(1, image.size[0] * image.size[1]))
        for number in range(most + 1):
            try:
                image.seek(number)
            except EOFError:
                return
            found = decode_frame(image, where, side, channels)
            yield replace(found, remarks=tuple(each for each in found.remarks if each != "several frames"))
        raise BadPicture("too many pixels", f"It has more than {most:,} frames.", where)
