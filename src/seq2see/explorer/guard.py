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

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
"""What every answer carries."""
ENTER = "/api/enter"
"""Where the token of the link is changed for a cookie."""

MOST_HEADER_BYTES = 16 << 10
MOST_DEPTH = 32
"""Brackets within brackets in a question."""
TEXTS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""A text in JSON; one that never ends goes on to the end, so that looking for its end is done only once."""
BRACKETS = re.compile(rb"[\[\]{}]")
SECONDS_TO_ASK = 30.0
"""Whoever takes longer to send a question holds a place that others need."""


class Refused(Exception):
    """A request that is not let in: its status, and why."""

    def __init__(self, status: int, why: str):
        super().__init__(status, why)
        self.status, self.why = status, why


@dataclass(frozen=True)
class Keys:
    """Where this server is, and the secret that whoever started it knows."""

    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def hosts(self) -> set[str]:
        """The names under which it can be asked."""
        return {f"{name}:{self.port}" for name in ("127.0.0.1", "localhost")}

    @property
    def cookie(self) -> str:
        """Cookies belong to all ports of a host, so two explorers need two names."""
        return f"seq2see-{self.port}"

    @property
    def link(self) -> str:
        """What is printed: a fragment is never sent, so the token stays out of every log."""
        return f"http://127.0.0.1:{self.port}/#token={self.token}"

    def fits(self, token: str) -> bool:
        """Whether somebody knows the token; how long the answer takes tells nothing of how nearly."""
        return hmac.compare_digest(token.encode(), self.token.encode())


class Guard:
    """Wraps the whole application: nothing is answered that it has not looked at."""

    def __init__(self, app: App, keys: Keys, most: Callable[[str], int]):
        self.app, self.keys, self.most = app, keys, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or say why not."""
        if scope["type"] != "http":
            return
        begun = False

        async def dressed(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                own = {name.encode() for name in HEADERS}
                kept = [(name, value) for name, value in message["headers"] if name.lower() not in own]
                message["headers"] = kept + [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            await send(message)

        try:
            self._check(scope)
            if scope["method"] == "POST":
                receive = _given(await self._body(scope["path"], receive), receive)
            await self.app(scope, receive, dressed)
        except Refused as refused:
            await _say(dressed, refused.status, mistake(refused.why))
        except Exception as error:
            if not begun:  # else it was told already
                await _say(dressed, 500, mishap(error))

    def _check(self, scope: Scope) -> None:
        """What can be told from the first lines of a request; what is wrong first is said."""
        headers = Headers(scope["headers"])
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MOST_HEADER_BYTES:
            raise Refused(431, "The headers are too long.")
        host = headers.only("host").lower()
        if host not in self.keys.hosts:
            raise Refused(421, "This server does not go by that name.")
        if scope["method"] not in ("GET", "POST"):
            raise Refused(405, "Only GET and POST are known.")
        bearer = self._bearer(headers)
        self._check_origin(headers, host, scope["method"], bearer)
        if scope["path"] == ENTER or (scope["method"] == "GET" and _is_page(scope["path"])):
            pass  # the page itself holds nothing that is secret
        elif not bearer and not self._cookie(headers):
            raise Refused(401, "This needs the token: open the link that `seq2see explore` has printed.")
        if scope["method"] == "POST" and not _is_json(headers.only("content-type")):
            raise Refused(415, "A question is JSON: Content-Type: application/json.")

    def _check_origin(self, headers: Headers, host: str, method: str, bearer: bool) -> None:
        """Browsers say from which page a request comes; a program that knows the token need not."""
        origins = headers.all("origin")
        if any(origin != f"http://{host}" for origin in origins):
            raise Refused(403, "Another page may not ask this server.")
        if method == "POST" and not origins and not bearer:
            raise Refused(403, "A question must say where it comes from, or bear the token.")

    def _bearer(self, headers: Headers) -> bool:
        kind, _, token = headers.only("authorization").partition(" ")
        return kind.lower() == "bearer" and self.keys.fits(token.strip())

    def _cookie(self, headers: Headers) -> bool:
        """Other servers of this machine have cookies of their own, and their names are their affair."""
        pairs = (part.strip().partition("=") for line in headers.all("cookie") for part in line.split(";"))
        return any(name == self.keys.cookie and self.keys.fits(value) for name, _, value in pairs)

    async def _body(self, path: str, receive: Receive) -> bytes:
        """The whole question, if it is neither too large nor too deep nor too slow."""
        most, content = self.most(path), bytearray()
        try:
            async with asyncio.timeout(SECONDS_TO_ASK):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(400, "The question was never finished.")
                    content += message.get("body", b"")
                    if len(content) > most:
                        raise Refused(413, f"A question may have {most:,} bytes here.")
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            raise Refused(408, "The question took too long to arrive.") from None
        if depth(bytes(content)) > MOST_DEPTH:
            raise Refused(400, f"A question may have {MOST_DEPTH} brackets within brackets.")
        return bytes(content)


def mishap(error: Exception) -> dict[str, str]:
    """What is told of a mistake of ours: a number, under which the terminal tells everything."""
    number = secrets.token_hex(4)
    print(f"seq2see: error {number}\n{''.join(traceback.format_exception(error))}", file=sys.stderr)
    what = f"Something went wrong, which is a mistake in seq2see. The terminal tells more about {number}."
    return mistake(what) | {"id": number}


def mistake(what: str) -> dict[str, str]:
    """What went wrong, in the form in which every mistake is told."""
    return {"what": what, "where": "", "remedy": ""}


class Headers:
    """The headers of a request, as text."""

    def __init__(self, pairs: list[tuple[bytes, bytes]]):
        self.pairs = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in pairs]

    def all(self, name: str) -> list[str]:
        """Every value that was given."""
        return [value for each, value in self.pairs if each == name]

    def only(self, name: str) -> str:
        """The one value; where two are given nobody can say which is meant, so neither is taken."""
        found = self.all(name)
        return found[0] if len(found) == 1 else ""


def depth(content: bytes) -> int:
    """How many brackets stand within brackets, as far as that is allowed; those in texts do not count.

    >>> depth(b'{"a": [1, "[[["]}')
    2
    """
    deepest = level = 0
    for found in BRACKETS.finditer(TEXTS.sub(b"", content)):
        level += 1 if found.group() in b"[{" else -1
        deepest = max(deepest, level)
        if deepest > MOST_DEPTH:
            break
    return deepest


def _is_page(path: str) -> bool:
    return path == "/" or path.startswith("/page/")


def _is_json(content_type: str) -> bool:
    kind, _, rest = content_type.lower().partition(";")
    return kind.strip() == "application/json" and rest.strip() in ("", "charset=utf-8")


def _given(content: bytes, receive: Receive) -> Receive:
    """The question once more, for whoever answers it; after it only that the client has gone is heard."""
    told = False

    async def again() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": content, "more_body": False}

    return again


async def _say(send: Send, status: int, told: dict[str, str]) -> None:
    body = json.dumps(told).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
