"""Downloads from a local server that fails in all known ways."""

from __future__ import annotations

import functools
import gzip
import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from seq2see.core.errors import UserError
from seq2see.data.catalogue import download
from seq2see.data.catalogue.corpus_files import content_sha256
from seq2see.data.catalogue.download import Download, fetch

CONTENT = bytes(range(251)) * 1009  # larger than one chunk, so that half of it is several chunks


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass
class Home:
    """The behavior of the server, and the requests that it received."""

    content: bytes = CONTENT
    etag: str = '"one"'
    breaks: list[int] = field(default_factory=list)
    """For each response in turn the number of bytes after which the connection breaks."""
    supports_range: bool = True
    wrong_offset: int = 0
    """The number of bytes that a response to a Range starts too late."""
    sends_length: bool = True
    status: int = 200
    location: str = ""
    ranges: list[str] = field(default_factory=list)
    """The Range of each request, empty if it had none."""
    url: str = ""


class Handler(http.server.BaseHTTPRequestHandler):
    def __init__(self, home: Home, *arguments):
        self.home = home
        super().__init__(*arguments)

    def do_GET(self):
        home, item = self.home, self.headers.get("Range", "")
        home.ranges.append(item)
        start = int(item.removeprefix("bytes=").rstrip("-")) if item and home.supports_range else 0
        start += home.wrong_offset if start else 0
        status = home.status if home.status != 200 or not start else 206
        if start >= len(home.content):
            status = 416
        self.send_response(status)
        if home.location:
            self.send_header("Location", home.location)
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{len(home.content) - 1}/{len(home.content)}")
        if home.etag:
            self.send_header("ETag", home.etag)
        body = home.content[start:] if status in (200, 206) else b""
        if home.sends_length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: home.breaks.pop(0)] if home.breaks else body)

    def log_message(self, *arguments):
        """Tests are quiet."""


@pytest.fixture
def home(monkeypatch) -> Iterator[Home]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    home = Home()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, home))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    home.url = f"http://127.0.0.1:{server.server_address[1]}/corpus.bin"
    yield home
    server.shutdown()
    server.server_close()
    thread.join()


def item(home: Home, folder: Path, **changes) -> Download:
    settings = {"limit": 10**6, "expected": sha(CONTENT), "hint": "Put it there by hand."} | changes
    return Download(home.url, folder / "deep" / "corpus.bin", **settings)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "deep").iterdir())


def test_a_whole_file_is_downloaded_and_no_other_file_remains(home, tmp_path):
    fetch(item(home, tmp_path))
    assert (tmp_path / "deep" / "corpus.bin").read_bytes() == CONTENT
    assert names(tmp_path) == ["corpus.bin"]
    assert home.ranges == [""]


def test_a_broken_connection_is_continued_after_the_last_byte(home, tmp_path):
    home.breaks = [100_000, 50_000]
    fetch(item(home, tmp_path))
    assert (tmp_path / "deep" / "corpus.bin").read_bytes() == CONTENT
    assert home.ranges == ["", "bytes=100000-", "bytes=150000-"]


def test_a_download_that_failed_too_often_is_continued_by_the_next_call(home, tmp_path):
    home.breaks = [1000, 100, 10]
    with pytest.raises(UserError, match=r"failed 3 times .*received 1,110 of 253,259 bytes.*continues"):
        fetch(item(home, tmp_path))
    assert names(tmp_path) == ["corpus.part.bin", "corpus.part.bin.json"]
    fetch(item(home, tmp_path))
    assert home.ranges[-1] == "bytes=1110-"
    assert names(tmp_path) == ["corpus.bin"]


def test_a_server_that_ignores_range_makes_us_start_again(home, tmp_path):
    home.breaks, home.supports_range = [100_000], False
    fetch(item(home, tmp_path))
    assert (tmp_path / "deep" / "corpus.bin").read_bytes() == CONTENT
    assert home.ranges == ["", "bytes=100000-"]


def test_an_answer_that_starts_elsewhere_is_not_appended(home, tmp_path):
    home.breaks, home.wrong_offset = [100_000], 7
    fetch(item(home, tmp_path))
    assert (tmp_path / "deep" / "corpus.bin").read_bytes() == CONTENT
    assert home.ranges == ["", "bytes=100000-", ""]


def test_a_version_that_the_server_no_longer_sends_is_not_continued(home, tmp_path):
    home.content, home.breaks = b"x" * 5000, [1000, 0, 0]
    with pytest.raises(UserError):
        fetch(item(home, tmp_path, expected=""))
    home.content, home.etag, home.breaks = CONTENT, "", []
    fetch(item(home, tmp_path, expected=""))
    assert (tmp_path / "deep" / "corpus.bin").read_bytes() == CONTENT


