"""What files of the user's own are, where nobody says what they are for: by their names, and by a look inside."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from seq2see.core.errors import UserError
from seq2see.sources.captioned_pictures import caption_folders, list_in
from seq2see.sources.complaints import DataReport
from seq2see.sources.compression import bare_name
from seq2see.sources.conll import OwnTagged
from seq2see.sources.lines import read_lines
from seq2see.sources.own_corpus import OwnFiles
from seq2see.sources.own_files import TABLES
from seq2see.sources.own_pictures import OwnCaptions, OwnFilms, OwnPictures
from seq2see.sources.picture_folders import called_like_a_picture
from seq2see.sources.series import OwnSeries
from seq2see.sources.tables import PICTURES, SAMPLE
from seq2see.sources.texts import OwnTexts

OwnData = OwnFiles | OwnPictures | OwnSeries | OwnTagged | OwnTexts
TAGGED = {".conll", ".conllu"}
NAMES = {
    "files": "pairs of texts",
    "pictures": "pictures with labels",
    "captions": "pictures with captions",
    "films": "films with captions",
    "labelled": "texts with labels",
    "tagged": "tagged words",
    "texts": "running text",
    "series": "a series of numbers",
}
"""What data of each kind are called."""


def guess_kind(paths: Sequence[Path]) -> OwnData:
    """A folder is pictures or films; tagged words by their name; running text if a .txt has no tabs; or pairs."""
    names, suffixes = tuple(map(str, paths)), {bare_name(path).suffix.lower() for path in paths}
    if len(paths) == 1 and (pictured := _pictured(paths[0])):
        return pictured(paths=names)
    if suffixes <= TAGGED:
        return OwnTagged(paths=names)
    if len(paths) > 2 or (len(paths) == 1 and not suffixes <= set(TABLES)):
        what = f"{len(paths)} files can be several things." if len(paths) > 1 else "The name does not say what this is."
        remedy = "Say what for: --for write (running text), tag, classify-text, waves or translate."
        raise UserError(what, where=", ".join(names), remedy=remedy)
    if len(paths) == 1 and suffixes == {".txt"} and not _has_columns(paths[0]):
        return OwnTexts(paths=names)
    return OwnFiles(paths=names)


def _has_columns(path: Path) -> bool:
    """Whether there is a tab in the first lines."""
    return any("\t" in line.text for line in islice(read_lines(path, DataReport()), SAMPLE))


def _pictured(path: Path) -> type[OwnPictures] | None:
    """Which pictures these are, if any: those of a folder, or of a list, whose columns say what is said of what."""
    if path.is_dir():
        try:
            return _pictured(list_in(caption_folders(path, DataReport())["train"])) or OwnCaptions
        except UserError:
            return OwnPictures
    if called_like_a_picture(path):
        return OwnPictures  # whoever reads it says that one picture is no set of them
    if bare_name(path).suffix.lower() not in TABLES:
        return None
    first = next(read_lines(path, DataReport()), None)
    words = set(re.findall(r"\w+", first.text.lower())) if first else set()
    if words & {"text", "sentence", "source"}:
        return None
    if {"film", "caption"} <= words:
        return OwnFilms
    said = next((said for picture, said in PICTURES if {picture, said} <= words), "")
    return {"label": OwnPictures, "caption": OwnCaptions}.get(said)
