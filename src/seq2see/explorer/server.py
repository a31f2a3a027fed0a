"""HTTP connections with time limits: a subclass of uvicorn's protocol.

uvicorn waits forever for the rest of a request, counts idle connections, and rejects new connections if there are too
many; and its own error responses do not pass through the security middleware. Here, a connection whose request does not
arrive in time is closed, a connection above the maximum closes the one that has been idle longest, and error responses
of the protocol have the same headers as all others.

The server: the page, the list of runs, and an endpoint for every route, all behind the security middleware.

The OpenAPI schema of the server, generated from the table of routes.

Serve until Ctrl-C: the first Ctrl-C completes the running request, the second exits at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, get_type_hints

import h11
import uvicorn
from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from uvicorn.protocols.http.h11_impl import H11Protocol

import seq2see
from seq2see.core.errors import UserError
from seq2see.explorer.job_queue import JobQueue
from seq2see.explorer.offline import PAGE
from seq2see.explorer.routes import (
    MAX_TEXT_BYTES,
    ROUTES,
    Route,
    error_handlers,
    error_response,
    list_runs,
    login_endpoint,
    route_endpoint,
    to_response,
)
from seq2see.explorer.schemas import ArrayResponse
from seq2see.explorer.security import LOGIN_PATH, SECURITY_HEADERS, App, Credentials, SecurityMiddleware, error_fields
from seq2see.explorer.workspace import Workspace

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


DEFAULT_PORT = 7321
"""The default port, so that links to a view stay valid; if it is in use, the system chooses another."""
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
}


def build_app(workspace: Workspace, credentials: Credentials, queue: JobQueue) -> App:
    """The whole application with the security middleware."""
    handlers: Any = error_handlers(workspace)
    app = FastAPI(openapi_url=None, redirect_slashes=False, exception_handlers=handlers)
    pages = {path.relative_to(PAGE).as_posix(): path for path in PAGE.rglob("*") if path.suffix in MEDIA_TYPES}
    files = JobQueue("files")

    @app.get("/")
    async def index() -> Response:
        return _file_response(pages.get("index.html"))

    @app.get("/page/{name:path}")
    async def page(name: str) -> Response:
        return _file_response(pages.get(name))

    @app.get("/api/runs")
    def runs() -> Response:
        return to_response(list_runs(workspace))

    @app.get("/api/openapi.json")
    def openapi() -> JSONResponse:
        return JSONResponse(openapi_schema())

    app.add_api_route(LOGIN_PATH, login_endpoint(credentials), methods=["POST"])
    for name, route in ROUTES.items():
        app.add_api_route(
            f"/api/{name}", route_endpoint(route, workspace, queue if route.uses_model else files), methods=["POST"]
        )
    return SecurityMiddleware(app, credentials, _max_body_bytes)


def _max_body_bytes(path: str) -> int:
    route = ROUTES.get(path.removeprefix("/api/"))
    return route.max_body_bytes if route else MAX_TEXT_BYTES


def _file_response(path: Path | None) -> Response:
    """A file of the page; it is read for every request, so that changes to it need no restart."""
    if path is None:
        return error_response(404, UserError("This page does not exist."))
    return Response(path.read_bytes(), media_type=MEDIA_TYPES[path.suffix])


def bind_socket(port: int | None) -> socket.socket:
    """A listening socket on localhost; without a port, on the default port or on any free one."""
    for candidate in (port,) if port is not None else (DEFAULT_PORT, 0):
        # asyncio disables Nagle's algorithm, which delays every response by 40 ms, only for sockets with IPPROTO_TCP.
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", candidate))
            sock.listen(128)  # connections before the server is ready wait in this backlog
            return sock
        except OSError as error:
            sock.close()
            reason = error.strerror or str(error)
    raise UserError(f"Port {port} is not available: {reason}.", hint="Choose another with --port, or omit the option.")


class Server(uvicorn.Server):
    """A uvicorn server of the application."""

    def __init__(self, workspace: Workspace, credentials: Credentials):
        self.queue = JobQueue("models")
        super().__init__(
            uvicorn.Config(
                build_app(workspace, credentials, self.queue),
                log_level="critical",
                server_header=False,
                lifespan="off",
                http=Connection,
                ws="none",
                loop="asyncio",
                timeout_graceful_shutdown=10,
            )
        )


@contextlib.contextmanager
def serve_in_thread(workspace: Workspace) -> Iterator[Credentials]:
    """A server in a thread, on any free port; for notebooks and tests."""
    sock = bind_socket(0)
    credentials = Credentials(sock.getsockname()[1])
    server = Server(workspace, credentials)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, name="explorer", daemon=True)
    thread.start()
    try:
        yield credentials
    finally:
        server.should_exit = True
        thread.join(15)
        sock.close()


REFERENCE = "#/components/schemas/{model}"
ERROR_SCHEMA = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("message", "location", "hint", "id")},
    "required": ["message", "location", "hint"],
}
ERROR_RESPONSES = {
    "401": "the token is missing", "404": "there is no such run", "413": "too large", "415": "not JSON",
    "422": "the request is not valid; the error has the reason and a hint",
    "429": "the queue is full; see Retry-After",
}  # fmt: skip


@cache
def openapi_schema() -> dict[str, Any]:
    """The whole schema."""
    models = [route.request_model for route in ROUTES.values()] + [
        response_model for response_model in map(_response_model, ROUTES.values()) if response_model
    ]
    _, schemas = models_json_schema([(model, "validation") for model in dict.fromkeys(models)], ref_template=REFERENCE)
    paths = {f"/api/{name}": {"post": _operation(name, route)} for name, route in ROUTES.items()}
    runs_response = {
        "200": {"description": "the runs", "content": {"application/json": {"schema": {"type": "object"}}}}
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "seq2see explorer", "version": seq2see.__version__},
        "paths": {"/api/runs": {"get": {"summary": "The opened runs", "responses": runs_response}}, **paths},
        "components": {
            "schemas": {**schemas.get("$defs", {}), "Error": ERROR_SCHEMA},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _operation(name: str, route: Route) -> dict[str, Any]:
    request_schema = {"schema": {"$ref": REFERENCE.format(model=route.request_model.__name__)}}
    error_responses = {
        status: {
            "description": description,
            "content": {"application/json": {"schema": {"$ref": REFERENCE.format(model="Error")}}},
        }
        for status, description in ERROR_RESPONSES.items()
    }
    return {
        "operationId": name.replace("/", "_"),
        "summary": (route.handler.__doc__ or "").split("\n")[0],
        "requestBody": {"required": True, "content": {"application/json": request_schema}},
        "responses": {"200": _success_response(route), **error_responses},
    }


def _success_response(route: Route) -> dict[str, Any]:
    if get_type_hints(route.handler).get("return") is ArrayResponse:
        header = {"description": "rows, columns, ...", "schema": {"type": "string", "pattern": r"^[0-9]+(,[0-9]+)*$"}}
        content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        return {"description": "float32, little-endian", "headers": {"X-Shape": header}, "content": content}
    response_model = _response_model(route)
    schema = {"$ref": REFERENCE.format(model=response_model.__name__)} if response_model else {"type": "object"}
    return {"description": "the result", "content": {"application/json": {"schema": schema}}}


def _response_model(route: Route) -> type[BaseModel] | None:
    """The pydantic model of a response, if the handler has one."""
    response_model = get_type_hints(route.handler).get("return")
    return response_model if isinstance(response_model, type) and issubclass(response_model, BaseModel) else None


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
