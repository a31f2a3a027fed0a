"""Idle server, and requests that arrive byte by byte: they do not block other clients."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from unittest.mock import Mock

import h11
import httpx2
import pytest
import uvicorn
from tiny_workspace import workspace
from uvicorn.server import ServerState

from seq2see.explorer import routes, server
from seq2see.explorer.routes import Route
from seq2see.explorer.schemas import RunRequest
from seq2see.explorer.security import SECURITY_HEADERS, Credentials
from seq2see.explorer.server import Server, bind_socket, serve_in_thread


@contextlib.contextmanager
def connected(port: int, *parts: bytes):
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.settimeout(10)
        for each in parts:
            connection.sendall(each)
        yield connection


def receive_all(connection: socket.socket) -> bytes:
    """Everything that is received until the connection is closed."""
    content = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := connection.recv(1 << 16):
            content += chunk
    return content


def request_head(credentials: Credentials, first: str, *more: str) -> bytes:
    """The headers of a request with the token."""
    headers = (
        f"Host: 127.0.0.1:{credentials.port}",
        f"Authorization: Bearer {credentials.token}",
        "Content-Type: application/json",
    )
    return "\r\n".join((f"{first} HTTP/1.1", *headers, *more, "", "")).encode()


def is_serving(port: int) -> bool:
    return httpx2.get(f"http://127.0.0.1:{port}/", timeout=5).status_code == 200


def drip(connection: socket.socket, seconds: float = 5) -> bool:
    """Send single bytes until the other side closes the connection; returns whether it does."""
    for _ in range(int(seconds * 50)):
        try:
            connection.sendall(b"x")
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_an_idle_connection_is_closed(monkeypatch):
    monkeypatch.setattr(server, "HEADER_TIMEOUT", 0.3)
    with serve_in_thread(workspace()) as credentials, connected(credentials.port) as connection:
        assert receive_all(connection) == b""


@pytest.mark.parametrize(
    ("first", "more", "end"),
    [
        ("GET /", "X-Long: ", b""),
        ("GET /", "Content-Length: 100000", b"\r\n\r\n"),  # responded to; but the announced body never arrives
        ("PUT /", "Content-Length: 100000", b"\r\n\r\n"),  # rejected; the same
    ],
)
def test_an_incomplete_request_is_closed(monkeypatch, first, more, end):
    monkeypatch.setattr(server, "HEADER_TIMEOUT", 0.3)
    with (
        serve_in_thread(workspace()) as credentials,
        connected(credentials.port, request_head(credentials, first, more).rstrip() + end) as connection,
    ):
        assert is_serving(credentials.port)
        assert drip(connection)


def test_a_slow_response_is_not_interrupted(monkeypatch):
    monkeypatch.setattr(server, "HEADER_TIMEOUT", 0.5)

    def slow(workspace, request: RunRequest) -> dict:
        time.sleep(0.8)
        return {"long": "x" * 32_000_000}

    monkeypatch.setitem(routes.ROUTES, "slow", Route(RunRequest, slow))
    with serve_in_thread(workspace()) as credentials:
        request = (
            request_head(credentials, "POST /api/slow", "Content-Length: 12", "Connection: close") + b'{"run":"r1"}'
        )
        with connected(credentials.port, request) as connection:
            first = connection.recv(100)
            for _ in range(50):  # the client receives slowly, but makes progress
                time.sleep(0.02)
                first += connection.recv(600_000)
            assert first.startswith(b"HTTP/1.1 200")
            assert len(first) + len(receive_all(connection)) > 32_000_000


def test_a_client_that_stops_receiving_is_disconnected(monkeypatch):
    monkeypatch.setattr(server, "HEADER_TIMEOUT", 0.2)
    monkeypatch.setitem(
        routes.ROUTES, "large", Route(RunRequest, lambda workspace, request: {"long": "x" * 16_000_000})
    )
    with serve_in_thread(workspace()) as credentials:
        request = request_head(credentials, "POST /api/large", "Content-Length: 12") + b'{"run":"r1"}'
        with connected(credentials.port, request) as connection:
            time.sleep(1.5)
            assert len(receive_all(connection)) < 16_000_000


def test_a_connection_above_the_maximum_closes_the_one_that_is_idle_longest(monkeypatch):
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 5)
    with serve_in_thread(workspace()) as credentials, contextlib.ExitStack() as stack:
        opened = [stack.enter_context(connected(credentials.port)) for _ in range(5)]
        time.sleep(0.1)
        assert all(is_serving(credentials.port) for _ in range(3))
        assert receive_all(opened[0]) == b""
        opened[4].sendall(request_head(credentials, "GET /", "Connection: close"))
        assert receive_all(opened[4]).startswith(b"HTTP/1.1 200")


def test_a_connection_with_a_running_request_is_not_closed(monkeypatch):
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 2)
    gate = threading.Event()
    monkeypatch.setitem(routes.ROUTES, "slow", Route(RunRequest, lambda workspace, request: {"waited": gate.wait(10)}))
    with serve_in_thread(workspace()) as credentials:
        request = (
            request_head(credentials, "POST /api/slow", "Content-Length: 12", "Connection: close") + b'{"run":"r1"}'
        )
        with connected(credentials.port, request) as running:
            time.sleep(0.1)
            with (
                connected(credentials.port),
                connected(credentials.port),
            ):  # three are too many, and the first of these two is idle longest
                assert is_serving(credentials.port)
            gate.set()
            assert b'"waited": true' in receive_all(running)


@pytest.mark.parametrize(
    "content",
    [
        b"\0" * 100 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20_000,
        b"POST /api/login HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\n"
        b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["rubbish", "no host", "long", "chunks"],
)
def test_invalid_http_is_rejected_with_the_usual_headers(content, capfd):
    with serve_in_thread(workspace()) as credentials:
        with connected(credentials.port, content.replace(b"{port}", str(credentials.port).encode())) as connection:
            head, _, body = receive_all(connection).partition(b"\r\n\r\n")
        assert is_serving(credentials.port)
    assert head.startswith(b"HTTP/1.1 400")
    headers = dict(re.findall(r"^([\w-]+): (.*)$", head.decode().replace("\r", ""), re.MULTILINE))
    assert {**SECURITY_HEADERS, "connection": "close"}.items() <= {
        name.lower(): value for name, value in headers.items()
    }.items()
    assert b'"message"' in body
    assert capfd.readouterr().err == ""


class Clock:
    """An event loop with a manual clock."""

    def __init__(self):
        self.now, self.timers = 0.0, []

    def time(self) -> float:
        return self.now

    def call_later(self, seconds, call):
        timer = Mock(at=self.now + seconds, call=call, **{"cancelled.return_value": False})
        timer.cancel = lambda: timer.cancelled.configure_mock(return_value=True)
        self.timers.append(timer)
        return timer

    def until(self, now: float) -> None:
        self.now = now
        for timer in [each for each in self.timers if each.at <= now and not each.cancelled()]:
            timer.cancel()
            timer.call()


CONFIG = uvicorn.Config(lambda *_: None, http=server.Connection, lifespan="off", timeout_keep_alive=1000)
CONFIG.load()


def make_connection(clock: Clock, state: ServerState, at: float) -> server.Connection:
    """A connection that is opened at this time."""
    clock.until(at)
    connection = server.Connection(CONFIG, state, {}, _loop=clock)
    transport = Mock(**{"is_closing.return_value": False, "get_write_buffer_size.return_value": 0})
    connection.connection_made(transport)
    return connection


def complete_response(connection: server.Connection, at: float) -> None:
    """Complete a response of the connection at this time."""
    connection.loop.until(at)
    connection.cycle = Mock(response_complete=True, more_body=False)
    connection.on_response_complete()


def test_the_timeout_restarts_after_a_response():
    clock, state = Clock(), ServerState()
    first, second = make_connection(clock, state, 0), make_connection(clock, state, 0)
    complete_response(first, 25)
    clock.until(31)
    assert (first.transport.abort.called, second.transport.abort.called) == (False, True)
    clock.until(56)
    assert first.transport.abort.called


def test_the_connection_that_is_idle_longest_is_closed(monkeypatch):
    """A connection is idle since its last response, and not while a request is running."""
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 3)
    clock, state = Clock(), ServerState()
    used, busy, silent = (
        make_connection(clock, state, 0),
        make_connection(clock, state, 1),
        make_connection(clock, state, 10),
    )
    busy.cycle = Mock(response_complete=False, more_body=False)
    complete_response(used, 20)
    make_connection(clock, state, 21)
    assert [each.transport.abort.called for each in (used, busy, silent)] == [False, False, True]
    state.connections.discard(silent)
    make_connection(clock, state, 22)
    assert [each.transport.abort.called for each in (used, busy)] == [True, False]


@pytest.mark.parametrize(("more_body", "aborted"), [(True, True), (False, False)], ids=["incomplete", "running"])
def test_a_shutdown_aborts_incomplete_requests_only(more_body, aborted):
    connection = make_connection(Clock(), ServerState(), 0)
    connection.cycle = Mock(response_complete=False, more_body=more_body)
    connection.shutdown()
    assert connection.transport.abort.called == aborted


@pytest.mark.parametrize(("state", "sent"), [(h11.IDLE, True), (h11.SEND_RESPONSE, True), (h11.SEND_BODY, False)])
def test_no_error_is_sent_in_the_middle_of_a_response(state, sent):
    connection = make_connection(Clock(), ServerState(), 0)
    connection.conn = Mock(our_state=state, **{"send.return_value": b"x"})
    connection.send_400_response("no HTTP")
    assert connection.transport.write.called == sent
    assert connection.transport.close.called


def test_a_lost_connection_has_no_timeout():
    clock = Clock()
    connection = make_connection(clock, ServerState(), 0)
    connection.connection_lost(None)
    clock.until(31)
    assert not connection.transport.abort.called


def test_an_incomplete_request_does_not_delay_the_shutdown():
    sock = bind_socket(0)
    credentials = Credentials(sock.getsockname()[1])
    server = Server(workspace(), credentials)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    with connected(credentials.port, request_head(credentials, "POST /api/predict", "Content-Length: 100") + b"{"):
        assert is_serving(credentials.port)
        start = time.monotonic()
        server.should_exit = True
        thread.join(10)
    sock.close()
    assert time.monotonic() - start < 3
