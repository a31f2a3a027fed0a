"""What files of the user's own are, where nobody says what they are for: by their names, and by a look inside."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from seq2see.core.errors import UserError
from seq2see.sources.captioned_images import caption_folders, find_caption_list
from seq2see.sources.compression import without_compression_suffix
from seq2see.sources.conll import UserTaggedTexts
from seq2see.sources.data_report import DataReport
from seq2see.sources.image_folders import has_image_suffix
from seq2see.sources.lines import read_lines
from seq2see.sources.number_series import UserSeries
from seq2see.sources.pair_files import TABLE_READERS
from seq2see.sources.tables import IMAGE_COLUMNS, SAMPLE_LINES
from seq2see.sources.texts import UserTexts
from seq2see.sources.user_images import UserCaptionedImages, UserCaptionedVideos, UserImages
from seq2see.sources.user_pairs import UserPairs

UserData = UserPairs | UserImages | UserSeries | UserTaggedTexts | UserTexts
CONLL_SUFFIXES = {".conll", ".conllu"}
KIND_NAMES = {
    "pairs": "pairs of texts",
    "images": "images with labels",
    "captioned-images": "images with captions",
    "captioned-videos": "videos with captions",
    "labeled": "texts with labels",
    "tagged": "tagged words",
    "texts": "running text",
    "series": "a series of numbers",
}
"""What data of each kind are called."""


def guess_data_kind(paths: Sequence[Path]) -> UserData:
    """A folder is images or videos; tagged words by their name; running text if a .txt has no tabs; or pairs."""
    names, suffixes = tuple(map(str, paths)), {without_compression_suffix(path).suffix.lower() for path in paths}
    if len(paths) == 1 and (imaged := _image_kind(paths[0])):
        return imaged(paths=names)
    if suffixes <= CONLL_SUFFIXES:
        return UserTaggedTexts(paths=names)
    if len(paths) > 2 or (len(paths) == 1 and not suffixes <= set(TABLE_READERS)):
        message = f"{len(paths)} files can be several things." if len(paths) > 1 else "The name does not say what this is."
        hint = "Say what for: --task write (running text), tag, classify-text, forecast or translate."
        raise UserError(message, location=", ".join(names), hint=hint)
    if len(paths) == 1 and suffixes == {".txt"} and not _has_columns(paths[0]):
        return UserTexts(paths=names)
    return UserPairs(paths=names)


def _has_columns(path: Path) -> bool:
    """Whether there is a tab in the first lines."""
    return any("\t" in line.text for line in islice(read_lines(path, DataReport()), SAMPLE_LINES))


def _image_kind(path: Path) -> type[UserImages] | None:
    """Which images these are, if any: those of a folder, or of a list, whose columns say what is said of what."""
    if path.is_dir():
        try:
            return _image_kind(find_caption_list(caption_folders(path, DataReport())["train"])) or UserCaptionedImages
        except UserError:
            return UserImages
    if has_image_suffix(path):
        return UserImages  # whoever reads it says that one image is no set of them
    if without_compression_suffix(path).suffix.lower() not in TABLE_READERS:
        return None
    first = next(read_lines(path, DataReport()), None)
    words = set(re.findall(r"\w+", first.text.lower())) if first else set()
    if words & {"text", "sentence", "source"}:
        return None
    if {"video", "caption"} <= words:
        return UserCaptionedVideos
    said = next((said for image, said in IMAGE_COLUMNS if {image, said} <= words), "")
    return {"label": UserImages, "caption": UserCaptionedImages}.get(said)
