"""Guesses the kind of the user's own data from the names and the beginning of the files, if no task is given."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from seq2see.core.errors import UserError
from seq2see.data.readers.conll import UserTaggedTexts
from seq2see.data.readers.data_report import DataReport
from seq2see.data.readers.image_sets import has_image_suffix
from seq2see.data.readers.lines import read_lines, without_compression_suffix
from seq2see.data.readers.number_series import UserSeries
from seq2see.data.readers.pair_files import FASTTEXT_LABEL, TABLE_READERS, UserLabeledTexts, UserPairs, table_sample
from seq2see.data.readers.table_columns import IMAGE_COLUMNS, SAMPLE_LINES, has_labels
from seq2see.data.readers.texts import UserTexts
from seq2see.data.readers.user_images import (
    UserCaptionedImages,
    UserCaptionedVideos,
    UserImages,
    caption_folders,
    find_caption_list,
)
from seq2see.data.readers.user_recordings import (
    PATH_COLUMNS,
    SOUND_SUFFIXES,
    TEXT_COLUMNS,
    UserRecordings,
    has_sound_suffix,
)

UserData = UserPairs | UserImages | UserRecordings | UserSeries | UserTaggedTexts | UserTexts
CONLL_SUFFIXES = {".conll", ".conllu"}
KIND_NAMES = {
    "pairs": "pairs of texts",
    "images": "images with labels",
    "captioned-images": "images with captions",
    "captioned-videos": "videos with captions",
    "labeled": "texts with labels",
    "tagged": "tagged words",
    "dialogues": "dialogues",
    "texts": "running text",
    "series": "a series of numbers",
    "recordings": "recordings with texts",
}
"""The description of each kind of data."""


def guess_data_kind(paths: Sequence[Path]) -> UserData:
    """A folder is images, videos or recordings; tagged words have a suffix of their own.

    A .txt without tabs is running text.
    """
    names, suffixes = tuple(map(str, paths)), {without_compression_suffix(path).suffix.lower() for path in paths}
    if len(paths) == 1 and _has_recordings(paths[0]):
        return UserRecordings(paths=names)
    if len(paths) == 1 and (image_kind := _image_kind(paths[0])):
        return image_kind(paths=names)
    if suffixes <= CONLL_SUFFIXES:
        return UserTaggedTexts(paths=names)
    if len(paths) > 2 or (len(paths) == 1 and not suffixes <= set(TABLE_READERS)):
        message = f"The kind of {'these files' if len(paths) > 1 else 'this file'} cannot be inferred from the names."
        hint = "Give the task: --task write (running text), tag, classify-text, forecast or translate."
        raise UserError(message, location=", ".join(names), hint=hint)
    if len(paths) == 1 and suffixes == {".txt"} and not _has_columns(paths[0]):
        return UserTexts(paths=names)
    return (
        UserLabeledTexts(paths=names)
        if len(paths) == 1 and has_labels(table_sample(paths[0]))
        else UserPairs(paths=names)
    )


def _has_columns(path: Path) -> bool:
    """Whether one of the first lines contains a tab, or begins with a label of fastText."""
    return any(
        "\t" in line.text or line.text.startswith(FASTTEXT_LABEL)
        for line in islice(read_lines(path, DataReport()), SAMPLE_LINES)
    )


def _has_recordings(path: Path) -> bool:
    """Whether a folder contains recordings, or the columns of a list are recordings and texts."""
    if path.is_dir():
        return any(has_sound_suffix(Path(name)) for _, _, names in os.walk(path) for name in names)
    if has_sound_suffix(path):
        return True  # its reader raises the error that one recording is not a set of recordings
    if without_compression_suffix(path).suffix.lower() not in TABLE_READERS:
        return False
    header, row = ([line.text.lower() for line in islice(read_lines(path, DataReport()), 2)] + ["", ""])[:2]
    words = set(re.findall(r"\w+", header))
    suffixes = set(re.findall(r"\.\w+", row))
    return bool(words & set(PATH_COLUMNS) and words & set(TEXT_COLUMNS) and suffixes & SOUND_SUFFIXES)


def _image_kind(path: Path) -> type[UserImages] | None:
    """The kind of images in a folder or list, if there are any; the columns of a list determine the kind."""
    if path.is_dir():
        try:
            return _image_kind(find_caption_list(caption_folders(path, DataReport())["train"])) or UserCaptionedImages
        except UserError:
            return UserImages
    if has_image_suffix(path):
        return UserImages  # its reader raises the error that one image is not a set of images
    if without_compression_suffix(path).suffix.lower() not in TABLE_READERS:
        return None
    first = next(read_lines(path, DataReport()), None)
    words = set(re.findall(r"\w+", first.text.lower())) if first else set()
    if words & {"text", "sentence", "source"}:
        return None
    if {"video", "caption"} <= words:
        return UserCaptionedVideos
    annotation = next((target for image, target in IMAGE_COLUMNS if {image, target} <= words), "")
    return {"label": UserImages, "caption": UserCaptionedImages}.get(annotation)
