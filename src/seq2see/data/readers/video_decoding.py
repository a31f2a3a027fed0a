"""Decoding videos: an animated image (GIF, WebP, PNG), or a folder with an image for each frame.

Frames are decoded by the rules of `image_files.py`. The frames of a folder are sorted by name, with numbers
compared as numbers: `frame2.png` comes before `frame10.png`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seq2see.data.readers.image_files import (
    MAX_PIXELS,
    DecodedImage,
    ImageError,
    decode_bytes,
    decode_frame,
    digest,
    open_image,
    read_bytes,
    strict_warnings,
)
from seq2see.data.readers.image_sets import has_image_suffix, is_folder
from seq2see.data.readers.lines import file_name

MAX_FRAMES = 10_000
"""The most frames of an animated image; a file of a few kilobytes can claim a million."""
MAX_TOTAL_PIXELS = 20 * MAX_PIXELS
"""The most pixels of all frames together."""


def frame_indices(count: int, samples: int) -> NDArray[np.int64]:
    """The indices of `samples` of `count` frames at equal distances, including the first and the last.

    >>> frame_indices(15, 8).tolist(), frame_indices(3, 4).tolist()
    ([0, 2, 4, 6, 8, 10, 12, 14], [0, 1, 1, 2])
    """
    return (np.arange(samples) * (count - 1) + (samples - 1) // 2) // (samples - 1)


def load_video(path: Path, image_size: int, channels: int, frames: int) -> tuple[NDArray[np.uint8], tuple[str, ...]]:
    """The pixels of a video as (frame, height, width, channel), and warnings for the user."""
    with strict_warnings():
        video, _ = decode_video(path, image_size, channels, frames)
    return video.pixels, video.messages


def load_frames(files: Sequence[bytes], image_size: int, channels: int, frames: int) -> NDArray[np.uint8]:
    """The pixels of a video in memory: one animated image, or an image for each frame, in this order."""
    with strict_warnings():
        if len(files) == 1:
            frames_decoded = _animated(files[0], "video", image_size, channels)
        else:
            frames_decoded = [
                decode_bytes(each, f"frame {number}", image_size, channels) for number, each in enumerate(files, 1)
            ]
    return _sample_frames(frames_decoded, frames)


def _sample_frames(frames_decoded: Sequence[DecodedImage], frames: int) -> NDArray[np.uint8]:
    """(frame, height, width, channel): `frames` of them, at equal distances."""
    return np.stack([frames_decoded[index].pixels for index in frame_indices(len(frames_decoded), frames)])


def decode_video(path: Path, image_size: int, channels: int, frames: int) -> tuple[DecodedImage, str]:
    """A video whose pixels are (frame, height, width, channel), and a fingerprint of its files."""
    frames_decoded, file_digest = (
        _from_folder(path, image_size, channels, frames) if is_folder(path) else _from_file(path, image_size, channels)
    )
    issues = dict.fromkeys(kind for each in frames_decoded for kind in each.issues)
    if len(frames_decoded) == 1:
        issues["single frame"] = None
    return replace(frames_decoded[0], pixels=_sample_frames(frames_decoded, frames), issues=tuple(issues)), file_digest


def _from_folder(path: Path, image_size: int, channels: int, frames: int) -> tuple[list[DecodedImage], str]:
    """The sampled frames of a folder; no others are read.

    The fingerprint is of the number of frames, the first and the last, which are sampled for every `frames`.
    """
    try:
        images = [each for each in path.iterdir() if has_image_suffix(each) and not each.name.startswith(".")]
    except OSError as error:
        message = f"The folder cannot be read: {error.strerror}."
        raise ImageError("unreadable image", message, file_name(path)) from None
    if not images:
        raise ImageError("not a video", "There is no image in this folder.", file_name(path))
    files, frames_decoded = sorted(images, key=_natural_sort_key), []
    indices = dict.fromkeys(frame_indices(len(files), frames).tolist()) if len(files) > frames else range(len(files))
    digests = []
    for index in indices:
        name = file_name(files[index])
        content = read_bytes(files[index], name)
        digests.append(digest(content))
        frames_decoded.append(_without_frames_issue(decode_bytes(content, name, image_size, channels)))
    return frames_decoded, digest(f"{len(files)} {digests[0]} {digests[-1]}".encode())


def _without_frames_issue(frame: DecodedImage) -> DecodedImage:
    """A frame without the issue that its file has several frames, which is expected in a video."""
    return replace(frame, issues=tuple(each for each in frame.issues if each != "multiple frames"))


def _natural_sort_key(path: Path) -> list[tuple[int, str]]:
    """The parts of a file name, with digits as numbers."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", path.name)]


def _from_file(path: Path, image_size: int, channels: int) -> tuple[list[DecodedImage], str]:
    content = read_bytes(path, file_name(path))
    return _animated(content, file_name(path), image_size, channels), digest(content)


def _animated(content: bytes, location: str, image_size: int, channels: int) -> list[DecodedImage]:
    """All frames of an animated image."""
    try:
        return list(_frames(content, location, image_size, channels))
    except ImageError as error:
        if error.kind == "not an image":
            raise ImageError("not a video", error.message, error.location) from None
        raise


def _frames(content: bytes, location: str, image_size: int, channels: int) -> Iterator[DecodedImage]:
    with open_image(content, location) as image:
        max_frames = min(MAX_FRAMES, MAX_TOTAL_PIXELS // max(1, image.size[0] * image.size[1]))
        for number in range(max_frames + 1):
            try:
                image.seek(number)
            except EOFError:
                return
            yield _without_frames_issue(decode_frame(image, location, image_size, channels))
        raise ImageError("too many pixels", f"It has more than {max_frames:,} frames.", location)
