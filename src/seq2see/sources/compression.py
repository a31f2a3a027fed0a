"""Plain, .gz and .xz files, opened by what they are rather than by what they are called.

A file's first bytes (its magic) say how it is packed. Where they disagree with the name, one of the two
is wrong, and guessing which would train on rubbish: so that is an error.
"""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from seq2see.core.errors import UserError

CHUNK_SIZE = 1 << 18
"""How many bytes are read at a time, so that the size of a file or of a line never matters."""

MAGIC_BYTES: dict[bytes, str] = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\x00": "xz",
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstandard",
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
}

SUFFIXES: dict[str, str] = {".gz": "gzip", ".xz": "xz"}


def without_compression_suffix(path: Path) -> Path:
    """The path without the suffix that says how the file is packed.

    >>> str(bare_name(Path("train.de.gz")))
    'train.de'
    """
    return path.with_suffix("") if path.suffix.lower() in SUFFIXES else path


def detect_compression(start: bytes) -> str:
    """Which program packed what begins with these bytes; nothing if none did.

    >>> packed_by(b"\\x1f\\x8b\\x08"), packed_by(b"Hello")
    ('gzip', '')
    """
    return next((name for magic, name in MAGIC_BYTES.items() if start.startswith(magic)), "")


def read_chunks(path: Path) -> Iterator[bytes]:
    """The unpacked content of a file, piece by piece; none is empty and memory stays small."""
    try:
        with path.open("rb") as raw:
            opened = _open_decompressed(path, raw)
            while chunk := opened.read(CHUNK_SIZE):
                yield chunk
    except EOFError:
        raise UserError(
            "The file ends in the middle of its packed data.",
            location=str(path),
            hint="Copy or download it again.",
        ) from None
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise UserError(
            f"The packed data are damaged: {error}.", location=str(path), hint="Copy or download it again."
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"The file cannot be read: {reason}.", location=str(path), hint="Check the path.") from None


def _open_decompressed(path: Path, raw: BinaryIO) -> BinaryIO:
    start = raw.read(8)
    raw.seek(0)
    found = detect_compression(start) or "plain"
    promised = SUFFIXES.get(path.suffix.lower(), "plain")
    if found != promised and (start or promised != "plain"):
        raise _suffix_mismatch(path, start, found, promised)
    if found == "gzip":
        return cast(BinaryIO, gzip.GzipFile(fileobj=raw, mode="rb"))
    if found == "xz":
        return cast(BinaryIO, lzma.LZMAFile(raw, "rb"))
    return raw


def _suffix_mismatch(path: Path, start: bytes, found: str, promised: str) -> UserError:
    magic = f"begins with the bytes {start[:6].hex(' ')}" if start else "is empty"
    if promised == "plain":
        what = f"The file {magic}: it is packed by {found}, but its name does not say so."
    elif found == "plain":
        what = f"The file is called {path.suffix} but {magic}, which is not {promised}."
    else:
        what = f"The file is called {path.suffix} but {magic}, which is {found}."
    unpack = found not in ("plain", "gzip", "xz")
    hint = "Unpack it first." if unpack else "Give the file the name that fits its content."
    return UserError(what, location=str(path), hint=hint)
