"""HTTP connections with time limits: a subclass of uvicorn's protocol.

uvicorn waits forever for the rest of a request, counts idle connections, and rejects new connections if there are too
many; and its own error responses do not pass through the security middleware. Here, a connection whose request does not
arrive in time is closed, a connection above the maximum closes the one that has been idle longest, and error responses
of the protocol have the same headers as all others.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from seq2see.explorer.security import SECURITY_HEADERS, error_fields

HEADER_TIMEOUT = 30.0
"""Seconds from the start of a connection, or from its last response, until the headers of a request must arrive."""
MAX_CONNECTIONS = 200


class Connection(H11Protocol):
    """A connection with a client that is closed when it is idle for too long."""

    _timeout_timer: asyncio.TimerHandle | None = None
    _unsent_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer; above the maximum number of connections, close the one that has been idle longest."""
        super().connection_made(transport)
        self.idle_since = self.loop.time()
        self._restart_timer()
        if len(self.connections) > MAX_CONNECTIONS:
            connections: Any = self.connections
            idle = [each for each in connections if isinstance(each, Connection) and each.waiting_for_client]
            min(idle, key=lambda each: each.idle_since).transport.abort()  # if no other is idle, the new one

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timer."""
        if self._timeout_timer is not None:
            self._timeout_timer.cancel()
        super().connection_lost(exc)

    @property
    def waiting_for_client(self) -> bool:
        """Whether the server waits for this client: for a request or its body, or until a response is received."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def on_response_complete(self) -> None:
        """Restart the timer for the next request."""
        self.idle_since = self.loop.time()
        self._restart_timer()
        super().on_response_complete()

    def shutdown(self) -> None:
        """Stop: a running request is completed, an incomplete one is aborted."""
        super().shutdown()
        if self.cycle is not None and self.cycle.more_body and not self.cycle.response_complete:
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Respond to invalid HTTP with the usual JSON error; if a response is being sent, close the connection."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()
            return
        body = json.dumps(error_fields(msg)).encode()
        headers = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
        response = h11.Response(
            status_code=400, headers=list((headers | SECURITY_HEADERS).items()), reason=b"Bad Request"
        )
        for event in (response, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _restart_timer(self) -> None:
        if self._timeout_timer is not None:
            self._timeout_timer.cancel()
        self._timeout_timer = self.loop.call_later(HEADER_TIMEOUT, self._on_timeout)

    def _on_timeout(self) -> None:
        """Close an idle connection; a client that receives a response slowly gets more time while it makes progress."""
        unsent_bytes = self.transport.get_write_buffer_size()
        if unsent_bytes and unsent_bytes != self._unsent_bytes:
            self._unsent_bytes = unsent_bytes
            self._restart_timer()
        elif self.cycle is None or self.cycle.response_complete:
            self.transport.abort()
