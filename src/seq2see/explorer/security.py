"""The security middleware: it checks every request before the application, and adds headers to every response.

A server on localhost can be reached by every web page in the same browser. So a request must have the right Host header
(another name that resolves to this address is an attack, "DNS rebinding"), must not come from another origin, and must
contain the token that is printed when the server starts. No response allows another page to read it, and the page loads
resources from this server only.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import secrets
import sys
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
SECURITY_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
"""The headers of every response."""
LOGIN_PATH = "/api/login"
"""The path that exchanges the token of the link for a cookie."""

MAX_HEADER_BYTES = 16 << 10
MAX_JSON_DEPTH = 32
"""The maximum depth of nested brackets in a request."""
JSON_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""A JSON string; an unterminated string matches to the end of the input, so that the search takes linear time."""
BRACKETS = re.compile(rb"[\[\]{}]")
BODY_TIMEOUT = 30.0
"""The maximum time for the body of a request, in seconds."""


class RequestRejected(Exception):
    """A request that the middleware rejects, with a status and a reason."""

    def __init__(self, status: int, reason: str):
        super().__init__(status, reason)
        self.status, self.reason = status, reason


@dataclass(frozen=True)
class Credentials:
    """The port of the server and its secret token."""

    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def allowed_hosts(self) -> set[str]:
        """The allowed values of the Host header."""
        return {f"{name}:{self.port}" for name in ("127.0.0.1", "localhost")}

    @property
    def cookie_name(self) -> str:
        """The name of the cookie; it contains the port, because a host's cookies are shared by all its ports."""
        return f"seq2see-{self.port}"

    @property
    def link(self) -> str:
        """The link that is printed; the token is in the fragment, which browsers never send, so no log contains it."""
        return f"http://127.0.0.1:{self.port}/#token={self.token}"

    def verify(self, token: str) -> bool:
        """Compare a token with the secret one, in constant time."""
        return hmac.compare_digest(token.encode(), self.token.encode())


