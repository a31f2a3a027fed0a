"""Fingerprints of data, so that a resumed run can tell whether it still learns from the same examples."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from seq2see.core.errors import UserError
from seq2see.core.files import sha256
from seq2see.sources.examples import Example


def fingerprint(examples: Iterable[Example]) -> str:
    """SHA-256 over all sources and targets in order; the same texts give the same value wherever they stand.

    >>> fingerprint([Example("ab", "c")]) == fingerprint([Example("a", "bc")])
    False
    """
    digest = hashlib.sha256()
    for example in examples:
        for text in (example.source, example.target):
            content = text.encode()
            # The length goes before the text, so that no two lists of texts look alike.
            digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


@dataclass(frozen=True)
class FileStamp:
    """What a file was when it was read."""

    size: int
    modified: int
    """Time of the last change, in nanoseconds."""
    sha256: str

    def to_json(self) -> dict[str, Any]:
        """Plain data, to be stored with a run."""
        return asdict(self)


def stamp(path: Path) -> FileStamp:
    """Size, time of the last change and SHA-256 of a file."""
    try:
        status = path.stat()
        return FileStamp(status.st_size, status.st_mtime_ns, sha256(path))
    except OSError as error:
        raise UserError(f"The file cannot be read: {error.strerror}.", where=str(path)) from None


def check_unchanged(stamps: Mapping[str, FileStamp]) -> None:
    """Raise if a file's content is not what it was; size and time are looked at first."""
    for name, before in stamps.items():
        path = Path(name)
        if not path.exists():
            raise UserError("The data file is gone.", where=name, remedy="Put it back, or start a new run.")
        status = path.stat()
        if (status.st_size, status.st_mtime_ns) == (before.size, before.modified):
            continue
        if status.st_size == before.size and sha256(path) == before.sha256:
            continue  # only copied or touched
        raise UserError(
            f"The data file has changed since the run began ({before.size:,} bytes then, {status.st_size:,} now).",
            where=name,
            remedy="Put the old file back, or start a new run.",
        )
