"""Fetching one file from its public home: all of it, the right one, or nothing.

The bytes go to a `.part` file; a broken connection leaves it there, and the next try continues behind its
last byte. Only a file that is complete and has the expected SHA-256 gets the final name.
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from email.message import Message
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from seq2see.core.errors import UserError
from seq2see.core.files import sha256, sync_folder, write_json

MAX_ATTEMPTS = 3
"""Connections that may break before we give up; each continues where the last one stopped."""
TIMEOUT = 30
"""Seconds without a byte after which a connection counts as broken."""
CHUNK_SIZE = 1 << 16


@dataclass(frozen=True)
class Download:
    """One file to fetch: from where, to where, how large at most, and how to know it is the right one."""

    url: str
    path: Path
    limit: int
    """More bytes than this are refused."""
    expected: str = ""
    """The SHA-256 it must have; empty if its home changes it from time to time."""
    digest: Callable[[Path], str] = sha256
    """What is compared with `expected`: the SHA-256 of the file, or of the text inside it."""
    hint: str = ""
    """What a user without a network can do."""

    @property
    def part(self) -> Path:
        """Where the bytes are collected until all are there; the suffix still says how they are packed."""
        return self.path.with_name(f"{self.path.stem}.part{self.path.suffix}")

    @property
    def note(self) -> Path:
        """What is known about the part: which version of the file it is a part of."""
        return self.path.with_name(f"{self.part.name}.json")


@dataclass(frozen=True)
class _Version:
    """What a server says about which version of a file it sends; equal versions may be joined."""

    url: str
    etag: str
    modified: str

    @property
    def is_known(self) -> bool:
        return bool(self.etag or self.modified)

    def continues(self, other: _Version | None) -> bool:
        """Whether bytes of this version may follow bytes of the other."""
        if other is None:
            return False
        # An ETag decides where there is one: mirrors of one home often differ in the time only.
        return self.etag == other.etag if self.etag or other.etag else self.modified == other.modified


class _ConnectionLost(Exception):
    """The connection ended early; the part is kept and can be continued."""


class _Stale(Exception):
    """The part belongs to another version of the file: it is thrown away and fetched from the start."""


def fetch(download: Download) -> None:
    """Fetch a file, continue it if the connection breaks, verify it, and give it its name."""
    require_safe(download.url)
    try:
        download.path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"This folder cannot be made: {error.strerror}."
        raise UserError(message, location=str(download.path.parent), hint=download.hint) from None
    reason = ""
    for _ in range(MAX_ATTEMPTS):
        try:
            _continue(download)
            _accept(download)
            return
        except _Stale:
            _delete_part(download)
        except _ConnectionLost as broken:
            reason = str(broken)
        except urllib.error.HTTPError as error:
            raise UserError(f"{download.url} answers {error.code} {error.reason}.", hint=download.hint) from None
        except urllib.error.URLError as error:
            message = f"{urllib.parse.urlsplit(download.url).hostname} cannot be reached ({error.reason})."
            raise UserError(message, hint=download.hint) from None
    raise UserError(
        f"The download of {download.url} broke {MAX_ATTEMPTS} times ({reason or 'its file keeps changing'}).",
        hint=f"Try again: it continues where it stopped. {download.hint}".strip(),
    )


def require_safe(url: str) -> None:
    """Only HTTPS; plain HTTP only from this very machine."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname == "127.0.0.1"):
        raise UserError(f"{url} is not an https address, so nothing is fetched from it.")


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect must not lead from HTTPS to somewhere unprotected."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        require_safe(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _continue(download: Download) -> None:
    """Get the bytes that the part does not have yet."""
    have = _resume_offset(download)
    headers = {"User-Agent": "seq2see"} | ({"Range": f"bytes={have}-"} if have else {})
    request = urllib.request.Request(download.url, headers=headers)
    try:
        with urllib.request.build_opener(_SafeRedirects()).open(request, timeout=TIMEOUT) as response:
            _receive(download, response, have)
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # the part is not the beginning of what the server has now
            raise _Stale from None
        raise
    except urllib.error.URLError as error:
        if have and isinstance(error.reason, (ConnectionError, TimeoutError)):
            raise _ConnectionLost(str(error.reason)) from None
        raise
    except (OSError, HTTPException) as error:
        raise _ConnectionLost(str(error) or type(error).__name__) from None


def _receive(download: Download, response: HTTPResponse, have: int) -> None:
    version = _version(download.url, response.headers)
    start, total = _extent(response, have)
    if start and not version.continues(_read_note(download)):
        raise _Stale
    if start == 0:  # a new file, or a server that does not know Range and sends everything again
        write_json(download.note, asdict(version))
    if total is not None and total > download.limit:
        _refuse_size(download, total)
    received = start
    with (
        download.part.open("r+b" if start else "wb") as file,
        _progress(download.path.name, total, start) as advance,
    ):
        file.seek(start)
        while chunk := response.read(CHUNK_SIZE):
            received += len(chunk)
            if received > download.limit:
                _refuse_size(download, received)
            file.write(chunk)
            advance(len(chunk))
    if total is not None and received < total:
        raise _ConnectionLost(f"{received:,} of {total:,} bytes came")


def _extent(response: HTTPResponse, have: int) -> tuple[int, int | None]:
    """Where the answer starts in the file, and how long the file is, if the server says so."""
    if response.status == 206:
        # "bytes 100-199/200"; an answer that starts elsewhere cannot be appended.
        span, _, size = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("/")
        if span.split("-")[0] != str(have):
            raise _Stale
        return have, int(size) if size.isdigit() else None
    length = response.headers.get("Content-Length", "")
    return 0, int(length) if length.isdigit() else None


def _resume_offset(download: Download) -> int:
    """How many bytes of the part can be kept; none if nobody could notice a wrong continuation."""
    noted = _read_note(download)
    if not download.part.exists() or noted is None or noted.url != download.url:
        return 0
    return download.part.stat().st_size if noted.is_known or download.expected else 0


def _version(url: str, headers: Message) -> _Version:
    return _Version(url, headers.get("ETag") or "", headers.get("Last-Modified") or "")


def _read_note(download: Download) -> _Version | None:
    try:
        return _Version(**json.loads(download.note.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None  # no note, or one that a kill cut short: start again


def _accept(download: Download) -> None:
    """Give a complete part its final name, if it is what was expected."""
    if download.expected:
        try:
            found = download.digest(download.part)
        except UserError:
            found = f"{sha256(download.part)} (of a file that cannot be unpacked)"
        if found != download.expected:
            _delete_part(download)
            raise UserError(
                f"{download.url} sent another file: expected SHA-256 {download.expected}, got {found}.",
                hint=f"It was thrown away. {download.hint}".strip(),
            )
    download.part.replace(download.path)
    download.note.unlink(missing_ok=True)
    sync_folder(download.path.parent)


def _refuse_size(download: Download, size: int) -> None:
    _delete_part(download)
    raise UserError(
        f"{download.url} holds {size:,} bytes or more; at most {download.limit:,} were expected.",
        hint=download.hint,
    )


def _delete_part(download: Download) -> None:
    download.part.unlink(missing_ok=True)
    download.note.unlink(missing_ok=True)


@contextmanager
def _progress(name: str, total: int | None, start: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal; nothing in a log file."""
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=total, completed=start)
        yield lambda count: bar.advance(task, count)
