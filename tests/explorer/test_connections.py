"""Connections that are opened and left, or on which a request comes byte by byte: they keep nobody else out."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time

import httpx2
import pytest
from benches import bench

from seq2see.explorer import connections, routes
from seq2see.explorer.guard import HEADERS, Keys
from seq2see.explorer.messages import AboutRun
from seq2see.explorer.routes import Route
from seq2see.explorer.server import Server, bound, serving


@contextlib.contextmanager
def connected(port: int, *begun: bytes):
    with socket.create_connection(("127.0.0.1", port), 10) as found:
        found.settimeout(10)
        for each in begun:
            found.sendall(each)
        yield found


def heard(connection: socket.socket) -> bytes:
    """All that is said until the connection is closed."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while said := connection.recv(1 << 16):
            found += said
    return found


def lines(keys: Keys, first: str, *more: str) -> bytes:
    """The first lines of a request that knows the token."""
    own = (f"Host: 127.0.0.1:{keys.port}", f"Authorization: Bearer {keys.token}", "Content-Type: application/json")
    return "\r\n".join((f"{first} HTTP/1.1", *own, *more, "", "")).encode()


def well(port: int) -> bool:
    return httpx2.get(f"http://127.0.0.1:{port}/", timeout=5).status_code == 200


def drip(connection: socket.socket, seconds: float = 5) -> bool:
    """Send a letter now and then, until the other side no longer wants any; tells whether it came to that."""
    for _ in range(int(seconds * 50)):
        try:
            connection.sendall(b"x")
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_who_never_asks_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(connections, "SECONDS_TO_BEGIN", 0.3)
    with serving(bench()) as keys, connected(keys.port) as connection:
        assert heard(connection) == b""


@pytest.mark.parametrize(
    ("first", "more", "end"),
    [
        ("GET /", "X-Long: ", b""),
        ("GET /", "Content-Length: 100000", b"\r\n\r\n"),  # answered; but then comes a question that nobody wants
        ("PUT /", "Content-Length: 100000", b"\r\n\r\n"),  # refused; the same
    ],
)
def test_who_never_finishes_a_request_is_not_waited_for(monkeypatch, first, more, end):
    monkeypatch.setattr(connections, "SECONDS_TO_BEGIN", 0.3)
    with serving(bench()) as keys, connected(keys.port, lines(keys, first, more).rstrip() + end) as connection:
        assert well(keys.port)
        assert drip(connection)


def test_who_is_being_answered_is_not_cut_off(monkeypatch):
    monkeypatch.setattr(connections, "SECONDS_TO_BEGIN", 0.5)

    def slow(bench, asked: AboutRun) -> dict:
        time.sleep(0.8)
        return {"long": "x" * 32_000_000}

    monkeypatch.setitem(routes.ROUTES, "slow", Route(AboutRun, slow))
    with serving(bench()) as keys:
        asked = lines(keys, "POST /api/slow", "Content-Length: 12", "Connection: close") + b'{"run":"r1"}'
        with connected(keys.port, asked) as connection:
            first = connection.recv(100)
            for _ in range(50):  # it reads slowly, but it reads
                time.sleep(0.02)
                first += connection.recv(600_000)
            assert first.startswith(b"HTTP/1.1 200")
            assert len(first) + len(heard(connection)) > 32_000_000


def test_who_stops_reading_is_cut_off(monkeypatch):
    monkeypatch.setattr(connections, "SECONDS_TO_BEGIN", 0.2)
    monkeypatch.setitem(routes.ROUTES, "much", Route(AboutRun, lambda bench, asked: {"long": "x" * 16_000_000}))
    with serving(bench()) as keys:
        asked = lines(keys, "POST /api/much", "Content-Length: 12") + b'{"run":"r1"}'
        with connected(keys.port, asked) as connection:
            time.sleep(1.5)
            assert len(heard(connection)) < 16_000_000


def test_one_too_many_closes_the_one_that_has_waited_longest(monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 5)
    with serving(bench()) as keys, contextlib.ExitStack() as stack:
        opened = [stack.enter_context(connected(keys.port)) for _ in range(5)]
        time.sleep(0.1)
        assert all(well(keys.port) for _ in range(3))
        assert heard(opened[0]) == b""
        opened[4].sendall(lines(keys, "GET /", "Connection: close"))
        assert heard(opened[4]).startswith(b"HTTP/1.1 200")


def test_who_is_being_answered_keeps_its_place_when_others_come(monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 2)
    gate = threading.Event()
    monkeypatch.setitem(routes.ROUTES, "slow", Route(AboutRun, lambda bench, asked: {"waited": gate.wait(10)}))
    with serving(bench()) as keys:
        asked = lines(keys, "POST /api/slow", "Content-Length: 12", "Connection: close") + b'{"run":"r1"}'
        with connected(keys.port, asked) as answered:
            time.sleep(0.1)
            with connected(keys.port), connected(keys.port):  # three are too many, and this one has waited longest
                assert well(keys.port)
            gate.set()
            assert b'"waited": true' in heard(answered)


@pytest.mark.parametrize(
    "content",
    [
        b"\0" * 100 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20_000,
        b"POST /api/enter HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\n"
        b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["rubbish", "no host", "long", "chunks"],
)
def test_what_is_no_http_is_refused_like_everything_else(content, capfd):
    with serving(bench()) as keys:
        with connected(keys.port, content.replace(b"{port}", str(keys.port).encode())) as connection:
            head, _, body = heard(connection).partition(b"\r\n\r\n")
        assert well(keys.port)
    assert head.startswith(b"HTTP/1.1 400")
    told = dict(re.findall(r"^([\w-]+): (.*)$", head.decode().replace("\r", ""), re.MULTILINE))
    assert HEADERS.items() <= {name.lower(): value for name, value in told.items()}.items()
    assert b'"what"' in body
    assert capfd.readouterr().err == ""


def test_half_a_question_does_not_keep_the_server_from_ending():
    sock = bound(0)
    keys = Keys(sock.getsockname()[1])
    server = Server(bench(), keys)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    with connected(keys.port, lines(keys, "POST /api/predict", "Content-Length: 100") + b"{"):
        assert well(keys.port)
        begun = time.monotonic()
        server.should_exit = True
        thread.join(10)
    sock.close()
    assert time.monotonic() - begun < 3
