"""Files from a zip or tar archive, without trusting the archive.

An archive can name files outside the folder that it is extracted to, and a small one can expand to more than the
disk holds. So archives are never extracted as a whole: members with given names are read, up to a limit, into memory or
into a temporary file.
"""

from __future__ import annotations

import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from seq2see.core.errors import UserError
from seq2see.sources.compression import CHUNK_SIZE

MAX_MEMBER_BYTES = 1 << 24
"""The largest size of one file in a tar archive (16 MiB)."""


@contextmanager
def extracted_member(archive: Path, member: str, limit: int) -> Iterator[Path]:
    """The member as a file in a temporary folder, which is deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="seq2see-") as folder:
        path = Path(folder) / Path(member).name
        with path.open("wb") as file:
            for chunk in member_chunks(archive, member, limit):
                file.write(chunk)
        try:
            yield path
        except UserError as error:  # report the path of the archive, not of the temporary file
            location = error.location.replace(str(path), f"{archive}/{member}")
            raise UserError(error.message, location=location, hint=error.hint) from None


def member_chunks(archive: Path, member: str, limit: int) -> Iterator[bytes]:
    """The content of one member in chunks, at most `limit` bytes."""
    size = 0
    try:
        with zipfile.ZipFile(archive) as opened:
            if opened.namelist().count(member) != 1:
                raise UserError(f"There must be exactly one '{member}' in this archive.", location=str(archive))
            with opened.open(member) as file:
                while chunk := file.read(CHUNK_SIZE):
                    size += len(chunk)
                    if size > limit:
                        message = f"'{member}' is larger than {limit:,} bytes."
                        raise UserError(message, location=str(archive))
                    yield chunk
    # A damaged archive raises many types: bad checksum, unknown method, encrypted, truncated.
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise UserError(
            f"This zip archive cannot be read: {error or 'it is truncated'}.",
            location=str(archive),
            hint="Delete it and download it again.",
        ) from None


def read_tar_members(archive: Path, names: Collection[str]) -> dict[str, bytes]:
    """The content of the regular files with these names in an uncompressed tar archive; nothing is written to disk."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(archive, "r:") as opened:
            for member in opened:
                if member.name in names and member.isreg():
                    if member.size > MAX_MEMBER_BYTES:
                        message = f"'{member.name}' has {member.size:,} bytes, more than {MAX_MEMBER_BYTES:,}."
                        raise UserError(message, location=str(archive))
                    file = opened.extractfile(member)
                    assert file is not None  # it is a regular file
                    found[member.name] = file.read()
    except (tarfile.TarError, EOFError, OSError) as error:
        hint = "Delete it and download it again."
        raise UserError(f"This tar archive cannot be read: {error}.", location=str(archive), hint=hint) from None
    return found
