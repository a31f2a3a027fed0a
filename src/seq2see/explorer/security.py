"""The guard at the door: it looks at every request before anybody else does, and at every answer that leaves.

A server on one's own machine can be reached by every web page that the same browser shows. So a request must name this
server as its host (another name that leads here is a trick, "DNS rebinding"), must not come from another page, and must
know the token that was printed when the server was started. No answer allows another page to read it, and nothing that
the page loads comes from anywhere else.
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
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
SECURITY_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
"""What every answer carries."""
LOGIN_PATH = "/api/login"
"""Where the token of the link is changed for a cookie."""

MAX_HEADER_BYTES = 16 << 10
MAX_JSON_DEPTH = 32
"""Brackets within brackets in a question."""
JSON_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""A text in JSON; one that never ends goes on to the end, so that looking for its end is done only once."""
BRACKETS = re.compile(rb"[\[\]{}]")
BODY_TIMEOUT = 30.0
"""Whoever takes longer to send a question holds a place that others need."""


class RequestRejected(Exception):
    """A request that is not let in: its status, and why."""

    def __init__(self, status: int, reason: str):
        super().__init__(status, reason)
        self.status, self.reason = status, reason


@dataclass(frozen=True)
class Credentials:
    """Where this server is, and the secret that whoever started it knows."""

    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def allowed_hosts(self) -> set[str]:
        """The names under which it can be asked."""
        return {f"{name}:{self.port}" for name in ("127.0.0.1", "localhost")}

    @property
    def cookie_name(self) -> str:
        """Cookies belong to all ports of a host, so two explorers need two names."""
        return f"seq2see-{self.port}"

    @property
    def link(self) -> str:
        """What is printed: a fragment is never sent, so the token stays out of every log."""
        return f"http://127.0.0.1:{self.port}/#token={self.token}"

    def verify(self, token: str) -> bool:
        """Whether somebody knows the token; how long the answer takes tells nothing of how nearly."""
        return hmac.compare_digest(token.encode(), self.token.encode())


class SecurityMiddleware:
    """Wraps the whole application: nothing is answered that it has not looked at."""

    def __init__(self, app: App, keys: Credentials, max_body_bytes: Callable[[str], int]):
        self.app, self.keys, self.max_body_bytes = app, keys, max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or say why not."""
        if scope["type"] != "http":
            return
        begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                own = {name.encode() for name in SECURITY_HEADERS}
                kept = [(name, value) for name, value in message["headers"] if name.lower() not in own]
                message["headers"] = kept + [
                    (name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()
                ]
            await send(message)

        try:
            self._check(scope)
            if scope["method"] == "POST":
                receive = _replay_body(await self._body(scope["path"], receive), receive)
            await self.app(scope, receive, send_with_headers)
        except RequestRejected as refused:
            await _send_json(send_with_headers, refused.status, error_fields(refused.reason))
        except Exception as error:
            if not begun:  # else it was told already
                await _send_json(send_with_headers, 500, internal_error(error))

    def _check(self, scope: Scope) -> None:
        """What can be told from the first lines of a request; what is wrong first is said."""
        headers = Headers(scope["headers"])
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADER_BYTES:
            raise RequestRejected(431, "The headers are too long.")
        host = headers.get_single("host").lower()
        if host not in self.keys.allowed_hosts:
            raise RequestRejected(421, "This server does not go by that name.")
        if scope["method"] not in ("GET", "POST"):
            raise RequestRejected(405, "Only GET and POST are known.")
        bearer = self._bearer(headers)
        self._check_origin(headers, host, scope["method"], bearer)
        if scope["path"] == LOGIN_PATH or (scope["method"] == "GET" and _is_page(scope["path"])):
            pass  # the page itself holds nothing that is secret
        elif not bearer and not self._cookie(headers):
            raise RequestRejected(401, "This needs the token: open the link that `seq2see explore` has printed.")
        if scope["method"] == "POST" and not _is_json(headers.get_single("content-type")):
            raise RequestRejected(415, "A question is JSON: Content-Type: application/json.")

    def _check_origin(self, headers: Headers, host: str, method: str, bearer: bool) -> None:
        """Browsers say from which page a request comes; a program that knows the token need not."""
        origins = headers.get_all("origin")
        if any(origin != f"http://{host}" for origin in origins):
            raise RequestRejected(403, "Another page may not ask this server.")
        if method == "POST" and not origins and not bearer:
            raise RequestRejected(403, "A question must say where it comes from, or bear the token.")

    def _bearer(self, headers: Headers) -> bool:
        kind, _, token = headers.get_single("authorization").partition(" ")
        return kind.lower() == "bearer" and self.keys.verify(token.strip())

    def _cookie(self, headers: Headers) -> bool:
        """Other servers of this machine have cookies of their own, and their names are their affair."""
        pairs = (part.strip().partition("=") for line in headers.get_all("cookie") for part in line.split(";"))
        return any(name == self.keys.cookie_name and self.keys.verify(value) for name, _, value in pairs)

    async def _body(self, path: str, receive: Receive) -> bytes:
        """The whole question, if it is neither too large nor too deep nor too slow."""
        max_body_bytes, content = self.max_body_bytes(path), bytearray()
        try:
            async with asyncio.timeout(BODY_TIMEOUT):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise RequestRejected(400, "The question was never finished.")
                    content += message.get("body", b"")
                    if len(content) > max_body_bytes:
                        raise RequestRejected(413, f"A question may have {max_body_bytes:,} bytes here.")
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            raise RequestRejected(408, "The question took too long to arrive.") from None
        if json_depth(bytes(content)) > MAX_JSON_DEPTH:
            raise RequestRejected(400, f"A question may have {MAX_JSON_DEPTH} brackets within brackets.")
        return bytes(content)


def internal_error(error: Exception) -> dict[str, str]:
    """What is told of a mistake of ours: a number, under which the terminal tells everything."""
    number = secrets.token_hex(4)
    print(f"seq2see: error {number}\n{''.join(traceback.format_exception(error))}", file=sys.stderr)
    what = f"Something went wrong, which is a mistake in seq2see. The terminal tells more about {number}."
    return error_fields(what) | {"id": number}


def error_fields(what: str) -> dict[str, str]:
    """What went wrong, in the form in which every mistake is told."""
    return {"message": what, "location": "", "hint": ""}


class Headers:
    """The headers of a request, as text."""

    def __init__(self, pairs: list[tuple[bytes, bytes]]):
        self.pairs = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in pairs]

    def get_all(self, name: str) -> list[str]:
        """Every value that was given."""
        return [value for each, value in self.pairs if each == name]

    def get_single(self, name: str) -> str:
        """The one value; where two are given nobody can say which is meant, so neither is taken."""
        found = self.get_all(name)
        return found[0] if len(found) == 1 else ""


def json_depth(content: bytes) -> int:
    """How many brackets stand within brackets, as far as that is allowed; those in texts do not count.

    >>> depth(b'{"a": [1, "[[["]}')
    2
    """
    deepest = level = 0
    for found in BRACKETS.finditer(JSON_STRING.sub(b"", content)):
        level += 1 if found.group() in b"[{" else -1
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
    """The question once more, for whoever answers it; after it only that the client has gone is heard."""
    told = False

    async def replayed_receive() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": content, "more_body": False}

    return replayed_receive


async def _send_json(send: Send, status: int, told: dict[str, str]) -> None:
    body = json.dumps(told).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
