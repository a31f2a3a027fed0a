"""Atomic writing of files and folders, and manifests of checkpoint folders.

If the process is killed at any moment, either the old or the new file remains, complete.

A manifest has the size and SHA-256 of every file of a folder, and the SHA-256 of its own body. A folder is intact if
its manifest is, byte for byte, the one that would be written today, and if its files are exactly those of the manifest,
with equal size and hash.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from seq2see.core.errors import UserError


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically and durably."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, atomically and durably."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def write_bytes(path: Path, content: bytes) -> None:
    """Write a temporary file, flush it to the disk, then rename it over the old file."""
    if path.is_dir():  # otherwise the error would name the temporary file
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(path)
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


_TEMPORARY = re.compile(r"\.(.+?)(?:\.(\d{1,9})-[0-9a-f]{12})?\.tmp", re.ASCII | re.DOTALL)
_own_temporaries = set[str]()  # of this process, which may write in several threads


def temporary_path(path: Path) -> Path:
    """A name in the same folder that no other process uses; the remains of ended processes are removed."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(path.parent) as items:
        for item in items:
            match = _TEMPORARY.fullmatch(item.name)
            if match and match[1] == path.name and _is_stale(item.name, match[2]):
                remove_path(Path(item.path))
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(6).hex()}.tmp")
    _own_temporaries.add(temporary.name)
    return temporary


def _is_stale(name: str, process_id: str | None) -> bool:
    if process_id is None or int(process_id) == os.getpid():  # process ids repeat in containers
        return name not in _own_temporaries
    return not is_process_alive(int(process_id))


def is_process_alive(process_id: int) -> bool:
    """Whether a process with this id runs on this machine."""
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # the process belongs to another user and is alive
    return True


def remove_path(path: Path) -> None:
    """Remove a file, a link or a whole folder, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


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


DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The numbers of the errors of a full disk, a full quota and a limit of the file size."""


# --- manifests ---


SCHEMA = 1
"""The version of this format; a checkpoint of another version is refused."""
MANIFEST = "MANIFEST.json"


def file_entry(content: bytes) -> dict[str, Any]:
    """The entry of one file in the manifest."""
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def manifest_bytes(step: int, files: dict[str, dict[str, Any]]) -> bytes:
    """The content of the manifest for the checkpoint of a step."""
    return _with_checksum({"schema": SCHEMA, "step": step, "files": files})


def verify_folder(path: Path, step: int | None) -> tuple[dict[str, Any], list[str]]:
    """The entries of all files in the manifest of a checkpoint of this step, and all faults of its folder."""
    try:
        manifest = _read_manifest(path)
        files, faults = manifest["files"], list(_file_faults(path, manifest["files"]))
    except OSError as error:
        return {}, [f"it cannot be read ({error.strerror})"]
    except ValueError as error:
        return {}, [str(error)]
    if manifest["step"] != step:  # a folder that was renamed, copied or swapped
        faults.insert(0, f"it holds step {manifest['step']}, which is not the step of its name")
    return files, faults


def _read_manifest(path: Path) -> dict[str, Any]:
    if not (path / MANIFEST).is_file():
        raise ValueError(f"{MANIFEST} is missing")
    content = (path / MANIFEST).read_bytes()
    try:
        manifest = json.loads(content.decode("utf-8"))
        schema = manifest["schema"]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise ValueError(f"{MANIFEST} is not a valid JSON manifest") from None
    if schema != SCHEMA:
        raise ValueError(f"its format is {schema!r}, and only format {SCHEMA} is supported")
    # The comparison with the manifest that would be written today detects any changed byte, even a space.
    body = {key: manifest[key] for key in manifest if key != "sha256"}
    if _with_checksum(body) != content or not _well_formed(body):
        raise ValueError(f"{MANIFEST} is damaged")
    return body


def _with_checksum(body: dict[str, Any]) -> bytes:
    """The content of a manifest: its body and the SHA-256 of that body."""
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return (json.dumps({**body, "sha256": digest}, sort_keys=True, indent=2) + "\n").encode()


def _well_formed(body: dict[str, Any]) -> bool:
    files, step = body.get("files"), body.get("step")
    return (
        isinstance(step, int)
        and isinstance(files, dict)
        and all(isinstance(file, dict) and file.keys() == {"size", "sha256"} for file in files.values())
    )


def _file_faults(path: Path, files: dict[str, Any]) -> Iterator[str]:
    with os.scandir(path) as items:
        present = {item.name: item for item in items if item.name != MANIFEST}
    for name in sorted(present.keys() | files.keys()):
        if name not in present:
            yield f"{name} is missing"
        elif name not in files:
            yield f"{name} is not in {MANIFEST}"
        elif not present[name].is_file(follow_symlinks=False):
            yield f"{name} is not a regular file"
        elif (size := present[name].stat().st_size) != files[name]["size"]:
            yield f"{name} has {size} bytes instead of {files[name]['size']}"
        elif sha256(path / name) != files[name]["sha256"]:
            yield f"{name} is damaged"


def read_verified(path: Path, name: str, files: dict[str, Any]) -> bytes:
    """The content of a file, read and verified in one read, so that a later change of the file has no effect."""
    try:
        content = (path / name).read_bytes()
    except OSError as error:
        raise UserError(f"{name} cannot be read ({error.strerror}).", location=str(path)) from None
    if hashlib.sha256(content).hexdigest() != files[name]["sha256"]:
        raise UserError(f"{name} changed after it was checked.", location=str(path))
    return content


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder in the same parent folder; it is renamed to `folder` when everything is written.

    An existing folder is never overwritten.
    """
    if folder.exists() or folder.is_symlink():
        raise UserError(
            "This exists already.", location=str(folder), hint="Name another folder with --out, or remove this one."
        )
    temporary = temporary_path(folder)
    try:
        temporary.mkdir(parents=True)
    except OSError as error:
        message = f"This folder cannot be written ({error.strerror})."
        raise UserError(message, location=str(folder), hint="Name another folder with --out.") from None
    try:
        yield temporary
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    sync_folder(folder.parent)
