"""One connection, in uvicorn's hands but under our rules: nobody holds a place that others need.

uvicorn waits forever for a request that was begun, counts connections on which nothing was ever asked, and turns
everybody away when there are too many; and what it refuses itself never came by the guard. So a connection whose
request has not arrived in time is closed, one connection too many closes the one that has waited longest, and whatever
is answered here carries the same headers as everything else.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from seq2see.explorer.security import SECURITY_HEADERS, error_fields

HEADER_TIMEOUT = 30.0
"""From opening a connection, or from the last answer on it, until the first lines of a request are there."""
MAX_CONNECTIONS = 200


class Connection(H11Protocol):
    """What one client and the server say to each other."""

    _timeout_timer: asyncio.TimerHandle | None = None
    _unsent_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room where there is none: by closing whoever has waited longest without asking."""
        super().connection_made(transport)
        self.idle_since = self.loop.time()
        self._restart_timer()
        if len(self.connections) > MAX_CONNECTIONS:
            others: Any = self.connections
            idle = [each for each in others if isinstance(each, Connection) and each.waiting_for_client]
            min(idle, key=lambda each: each.idle_since).transport.abort()  # at the latest the newcomer

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is waited for any longer."""
        if self._timeout_timer is not None:
            self._timeout_timer.cancel()
        super().connection_lost(exc)

    @property
    def waiting_for_client(self) -> bool:
        """Whether the server waits for this client: for a request, for the rest of one, or until an answer is read."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def on_response_complete(self) -> None:
        """The next request gets as much time as the first."""
        self.idle_since = self.loop.time()
        self._restart_timer()
        super().on_response_complete()

    def shutdown(self) -> None:
        """The server stops: what is being answered is finished, and half a question is not waited for."""
        super().shutdown()
        if self.cycle is not None and self.cycle.more_body and not self.cycle.response_complete:
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP is answered like any other mistake, unless an answer is under way: then that is the last."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()
            return
        body = json.dumps(error_fields(msg)).encode()
        headers = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
        answer = h11.Response(
            status_code=400, headers=list((headers | SECURITY_HEADERS).items()), reason=b"Bad Request"
        )
        for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _restart_timer(self) -> None:
        if self._timeout_timer is not None:
            self._timeout_timer.cancel()
        self._timeout_timer = self.loop.call_later(HEADER_TIMEOUT, self._on_timeout)

    def _on_timeout(self) -> None:
        """Close, if nothing is being answered; who reads an answer slowly is waited for as long as it reads at all."""
        unread = self.transport.get_write_buffer_size()
        if unread and unread != self._unsent_bytes:
            self._unsent_bytes = unread
            self._restart_timer()
        elif self.cycle is None or self.cycle.response_complete:
            self.transport.abort()
