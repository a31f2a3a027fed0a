"""The server: the page, the list of runs, and a path for every route of the table, all behind the guard."""

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
from seq2see.explorer.answering import answered, complaints, entered, told, wrong
from seq2see.explorer.bench import Bench
from seq2see.explorer.bundle import PAGE
from seq2see.explorer.connections import Connection
from seq2see.explorer.describe import listed
from seq2see.explorer.guard import ENTER, App, Guard, Keys
from seq2see.explorer.openapi import described
from seq2see.explorer.routes import ROUTES, TEXT
from seq2see.explorer.waiting import Line

PORT = 7321
"""Tried first, so that links to a view stay good; another is taken where it is in use."""
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
}


def build_app(bench: Bench, keys: Keys, line: Line) -> App:
    """The whole application, with the guard around it."""
    handlers: Any = complaints(bench)
    app = FastAPI(openapi_url=None, redirect_slashes=False, exception_handlers=handlers)
    pages = {path.relative_to(PAGE).as_posix(): path for path in PAGE.rglob("*") if path.suffix in TYPES}
    files = Line("files")

    @app.get("/")
    async def index() -> Response:
        return _file(pages.get("index.html"))

    @app.get("/page/{name:path}")
    async def page(name: str) -> Response:
        return _file(pages.get(name))

    @app.get("/api/runs")
    def runs() -> Response:
        return told(listed(bench))

    @app.get("/api/openapi.json")
    def openapi() -> JSONResponse:
        return JSONResponse(described())

    app.add_api_route(ENTER, entered(keys), methods=["POST"])
    for name, route in ROUTES.items():
        app.add_api_route(f"/api/{name}", answered(route, bench, line if route.waits else files), methods=["POST"])
    return Guard(app, keys, _most)


def _most(path: str) -> int:
    route = ROUTES.get(path.removeprefix("/api/"))
    return route.most if route else TEXT


def _file(path: Path | None) -> Response:
    """A file of the page; it is read every time, so that who changes it need only load it again."""
    if path is None:
        return wrong(404, UserError("There is no such page."))
    return Response(path.read_bytes(), media_type=TYPES[path.suffix])


def bound(port: int | None) -> socket.socket:
    """A socket of this machine alone; without a number, that of the usual port or of any that is free."""
    for wanted in (port,) if port is not None else (PORT, 0):
        # Only of a socket that is said to be TCP does asyncio switch off Nagle's waiting: 40 ms for every answer.
        found = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind(("127.0.0.1", wanted))
            found.listen(128)  # whoever opens the link before all is ready waits a moment
            return found
        except OSError as error:
            found.close()
            why = error.strerror or str(error)
    raise UserError(f"Port {port} cannot be had: {why}.", remedy="Name another with --port, or leave it out.")


class Server(uvicorn.Server):
    """Our application in uvicorn's hands."""

    def __init__(self, bench: Bench, keys: Keys):
        self.line = Line("models")
        super().__init__(
            uvicorn.Config(
                build_app(bench, keys, self.line),
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
def serving(bench: Bench) -> Iterator[Keys]:
    """A server in a thread, on a port that is free; for notebooks and tests."""
    sock = bound(0)
    keys = Keys(sock.getsockname()[1])
    server = Server(bench, keys)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, name="explorer", daemon=True)
    thread.start()
    try:
        yield keys
    finally:
        server.should_exit = True
        thread.join(15)
        sock.close()
