"""Stand-ins for the image sets of the catalogue: files in their form, which the catalogue is made to expect."""

from __future__ import annotations

import gzip
import hashlib
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seq2see.sources import corpus_files
from seq2see.sources.catalogue import CATALOGUE

FillMask = Callable[[str, dict[str, bytes]], Path]


def idx_file(content: np.ndarray) -> bytes:
    """An idx file."""
    shape = content.shape
    return bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + content.astype(np.uint8).tobytes()


def stub_catalogue(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FillMask:
    """A data folder; `fill(name, files)` puts files into it and lets the catalogue expect what is there."""
    monkeypatch.setenv("SEQ2SEE_DATA", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setattr(corpus_files, "fetch", lambda wanted: pytest.fail(f"fetches {wanted.url}"))

    def fill(name: str, files: dict[str, bytes]) -> Path:
        (folder / name).mkdir(exist_ok=True)
        for file, content in files.items():
            (folder / name / file).write_bytes(content)

        def pinned(file: corpus_files.File) -> corpus_files.File:
            content = files.get(Path(file.path).name, b"")
            content = gzip.decompress(content) if content and file.path.endswith(".gz") else content
            return replace(file, content_sha256=hashlib.sha256(content).hexdigest())

        entry = CATALOGUE[name]
        both = {slot: tuple(map(pinned, getattr(entry, slot))) for slot in ("files", "published")}
        monkeypatch.setitem(CATALOGUE, name, replace(entry, **both))
        return folder / name

    return fill
