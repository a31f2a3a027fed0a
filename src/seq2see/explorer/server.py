"""The server: the page, the list of runs, and an endpoint for every route, all behind the security middleware."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response

from seq2see.core.errors import UserError
from seq2see.explorer.bundle import PAGE
from seq2see.explorer.connections import Connection
from seq2see.explorer.describe import list_runs
from seq2see.explorer.endpoints import error_handlers, error_response, login_endpoint, route_endpoint, to_response
from seq2see.explorer.job_queue import JobQueue
from seq2see.explorer.openapi import openapi_schema
from seq2see.explorer.routes import MAX_TEXT_BYTES, ROUTES
from seq2see.explorer.security import LOGIN_PATH, App, Credentials, SecurityMiddleware
from seq2see.explorer.workspace import Workspace

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