class SecurityMiddleware:
    """ASGI middleware around the whole application, which checks every request."""

    def __init__(self, app: App, credentials: Credentials, max_body_bytes: Callable[[str], int]):
        self.app, self.credentials, self.max_body_bytes = app, credentials, max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a valid request to the application, or reject it with an error."""
        if scope["type"] != "http":
            return
        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                names = {name.encode() for name in SECURITY_HEADERS}
                headers = [(name, value) for name, value in message["headers"] if name.lower() not in names]
                message["headers"] = headers + [
                    (name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()
                ]
            await send(message)

        try:
            self._check(scope)
            if scope["method"] == "POST":
                receive = _replay_body(await self._body(scope["path"], receive), receive)
            await self.app(scope, receive, send_with_headers)
        except RequestRejected as rejected:
            await _send_json(send_with_headers, rejected.status, error_fields(rejected.reason))
        except Exception as error:
            if not started:  # else the headers are sent already
                await _send_json(send_with_headers, 500, internal_error(error))

    def _check(self, scope: Scope) -> None:
        """Check the headers of a request; the first violation is reported."""
        headers = Headers(scope["headers"])
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADER_BYTES:
            raise RequestRejected(431, "The headers are too long.")
        host = headers.get_single("host").lower()
        if host not in self.credentials.allowed_hosts:
            raise RequestRejected(421, "The Host header does not name this server.")
        if scope["method"] not in ("GET", "POST"):
            raise RequestRejected(405, "Only GET and POST are supported.")
        bearer = self._bearer(headers)
        self._check_origin(headers, host, scope["method"], bearer)
        if scope["path"] == LOGIN_PATH or (scope["method"] == "GET" and _is_page(scope["path"])):
            pass  # the page itself contains no secrets
        elif not bearer and not self._cookie(headers):
            raise RequestRejected(401, "The token is missing: open the link that `seq2see explore` has printed.")
        if scope["method"] == "POST" and not _is_json(headers.get_single("content-type")):
            raise RequestRejected(415, "The body of a request must be JSON: Content-Type: application/json.")

    def _check_origin(self, headers: Headers, host: str, method: str, bearer: bool) -> None:
        """Check the Origin header, which browsers send with POST; a program with the token does not need it."""
        origins = headers.get_all("origin")
        if any(origin != f"http://{host}" for origin in origins):
            raise RequestRejected(403, "Requests from other origins are not allowed.")
        if method == "POST" and not origins and not bearer:
            raise RequestRejected(403, "A POST request needs an Origin header or the token as bearer.")

    def _bearer(self, headers: Headers) -> bool:
        kind, _, token = headers.get_single("authorization").partition(" ")
        return kind.lower() == "bearer" and self.credentials.verify(token.strip())

    def _cookie(self, headers: Headers) -> bool:
        """Whether a cookie contains the token; cookies of other servers on this machine are ignored."""
        pairs = (part.strip().partition("=") for line in headers.get_all("cookie") for part in line.split(";"))
        return any(name == self.credentials.cookie_name and self.credentials.verify(value) for name, _, value in pairs)

    async def _body(self, path: str, receive: Receive) -> bytes:
        """The body of a request, if it is neither too large nor too deeply nested nor too slow."""
        max_body_bytes, content = self.max_body_bytes(path), bytearray()
        try:
            async with asyncio.timeout(BODY_TIMEOUT):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise RequestRejected(400, "The request is incomplete.")
                    content += message.get("body", b"")
                    if len(content) > max_body_bytes:
                        raise RequestRejected(413, f"The maximum size of this request is {max_body_bytes:,} bytes.")
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            raise RequestRejected(408, "The body of the request did not arrive in time.") from None
        if json_depth(bytes(content)) > MAX_JSON_DEPTH:
            raise RequestRejected(400, f"The maximum depth of brackets in a request is {MAX_JSON_DEPTH}.")
        return bytes(content)


def internal_error(error: Exception) -> dict[str, str]:
    """The fields of an internal error: they contain an id, and the traceback is printed with this id."""
    id = secrets.token_hex(4)
    print(f"seq2see: error {id}\n{''.join(traceback.format_exception(error))}", file=sys.stderr)
    message = f"There is an error in seq2see itself. The terminal shows the details of error {id}."
    return error_fields(message) | {"id": id}


def error_fields(message: str) -> dict[str, str]:
    """The JSON fields of an error without location and hint."""
    return {"message": message, "location": "", "hint": ""}


class Headers:
    """The headers of a request, as text."""

    def __init__(self, pairs: list[tuple[bytes, bytes]]):
        self.pairs = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in pairs]

    def get_all(self, name: str) -> list[str]:
        """All values of a header."""
        return [value for each, value in self.pairs if each == name]

    def get_single(self, name: str) -> str:
        """The value of a header; an empty text if it is missing or, because that is ambiguous, if it occurs twice."""
        values = self.get_all(name)
        return values[0] if len(values) == 1 else ""


def json_depth(content: bytes) -> int:
    """The depth of nested brackets, counted up to one more than the maximum; brackets in strings are skipped.

    >>> json_depth(b'{"a": [1, "[[["]}')
    2
    """
    deepest = level = 0
    for bracket in BRACKETS.finditer(JSON_STRING.sub(b"", content)):
        level += 1 if bracket.group() in b"[{" else -1
        deepest = max(deepest, level)
        if deepest > MAX_JSON_DEPTH:
            break
    return deepest


def _is_page(path: str) -> bool:
    return path == "/" or path.startswith("/page/")


def _is_json(content_type: str) -> bool:
    kind, _, rest = content_type.lower().partition(";")
    return kind.strip() == "application/json" and rest.strip() in ("", "charset=utf-8")


def _replay_body(content: bytes, receive: Receive) -> Receive:
    """A receive function that returns the body again, and after it the messages of the connection (disconnects)."""
    replayed = False

    async def replayed_receive() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": content, "more_body": False}

    return replayed_receive


async def _send_json(send: Send, status: int, fields: dict[str, str]) -> None:
    body = json.dumps(fields).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
