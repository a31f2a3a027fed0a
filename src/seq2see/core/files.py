"""Writing files so that a kill at any moment leaves either the old file or the new one, whole."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path
from typing import Any


def write_text(path: Path, text: str) -> None:
    """Write a whole text file, durably and all at once."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON that a person can read, durably and all at once."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def write_bytes(path: Path, content: bytes) -> None:
    """Write under another name, flush to the disk, then rename over the old file.

    The other name is always the same, so that what a killed process left behind is written over.
    """
    if path.is_dir():  # else the error would name the other file
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames inside a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256(path: Path) -> str:
    """The SHA-256 of a file's content, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
