"""Videos to pixels: an animated image (GIF, WebP, PNG), or a folder with an image for each frame.

Frames are decoded by the rules of `images.py`. In a folder they stand in the order of their names, where numbers
count as numbers: `frame2.png` comes before `frame10.png`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seq2see.sources.image_decoding import (
    MAX_PIXELS,
    DecodedImage,
    ImageError,
    decode_bytes,
    decode_frame,
    open_image,
    read_bytes,
    strict_warnings,
)
from seq2see.sources.image_folders import has_image_suffix, is_folder
from seq2see.sources.image_loading import digest
from seq2see.sources.lines import file_name

MAX_FRAMES = 10_000
"""An animated image may have as many; a file of a few kilobytes can claim a million."""
MAX_TOTAL_PIXELS = 20 * MAX_PIXELS
"""Pixels that all frames together may have."""


def frame_indices(count: int, wanted: int) -> NDArray[np.int64]:
    """Which of `count` frames are shown: `wanted` of them at equal distances, the first and the last among them.

    >>> spread(15, 8).tolist(), spread(3, 4).tolist()
    ([0, 2, 4, 6, 8, 10, 12, 14], [0, 1, 1, 2])
    """
    return (np.arange(wanted) * (count - 1) + (wanted - 1) // 2) // (wanted - 1)


def load_video(path: Path, side: int, channels: int, frames: int) -> tuple[NDArray[np.uint8], tuple[str, ...]]:
    """(frame, height, width, channel) of a video in this size, with remarks."""
    with strict_warnings():
        video, _ = decode_video(path, side, channels, frames)
    return video.pixels, video.told


def load_frames(files: Sequence[bytes], side: int, channels: int, frames: int) -> NDArray[np.uint8]:
    """The same of files that are in memory: one animated image, or an image for each frame, in their order."""
    with strict_warnings():
        if len(files) == 1:
            frames_decoded = _animated(files[0], "video", side, channels)
        else:
            frames_decoded = [
                decode_bytes(each, f"frame {place + 1}", side, channels) for place, each in enumerate(files)
            ]
    return _sample_frames(frames_decoded, frames)


def _sample_frames(frames_decoded: Sequence[DecodedImage], frames: int) -> NDArray[np.uint8]:
    """(frame, height, width, channel): so many of them, at equal distances."""
    return np.stack([frames_decoded[place].pixels for place in frame_indices(len(frames_decoded), frames)])


def decode_video(path: Path, side: int, channels: int, frames: int) -> tuple[DecodedImage, str]:
    """A video whose pixels are (frame, height, width, channel), and a fingerprint of what is stored."""
    frames_decoded, stored = (
        _from_folder(path, side, channels, frames) if is_folder(path) else _from_file(path, side, channels)
    )
    issues = dict.fromkeys(kind for each in frames_decoded for kind in each.issues)
    if len(frames_decoded) == 1:
        issues["single frame"] = None
    return replace(frames_decoded[0], pixels=_sample_frames(frames_decoded, frames), issues=tuple(issues)), stored


def _from_folder(path: Path, side: int, channels: int, frames: int) -> tuple[list[DecodedImage], str]:
    """The frames of a folder that are shown; no others are read.

    The first and the last are shown however many are wanted, so they are its fingerprint, with how many there are.
    """
    try:
        inside = [each for each in path.iterdir() if has_image_suffix(each) and not each.name.startswith(".")]
    except OSError as error:
        message = f"The folder cannot be read: {error.strerror}."
        raise ImageError("unreadable image", message, file_name(path)) from None
    if not inside:
        raise ImageError("not a video", "There is no image in this folder.", file_name(path))
    files, frames_decoded = sorted(inside, key=_natural_sort_key), []
    places = dict.fromkeys(frame_indices(len(files), frames).tolist()) if len(files) > frames else range(len(files))
    prints = []
    for place in places:
        content = read_bytes(files[place], file_name(files[place]))
        prints.append(digest(content))
        frames_decoded.append(_without_frames_issue(decode_bytes(content, file_name(files[place]), side, channels)))
    return frames_decoded, digest(f"{len(files)} {prints[0]} {prints[-1]}".encode())


def _without_frames_issue(frame: DecodedImage) -> DecodedImage:
    """A frame that is not blamed for having others beside it."""
    return replace(frame, issues=tuple(each for each in frame.issues if each != "multiple frames"))


def _natural_sort_key(path: Path) -> list[tuple[int, str]]:
    """By their names, and by the numbers in them."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", path.name)]


def _from_file(path: Path, side: int, channels: int) -> tuple[list[DecodedImage], str]:
    content = read_bytes(path, file_name(path))
    return _animated(content, file_name(path), side, channels), digest(content)


def _animated(content: bytes, location: str, side: int, channels: int) -> list[DecodedImage]:
    """All frames of an animated image."""
    try:
        return list(_frames(content, location, side, channels))
    except ImageError as bad:
        raise (ImageError("not a video", bad.message, bad.location) if bad.kind == "not an image" else bad) from None


def _frames(content: bytes, location: str, side: int, channels: int) -> Iterator[DecodedImage]:
    with open_image(content, location) as image:
        max_frames = min(MAX_FRAMES, MAX_TOTAL_PIXELS // max(1, image.size[0] * image.size[1]))
        for number in range(max_frames + 1):
            try:
                image.seek(number)
            except EOFError:
                return
            yield _without_frames_issue(decode_frame(image, location, side, channels))
        raise ImageError("too many pixels", f"It has more than {max_frames:,} frames.", location)
