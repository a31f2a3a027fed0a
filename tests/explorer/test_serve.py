"""`seq2see explore` as a process: Ctrl-C once and twice, and a port that is in use."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx2
import pytest
from tiny_workspace import unfinished_run, workspace

from seq2see.cli.app import run
from seq2see.core.errors import UserError
from seq2see.explorer.server import DEFAULT_PORT, bind_socket, serve_in_thread

PROGRAM = """
import sys, time
from seq2see.cli.app import run
from seq2see.explorer import routes
from seq2see.explorer.schemas import RunRequest

def slow(workspace, request: RunRequest) -> dict:
    print("started", flush=True)
    time.sleep(float(sys.argv[2]))
    return {}

routes.ROUTES["slow"] = routes.Route(RunRequest, slow)
sys.exit(run(["explore", sys.argv[1], "--no-browser"]))
"""


class Process:
    """The command in a separate process, with a route that takes some seconds."""

    def __init__(self, folder, seconds: float):
        command = [sys.executable, "-c", PROGRAM, str(folder), str(seconds)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        output = ""
        while not (found := re.search(r"http://127\.0\.0\.1:(\d+)/#token=([\w-]{43})\n", output)):
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read()
            output += line
        self.address, self.token = f"http://127.0.0.1:{found[1]}", found[2]
        self.results: list[int | str] = []
        assert httpx2.get(self.address, timeout=30).status_code == 200  # now it handles signals

    def start_request(self) -> threading.Thread:
        """Send the slow request, and wait until it is running."""
        thread = threading.Thread(target=self._request)
        thread.start()
        while self.process.stdout.readline() != "started\n":
            pass
        return thread

    def _request(self) -> None:
        headers = {"Authorization": f"Bearer {self.token}"}
        try:
            response = httpx2.post(f"{self.address}/api/slow", json={"run": "r1"}, headers=headers, timeout=30)
            self.results.append(response.status_code)
        except httpx2.HTTPError as error:
            self.results.append(type(error).__name__)

    def end(self) -> tuple[int, str]:
        """Its exit code and its error output."""
        _, errors = self.process.communicate(timeout=30)
        return self.process.returncode, errors


@pytest.mark.long
class TestStopping:
    def test_it_exits_without_output(self, tmp_path):
        unfinished_run(tmp_path / "run")
        process = Process(tmp_path / "run", 0)
        process.process.send_signal(signal.SIGINT)
        assert process.end() == (0, "")

    def test_a_running_request_is_completed(self, tmp_path):
        unfinished_run(tmp_path / "run")
        process = Process(tmp_path / "run", 1.5)
        request = process.start_request()
        process.process.send_signal(signal.SIGTERM)
        request.join()
        assert process.results == [200]
        assert process.end() == (0, "")

    def test_a_second_signal_exits_at_once(self, tmp_path):
        unfinished_run(tmp_path / "run")
        process = Process(tmp_path / "run", 60)
        request = process.start_request()
        start = time.monotonic()
        process.process.send_signal(signal.SIGINT)
        assert "Ctrl-C again" in process.process.stdout.readline()
        process.process.send_signal(signal.SIGINT)
        assert process.end() == (130, "")
        request.join()
        assert time.monotonic() - start < 5
        assert process.results in (["RemoteProtocolError"], ["ReadError"])


class TestStarting:
    def test_a_port_in_use_is_an_error(self):
        with bind_socket(0) as used, pytest.raises(UserError, match="--port"):
            bind_socket(used.getsockname()[1])

    def test_another_port_is_chosen_if_the_default_port_is_in_use(self):
        with socket.socket() as first:
            first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                first.bind(("127.0.0.1", DEFAULT_PORT))
                first.listen()
            except OSError:
                pass  # it is in use already
            with bind_socket(None) as second:
                assert second.getsockname()[1] != DEFAULT_PORT

    def test_it_listens_on_localhost_only(self):
        with bind_socket(0) as found:
            assert found.getsockname()[0] == "127.0.0.1"

    def test_a_missing_run_is_an_error_before_the_server_starts(self, tmp_path, capsys):
        assert run(["explore", str(tmp_path / "nothing"), "--no-browser"]) == 2
        assert "There is no run" in capsys.readouterr().err
        assert run(["explore"]) == 2


class TestSlowAndBroken:
    def test_a_slow_request_body_is_rejected(self, monkeypatch):
        monkeypatch.setattr("seq2see.explorer.security.BODY_TIMEOUT", 0.2)
        with (
            serve_in_thread(workspace()) as credentials,
            socket.create_connection(("127.0.0.1", credentials.port), 10) as connection,
        ):
            lines = [
                "POST /api/predict HTTP/1.1",
                f"Host: 127.0.0.1:{credentials.port}",
                f"Authorization: Bearer {credentials.token}",
            ]
            lines += ["Content-Type: application/json", "Content-Length: 100", "", "{"]
            connection.sendall("\r\n".join(lines).encode())
            assert connection.recv(100).startswith(b"HTTP/1.1 408")

    def test_invalid_http_does_not_stop_the_server(self):
        malformed = [
            b"\0" * 100,
            b"GET\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        ]
        malformed += [
            b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20_000,
            b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
            b"\x16\x03\x01",
        ]
        with serve_in_thread(workspace()) as credentials:
            for content in malformed:
                with socket.create_connection(("127.0.0.1", credentials.port), 10) as connection:
                    connection.sendall(content)
                    connection.shutdown(socket.SHUT_WR)
                    connection.settimeout(10)
                    assert not re.match(rb"HTTP/1.1 (2|5)", connection.recv(100))
            assert httpx2.get(f"http://127.0.0.1:{credentials.port}/").status_code == 200
