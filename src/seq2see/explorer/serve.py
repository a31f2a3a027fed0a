"""Serving until somebody presses Ctrl-C: the first time what is being answered is finished, the second time not."""

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
"""What a program leaves with that was stopped in the middle of something."""


class InterruptibleServer(Server):
    """A server that listens to Ctrl-C and to a request to end."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first time finish, the second time end at once: a model that computes cannot be told to stop."""
        if self.should_exit:
            _exit_now(EXIT_INTERRUPTED)
        self.should_exit = True
        if self.queue.busy:
            print("Finishing what is being answered; Ctrl-C again ends at once.", flush=True)


def serve(workspace: Workspace, port: int | None, browser: bool) -> None:
    """Print the link, and answer until told to stop."""
    sock = bind_socket(port)
    keys = Credentials(sock.getsockname()[1])
    server = InterruptibleServer(workspace, keys)
    names = ", ".join(run.name for run in workspace.runs.values())
    print(f"Looking inside {names}. Open this link; Ctrl-C ends.\n\n  {keys.link}\n", flush=True)
    if browser:
        webbrowser.open(keys.link)
    server.run(sockets=[sock])
    if server.queue.busy:
        _exit_now(0)


def _exit_now(code: int) -> None:
    """End the process without waiting for anybody."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(RuntimeError):  # the signal came in the middle of writing to it
            stream.flush()
    os._exit(code)