def test_a_file_that_changed_in_between_is_fetched_from_the_start(home, tmp_path):
    home.content, home.breaks = b"x" * 5000, [1000, 0, 0]
    with pytest.raises(UserError):
        fetch(item(home, tmp_path, expected=""))
    home.content, home.etag, home.breaks = CONTENT, '"two"', []
    fetch(item(home, tmp_path, expected=""))
    assert (tmp_path / "deep" / "corpus.bin").read_bytes() == CONTENT
    assert home.ranges[-2:] == ["bytes=1000-", ""]


def test_a_part_longer_than_the_file_is_thrown_away(home, tmp_path):
    request = item(home, tmp_path)
    request.part.parent.mkdir()
    request.part.write_bytes(CONTENT + b"more")
    request.version_file.write_text(json.dumps({"url": home.url, "etag": '"one"', "modified": ""}))
    fetch(request)
    assert request.path.read_bytes() == CONTENT
    assert home.ranges == [f"bytes={len(CONTENT) + 4}-", ""]


@pytest.mark.parametrize("note", ["", "{", '{"url": "elsewhere", "etag": "", "modified": ""}', "[1]"])
def test_a_part_of_unknown_origin_is_not_continued(home, tmp_path, note):
    request = item(home, tmp_path)
    request.part.parent.mkdir()
    request.part.write_bytes(b"rubbish")
    request.version_file.write_text(note)
    fetch(request)
    assert request.path.read_bytes() == CONTENT
    assert home.ranges == [""]


def test_without_hash_and_version_nothing_is_continued(home, tmp_path):
    home.etag, home.breaks = "", [1000]
    fetch(item(home, tmp_path, expected=""))
    assert (tmp_path / "deep" / "corpus.bin").read_bytes() == CONTENT
    assert home.ranges == ["", ""]


def test_wrong_bytes_name_both_hashes_and_get_no_name(home, tmp_path):
    home.content = b"something else"
    with pytest.raises(UserError) as caught:
        fetch(item(home, tmp_path))
    assert sha(CONTENT) in str(caught.value)
    assert sha(b"something else") in str(caught.value)
    assert names(tmp_path) == []


def test_a_page_of_html_where_a_gz_should_be_is_refused_too(home, tmp_path):
    home.content = b"<html>please log in</html>"
    request = Download(home.url, tmp_path / "a.txt.gz", 10**6, sha(b"text"), content_sha256)
    with pytest.raises(UserError, match="sent another file"):
        fetch(request)
    assert list(tmp_path.iterdir()) == []
    home.content = gzip.compress(b"text")
    fetch(request)
    assert request.path.exists()


@pytest.mark.parametrize("sends_length", [True, False])
def test_a_file_larger_than_its_limit_is_refused(home, tmp_path, sends_length):
    home.sends_length = sends_length
    with pytest.raises(UserError, match="at most 100,000 were expected"):
        fetch(item(home, tmp_path, limit=100_000))
    assert names(tmp_path) == []


def test_the_error_for_a_missing_file_has_the_status_and_a_hint(home, tmp_path):
    home.status = 404
    with pytest.raises(UserError, match=r"failed: 404 Not Found. Put it there by hand"):
        fetch(item(home, tmp_path))


def test_without_a_network_the_error_has_a_hint(home, tmp_path):
    home.url = "http://127.0.0.1:1/corpus.bin"
    with pytest.raises(UserError, match=r"127.0.0.1 cannot be reached .*refused.* Put it there by hand"):
        fetch(item(home, tmp_path))


def test_only_https_is_fetched_also_behind_a_redirect(home, tmp_path):
    with pytest.raises(UserError, match="not an https URL"):
        fetch(Download("http://example.org/a", tmp_path / "a", 10))
    with pytest.raises(UserError, match="not an https URL"):
        fetch(Download("file:///etc/hostname", tmp_path / "a", 10))
    home.status, home.location = 302, "http://example.org/a"
    with pytest.raises(UserError, match=r"http://example.org/a is not an https URL"):
        fetch(item(home, tmp_path))


def test_a_terminal_sees_a_bar(home, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(download.sys.stderr, "isatty", lambda: True)
    fetch(item(home, tmp_path))
    assert "corpus.bin" in capsys.readouterr().err


def test_a_folder_that_cannot_be_created_is_an_error(home, tmp_path):
    (tmp_path / "deep").write_text("a file")
    with pytest.raises(UserError, match="folder cannot be created"):
        fetch(item(home, tmp_path))
