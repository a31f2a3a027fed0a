"""Files out of a zip or tar archive, without trusting the archive.

An archive can name files outside the folder it is unpacked in, and a small one can unpack to more than a
disk holds. So archives are never unpacked as a whole: members with known names are read, up to a limit, into memory or
into a file whose name we choose.
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
"""The most bytes of one file in a tar archive (16 MiB)."""


@contextmanager
def extracted_member(archive: Path, member: str, limit: int) -> Iterator[Path]:
    """The member as a file in a temporary folder, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="seq2see-") as folder:
        path = Path(folder) / Path(member).name
        with path.open("wb") as file:
            for chunk in member_chunks(archive, member, limit):
                file.write(chunk)
        try:
            yield path
        except UserError as error:  # the user knows the archive, not our temporary file
            location = error.location.replace(str(path), f"{archive}/{member}")
            raise UserError(error.what, location=location, hint=error.hint) from None


def member_chunks(archive: Path, member: str, limit: int) -> Iterator[bytes]:
    """The content of one member, piece by piece, at most `limit` bytes."""
    read = 0
    try:
        with zipfile.ZipFile(archive) as opened:
            if opened.namelist().count(member) != 1:
                raise UserError(f"There must be exactly one '{member}' in this archive.", location=str(archive))
            with opened.open(member) as file:
                while chunk := file.read(CHUNK_SIZE):
                    read += len(chunk)
                    if read > limit:
                        what = f"'{member}' unpacks to more than {limit:,} bytes."
                        raise UserError(what, location=str(archive))
                    yield chunk
    # A damaged archive fails in many ways: bad checksum, unknown method, encrypted, cut off.
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise UserError(
            f"This zip archive cannot be read: {error or 'it is cut off'}.",
            location=str(archive),
            hint="Delete it and fetch it again.",
        ) from None


def read_tar_members(archive: Path, names: Collection[str]) -> dict[str, bytes]:
    """The content of plain files of these names in an unpacked tar archive; nothing is written anywhere."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(archive, "r:") as opened:
            for member in opened:
                if member.name in names and member.isreg():
                    if member.size > MAX_MEMBER_BYTES:
                        what = f"'{member.name}' has {member.size:,} bytes, more than {MAX_MEMBER_BYTES:,}."
                        raise UserError(what, location=str(archive))
                    file = opened.extractfile(member)
                    assert file is not None  # it is a plain file
                    found[member.name] = file.read()
    except (tarfile.TarError, EOFError, OSError) as error:
        hint = "Delete it and fetch it again."
        raise UserError(f"This tar archive cannot be read: {error}.", location=str(archive), hint=hint) from None
    return found
