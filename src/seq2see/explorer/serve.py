"""Serve until Ctrl-C: the first Ctrl-C completes the running request, the second exits at once."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import webbrowser
from types import FrameType

from seq2see.explorer.security import Credentials
from seq2see.explorer.server import Server, bind_socket
from seq2see.explorer.workspace import Workspace

EXIT_INTERRUPTED = 130
"""The exit code of an interrupted program."""


class InterruptibleServer(Server):
    """A server that handles Ctrl-C and termination signals."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop gracefully at the first signal, exit at the second: a running model cannot be interrupted."""
        if self.should_exit:
            _exit_now(EXIT_INTERRUPTED)
        self.should_exit = True
        if self.queue.busy:
            print("Completing the running request; press Ctrl-C again to exit now.", flush=True)


def serve(workspace: Workspace, port: int | None, browser: bool) -> None:
    """Print the link, and serve until interrupted."""
    sock = bind_socket(port)
    credentials = Credentials(sock.getsockname()[1])
    server = InterruptibleServer(workspace, credentials)
    names = ", ".join(run.name for run in workspace.runs.values())
    print(f"Serving {names}. Open this link; press Ctrl-C to exit.\n\n  {credentials.link}\n", flush=True)
    if browser:
        webbrowser.open(credentials.link)
    server.run(sockets=[sock])
    if server.queue.busy:
        _exit_now(0)


def _exit_now(code: int) -> None:
    """Exit the process without waiting for threads."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(RuntimeError):  # the signal may arrive during a write to it
            stream.flush()
    os._exit(code)
