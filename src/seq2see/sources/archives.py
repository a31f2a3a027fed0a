"""One file out of a zip archive, without trusting the archive.

An archive can name files outside the folder it is unpacked in, and a small one can unpack to more than a
disk holds. So archives are never unpacked as a whole: one member with a known name is read, up to a limit,
into a file whose name we choose.
"""

from __future__ import annotations

import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seq2see.core.errors import UserError
from seq2see.sources.compression import PIECE


@contextmanager
def unpacked(archive: Path, member: str, limit: int) -> Iterator[Path]:
    """The member as a file in a temporary folder, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="seq2see-") as folder:
        path = Path(folder) / Path(member).name
        with path.open("wb") as file:
            for piece in member_pieces(archive, member, limit):
                file.write(piece)
        try:
            yield path
        except UserError as error:  # the user knows the archive, not our temporary file
            where = error.where.replace(str(path), f"{archive}/{member}")
            raise UserError(error.what, where=where, remedy=error.remedy) from None


def member_pieces(archive: Path, member: str, limit: int) -> Iterator[bytes]:
    """The content of one member, piece by piece, at most `limit` bytes."""
    read = 0
    try:
        with zipfile.ZipFile(archive) as opened:
            if opened.namelist().count(member) != 1:
                raise UserError(f"There must be exactly one '{member}' in this archive.", where=str(archive))
            with opened.open(member) as file:
                while piece := file.read(PIECE):
                    read += len(piece)
                    if read > limit:
                        what = f"'{member}' unpacks to more than {limit:,} bytes."
                        raise UserError(what, where=str(archive))
                    yield piece
    # A damaged archive fails in many ways: bad checksum, unknown method, encrypted, cut off.
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise UserError(
            f"This zip archive cannot be read: {error or 'it is cut off'}.",
            where=str(archive),
            remedy="Delete it and fetch it again.",
        ) from None
