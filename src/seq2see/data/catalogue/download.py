"""Downloading one file from its public home, completely and verified or not at all; and reading files from archives.

The bytes are written to a `.part` file; if the connection is lost, the file remains, and the next attempt continues
after its last byte. Only a complete file with the expected SHA-256 is renamed to the final name.

Zip and tar archives are not trusted. An archive can name files outside the folder that it is extracted to, and a small
one can expand to more than the disk holds. So archives are never extracted as a whole: members with given names are
read, up to a limit, into memory or into a temporary file.
"""

from __future__ import annotations

import json
import lzma
import sys
import tarfile
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from email.message import Message
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO, Any

from seq2see.core.errors import UserError
from seq2see.core.files import sha256, sync_folder, write_json
from seq2see.data.readers.lines import CHUNK_SIZE

MAX_ATTEMPTS = 3
"""The number of connections before the download fails; each continues where the previous one stopped."""
TIMEOUT = 30
"""Seconds without a byte after which a connection counts as lost."""
DOWNLOAD_BYTES = 1 << 16


@dataclass(frozen=True)
class Download:
    """One file to download: its URL, its path, its largest size and its hash."""

    url: str
    path: Path
    limit: int
    """The largest size in bytes; a larger file is an error."""
    expected: str = ""
    """The expected SHA-256; empty if the home updates the file from time to time."""
    digest: Callable[[Path], str] = sha256
    """Computes the hash to compare with `expected`: SHA-256 of the file, or of its decompressed content."""
    hint: str = ""
    """The hint of error messages: what to do without a network."""

    @property
    def part(self) -> Path:
        """The path of the incomplete file; it has the suffix of its compression, too."""
        return self.path.with_name(f"{self.path.stem}.part{self.path.suffix}")

    @property
    def version_file(self) -> Path:
        """The path of the JSON file with the version of the file that the part belongs to."""
        return self.path.with_name(f"{self.part.name}.json")


@dataclass(frozen=True)
class _Version:
    """The version of a file, from the headers of the server; parts of equal versions may be concatenated."""

    url: str
    etag: str
    modified: str

    @property
    def has_validator(self) -> bool:
        return bool(self.etag or self.modified)

    def continues(self, other: _Version | None) -> bool:
        """Whether bytes of this version may follow bytes of the other."""
        if other is None:
            return False
        # An ETag takes precedence: mirrors of one home often differ in the modification time only.
        return self.etag == other.etag if self.etag or other.etag else self.modified == other.modified


class _ConnectionLost(Exception):
    """The connection ended early; the part remains and can be continued."""


class _Stale(Exception):
    """The part belongs to another version of the file: it is deleted, and the download starts again."""


def fetch(download: Download) -> None:
    """Download a file, continue if the connection is lost, verify it, and rename it to its final name."""
    require_safe(download.url)
    try:
        download.path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"This folder cannot be created: {error.strerror}."
        raise UserError(message, location=str(download.path.parent), hint=download.hint) from None
    reason = ""
    for _ in range(MAX_ATTEMPTS):
        try:
            _continue(download)
            _accept(download)
            return
        except _Stale:
            _delete_part(download)
        except _ConnectionLost as error:
            reason = str(error)
        except urllib.error.HTTPError as error:
            message = f"The download of {download.url} failed: {error.code} {error.reason}."
            raise UserError(message, hint=download.hint) from None
        except urllib.error.URLError as error:
            message = f"{urllib.parse.urlsplit(download.url).hostname} cannot be reached ({error.reason})."
            raise UserError(message, hint=download.hint) from None
    raise UserError(
        f"The download of {download.url} failed {MAX_ATTEMPTS} times ({reason or 'the file changed each time'}).",
        hint=f"Try again: it continues where it stopped. {download.hint}".strip(),
    )


