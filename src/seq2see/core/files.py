"""Atomic file writes: if the process is killed at any moment, either the old or the new file remains, complete."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path
from typing import Any


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically and durably."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, atomically and durably."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def write_bytes(path: Path, content: bytes) -> None:
    """Write a temporary file, flush it to the disk, then rename it over the old file.

    The temporary name is always the same, so that the remains of a killed process are overwritten.
    """
    if path.is_dir():  # otherwise the error would name the temporary file
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
    """Flush a folder to the disk, so that renames in it survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256(path: Path) -> str:
    """The SHA-256 of a file, read in chunks."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
