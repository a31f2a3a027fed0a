"""Connections that are opened and left, or on which a request comes byte by byte: they keep nobody else out."""

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

from seq2see.explorer import connections, routes
from seq2see.explorer.routes import Route
from seq2see.explorer.schemas import RunRequest
from seq2see.explorer.security import SECURITY_HEADERS, Credentials
from seq2see.explorer.server import Server, bind_socket, serve_in_thread


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


def lines(keys: Credentials, first: str, *more: str) -> bytes:
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
    monkeypatch.setattr(connections, "HEADER_TIMEOUT", 0.3)
    with serve_in_thread(workspace()) as keys, connected(keys.port) as connection:
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
    monkeypatch.setattr(connections, "HEADER_TIMEOUT", 0.3)
    with (
        serve_in_thread(workspace()) as keys,
        connected(keys.port, lines(keys, first, more).rstrip() + end) as connection,
    ):
        assert well(keys.port)
        assert drip(connection)


def test_who_is_being_answered_is_not_cut_off(monkeypatch):
    monkeypatch.setattr(connections, "HEADER_TIMEOUT", 0.5)

    def slow(workspace, asked: RunRequest) -> dict:
        time.sleep(0.8)
        return {"long": "x" * 32_000_000}

    monkeypatch.setitem(routes.ROUTES, "slow", Route(RunRequest, slow))
    with serve_in_thread(workspace()) as keys:
        asked = lines(keys, "POST /api/slow", "Content-Length: 12", "Connection: close") + b'{"run":"r1"}'
        with connected(keys.port, asked) as connection:
            first = connection.recv(100)
            for _ in range(50):  # it reads slowly, but it reads
                time.sleep(0.02)
                first += connection.recv(600_000)
            assert first.startswith(b"HTTP/1.1 200")
            assert len(first) + len(heard(connection)) > 32_000_000


def test_who_stops_reading_is_cut_off(monkeypatch):
    monkeypatch.setattr(connections, "HEADER_TIMEOUT", 0.2)
    monkeypatch.setitem(routes.ROUTES, "much", Route(RunRequest, lambda workspace, asked: {"long": "x" * 16_000_000}))
    with serve_in_thread(workspace()) as keys:
        asked = lines(keys, "POST /api/much", "Content-Length: 12") + b'{"run":"r1"}'
        with connected(keys.port, asked) as connection:
            time.sleep(1.5)
            assert len(heard(connection)) < 16_000_000


def test_one_too_many_closes_the_one_that_has_waited_longest(monkeypatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 5)
    with serve_in_thread(workspace()) as keys, contextlib.ExitStack() as stack:
        opened = [stack.enter_context(connected(keys.port)) for _ in range(5)]
        time.sleep(0.1)
        assert all(well(keys.port) for _ in range(3))
        assert heard(opened[0]) == b""
        opened[4].sendall(lines(keys, "GET /", "Connection: close"))
        assert heard(opened[4]).startswith(b"HTTP/1.1 200")


def test_who_is_being_answered_keeps_its_place_when_others_come(monkeypatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 2)
    gate = threading.Event()
    monkeypatch.setitem(routes.ROUTES, "slow", Route(RunRequest, lambda workspace, asked: {"waited": gate.wait(10)}))
    with serve_in_thread(workspace()) as keys:
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
    with serve_in_thread(workspace()) as keys:
        with connected(keys.port, content.replace(b"{port}", str(keys.port).encode())) as connection:
            head, _, body = heard(connection).partition(b"\r\n\r\n")
        assert well(keys.port)
    assert head.startswith(b"HTTP/1.1 400")
    told = dict(re.findall(r"^([\w-]+): (.*)$", head.decode().replace("\r", ""), re.MULTILINE))
    assert {**SECURITY_HEADERS, "connection": "close"}.items() <= {name.lower(): told[name] for name in told}.items()
    assert b'"what"' in body
    assert capfd.readouterr().err == ""


class Clock:
    """A loop in which time passes when it is told to."""

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


CONFIG = uvicorn.Config(lambda *_: None, http=connections.Connection, lifespan="off", timeout_keep_alive=1000)
CONFIG.load()


def made(clock: Clock, state: ServerState, at: float) -> connections.Connection:
    """A connection that is opened at some time."""
    clock.until(at)
    found = connections.Connection(CONFIG, state, {}, _loop=clock)
    transport = Mock(**{"is_closing.return_value": False, "get_write_buffer_size.return_value": 0})
    found.connection_made(transport)
    return found


def answered(connection: connections.Connection, at: float) -> None:
    """A request of it is answered at some time."""
    connection.loop.until(at)
    connection.cycle = Mock(response_complete=True, more_body=False)
    connection.on_response_complete()


def test_the_next_request_gets_as_much_time_as_the_first():
    clock, state = Clock(), ServerState()
    one, other = made(clock, state, 0), made(clock, state, 0)
    answered(one, 25)
    clock.until(31)
    assert (one.transport.abort.called, other.transport.abort.called) == (False, True)
    clock.until(56)
    assert one.transport.abort.called


def test_of_those_that_wait_the_one_goes_that_has_waited_longest(monkeypatch):
    """Since its last answer, if it had one; who is being answered does not wait."""
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 3)
    clock, state = Clock(), ServerState()
    asked, busy, silent = made(clock, state, 0), made(clock, state, 1), made(clock, state, 10)
    busy.cycle = Mock(response_complete=False, more_body=False)
    answered(asked, 20)
    made(clock, state, 21)
    assert [each.transport.abort.called for each in (asked, busy, silent)] == [False, False, True]
    state.connections.discard(silent)
    made(clock, state, 22)
    assert [each.transport.abort.called for each in (asked, busy)] == [True, False]


@pytest.mark.parametrize(
    ("more", "truncated"), [(True, True), (False, False)], ids=["half a question", "being answered"]
)
def test_who_stops_finishes_what_is_being_answered(more, cut):
    connection = made(Clock(), ServerState(), 0)
    connection.cycle = Mock(response_complete=False, more_body=more)
    connection.shutdown()
    assert connection.transport.abort.called == cut


@pytest.mark.parametrize(("state", "told"), [(h11.IDLE, True), (h11.SEND_RESPONSE, True), (h11.SEND_BODY, False)])
def test_no_second_answer_is_put_into_one_that_is_under_way(state, told):
    connection = made(Clock(), ServerState(), 0)
    connection.conn = Mock(our_state=state, **{"send.return_value": b"x"})
    connection.send_400_response("no HTTP")
    assert connection.transport.write.called == told
    assert connection.transport.close.called


def test_nobody_is_waited_for_who_has_gone():
    clock = Clock()
    gone = made(clock, ServerState(), 0)
    gone.connection_lost(None)
    clock.until(31)
    assert not gone.transport.abort.called


def test_half_a_question_does_not_keep_the_server_from_ending():
    sock = bind_socket(0)
    keys = Credentials(sock.getsockname()[1])
    server = Server(workspace(), keys)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    with connected(keys.port, lines(keys, "POST /api/predict", "Content-Length: 100") + b"{"):
        assert well(keys.port)
        begun = time.monotonic()
        server.should_exit = True
        thread.join(10)
    sock.close()
    assert time.monotonic() - begun < 3