def require_safe(url: str) -> None:
    """Raise an error for a URL without HTTPS; plain HTTP is allowed for 127.0.0.1 only."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname == "127.0.0.1"):
        raise UserError(f"{url} is not an https URL, so nothing is downloaded from it.")


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Redirects from HTTPS to plain HTTP are an error."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        require_safe(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _continue(download: Download) -> None:
    """Download the bytes that the part does not contain yet."""
    offset = _resume_offset(download)
    headers = {"User-Agent": "seq2see"} | ({"Range": f"bytes={offset}-"} if offset else {})
    request = urllib.request.Request(download.url, headers=headers)
    try:
        with urllib.request.build_opener(_SafeRedirects()).open(request, timeout=TIMEOUT) as response:
            _receive(download, response, offset)
    except urllib.error.HTTPError as error:
        if error.code == 416 and offset:  # the part is not the beginning of the server's current file
            raise _Stale from None
        raise
    except urllib.error.URLError as error:
        if offset and isinstance(error.reason, (ConnectionError, TimeoutError)):
            raise _ConnectionLost(str(error.reason)) from None
        raise
    except (OSError, HTTPException) as error:
        raise _ConnectionLost(str(error) or type(error).__name__) from None


def _receive(download: Download, response: HTTPResponse, offset: int) -> None:
    version = _version(download.url, response.headers)
    start, total = _extent(response, offset)
    if start and not version.continues(_read_version(download)):
        raise _Stale
    if start == 0:  # a new file, or a server without support of Range, which sends the whole file again
        write_json(download.version_file, asdict(version))
    if total is not None and total > download.limit:
        _raise_too_large(download, total)
    received = start
    with (
        download.part.open("r+b" if start else "wb") as file,
        _progress(download.path.name, total, start) as advance,
    ):
        file.seek(start)
        while chunk := response.read(DOWNLOAD_BYTES):
            received += len(chunk)
            if received > download.limit:
                _raise_too_large(download, received)
            file.write(chunk)
            advance(len(chunk))
    if total is not None and received < total:
        raise _ConnectionLost(f"received {received:,} of {total:,} bytes")


def _extent(response: HTTPResponse, offset: int) -> tuple[int, int | None]:
    """The offset of the response in the file, and the size of the file, if the server sends it."""
    if response.status == 206:
        # "bytes 100-199/200"; a response with another offset cannot be appended.
        span, _, size = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("/")
        if span.split("-")[0] != str(offset):
            raise _Stale
        return offset, int(size) if size.isdigit() else None
    length = response.headers.get("Content-Length", "")
    return 0, int(length) if length.isdigit() else None


def _resume_offset(download: Download) -> int:
    """The number of bytes of the part that can be kept; 0 if a wrong continuation would not be detected."""
    version = _read_version(download)
    if not download.part.exists() or version is None or version.url != download.url:
        return 0
    return download.part.stat().st_size if version.has_validator or download.expected else 0


def _version(url: str, headers: Message) -> _Version:
    return _Version(url, headers.get("ETag") or "", headers.get("Last-Modified") or "")


def _read_version(download: Download) -> _Version | None:
    try:
        return _Version(**json.loads(download.version_file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None  # the file is missing or truncated: start again


def _accept(download: Download) -> None:
    """Rename a complete part to its final name, after comparing its hash with the expected one."""
    if download.expected:
        try:
            digest = download.digest(download.part)
        except UserError:
            digest = f"{sha256(download.part)} (of a file that cannot be decompressed)"
        if digest != download.expected:
            _delete_part(download)
            raise UserError(
                f"{download.url} sent another file: expected SHA-256 {download.expected}, got {digest}.",
                hint=f"The file was deleted. {download.hint}".strip(),
            )
    download.part.replace(download.path)
    download.version_file.unlink(missing_ok=True)
    sync_folder(download.path.parent)


def _raise_too_large(download: Download, size: int) -> None:
    _delete_part(download)
    raise UserError(
        f"{download.url} has {size:,} bytes or more; at most {download.limit:,} were expected.",
        hint=download.hint,
    )


def _delete_part(download: Download) -> None:
    download.part.unlink(missing_ok=True)
    download.version_file.unlink(missing_ok=True)


@contextmanager
def _progress(name: str, total: int | None, start: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal; nothing in a log file."""
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console  # imported here, because most calls download nothing
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=total, completed=start)
        yield lambda count: bar.advance(task, count)


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


def read_tar_members(archive: Path, names: Collection[str] | None = None) -> dict[str, bytes]:
    """The content of the regular files with these names (by default of all) in a tar archive, plain, .gz or .xz.

    Nothing is written to disk.
    """
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(archive, {".xz": "r:xz", ".gz": "r:gz"}.get(archive.suffix, "r:")) as opened:  # type: ignore[call-overload]
            for member in opened:
                if (names is None or member.name in names) and member.isreg():
                    if member.size > MAX_MEMBER_BYTES:
                        message = f"'{member.name}' has {member.size:,} bytes, more than {MAX_MEMBER_BYTES:,}."
                        raise UserError(message, location=str(archive))
                    file = opened.extractfile(member)
                    assert file is not None  # it is a regular file
                    found[member.name] = file.read()
    except (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError) as error:
        hint = "Delete it and download it again."
        raise UserError(f"This tar archive cannot be read: {error}.", location=str(archive), hint=hint) from None
    return found
