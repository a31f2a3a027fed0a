"""Plain, .gz and .xz files, opened by their content and not by their name.

The first bytes of a file (its magic number) identify its compression. If they disagree with the suffix, one of the two
is wrong, and a wrong guess would mean training on garbage: so that is an error.
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
"""The number of bytes that are read at a time; memory does not grow with the size of the file."""

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
    """The path without the suffix of a compression.

    >>> str(without_compression_suffix(Path("train.de.gz")))
    'train.de'
    """
    return path.with_suffix("") if path.suffix.lower() in SUFFIXES else path


def detect_compression(start: bytes) -> str:
    """The compression or archive format of a file with these first bytes; an empty string if there is none.

    >>> detect_compression(b"\\x1f\\x8b\\x08"), detect_compression(b"Hello")
    ('gzip', '')
    """
    return next((name for magic, name in MAGIC_BYTES.items() if start.startswith(magic)), "")


def read_chunks(path: Path) -> Iterator[bytes]:
    """The decompressed content of a file in chunks, none of which is empty."""
    try:
        with path.open("rb") as raw:
            opened = _open_decompressed(path, raw)
            while chunk := opened.read(CHUNK_SIZE):
                yield chunk
    except EOFError:
        raise UserError(
            "The file ends in the middle of its compressed data.",
            location=str(path),
            hint="Copy or download it again.",
        ) from None
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise UserError(
            f"The compressed data are damaged: {error}.", location=str(path), hint="Copy or download it again."
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"The file cannot be read: {reason}.", location=str(path), hint="Check the path.") from None


def _open_decompressed(path: Path, raw: BinaryIO) -> BinaryIO:
    start = raw.read(8)
    raw.seek(0)
    detected = detect_compression(start) or "plain"
    expected = SUFFIXES.get(path.suffix.lower(), "plain")
    if detected != expected and (start or expected != "plain"):
        raise _suffix_mismatch(path, start, detected, expected)
    if detected == "gzip":
        return cast(BinaryIO, gzip.GzipFile(fileobj=raw, mode="rb"))
    if detected == "xz":
        return cast(BinaryIO, lzma.LZMAFile(raw, "rb"))
    return raw


def _suffix_mismatch(path: Path, start: bytes, detected: str, expected: str) -> UserError:
    magic = f"begins with the bytes {start[:6].hex(' ')}" if start else "is empty"
    if expected == "plain":
        message = f"The file {magic}: it is compressed with {detected}, but its name has no such suffix."
    elif detected == "plain":
        message = f"The file has the suffix {path.suffix} but {magic}, which is not {expected}."
    else:
        message = f"The file has the suffix {path.suffix} but {magic}, which is {detected}."
    unsupported = detected not in ("plain", "gzip", "xz")
    hint = "Decompress it first." if unsupported else "Rename the file to match its content."
    return UserError(message, location=str(path), hint=hint)
