"""Stubs of the image sets in the catalogue: small files of the same format, with their hashes in the catalogue."""

from __future__ import annotations

import gzip
import hashlib
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seq2see.data.catalogue import corpus_files
from seq2see.data.catalogue.entries import CATALOGUE

WriteFiles = Callable[[str, dict[str, bytes]], Path]


def idx_file(content: np.ndarray) -> bytes:
    """The bytes of an idx file."""
    shape = content.shape
    return bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + content.astype(np.uint8).tobytes()


def stub_catalogue(folder: Path, monkeypatch: pytest.MonkeyPatch) -> WriteFiles:
    """A data folder; `write_files(name, files)` writes files to it, and sets their hashes in the catalogue."""
    monkeypatch.setenv("SEQ2SEE_DATA", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setattr(corpus_files, "fetch", lambda file: pytest.fail(f"fetches {file.url}"))

    def write_files(name: str, files: dict[str, bytes]) -> Path:
        (folder / name).mkdir(exist_ok=True)
        for file, content in files.items():
            (folder / name / file).write_bytes(content)

        def with_hash(file: corpus_files.File) -> corpus_files.File:
            content = files.get(Path(file.path).name, b"")
            content = gzip.decompress(content) if content and file.path.endswith(".gz") else content
            return replace(file, content_sha256=hashlib.sha256(content).hexdigest())

        entry = CATALOGUE[name]
        slots = {slot: tuple(map(with_hash, getattr(entry, slot))) for slot in ("files", "published")}
        monkeypatch.setitem(CATALOGUE, name, replace(entry, **slots))
        return folder / name

    return write_files
