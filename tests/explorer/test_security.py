"""Who is let in: every combination of host, page, token, method, content type and path."""

from __future__ import annotations

import itertools
import json

import pytest
from tiny_workspace import CREDENTIALS, HOST_HEADER, Client, make_app, run_async, workspace

from seq2see.explorer import connections, job_queue, routes, saved_responses, schemas, security
from seq2see.explorer.routes import ROUTES
from seq2see.explorer.security import (
    MAX_HEADER_BYTES,
    MAX_JSON_DEPTH,
    SECURITY_HEADERS,
    Credentials,
    SecurityMiddleware,
    json_depth,
)
from seq2see.inspection import downsampling

HOSTS = {
    "127.0.0.1:7777": True, "localhost:7777": True, "LOCALHOST:7777": True,
    "127.0.0.1": False, "127.0.0.1:80": False, "evil.example:7777": False, "127.0.0.1.evil.example:7777": False,
    "localhost:7777.evil.example": False, "0.0.0.0:7777": False, "[::1]:7777": False, "": False,
}  # fmt: skip
ORIGINS = {
    None: None, "own": True, "null": False, "http://evil.example": False, "https://127.0.0.1:7777": False,
    "http://127.0.0.1:7778": False, "http://127.0.0.1:7777.evil.example": False, "": False,
}  # fmt: skip
TOKENS = {
    "none": None, "bearer": "bearer", "cookie": "cookie", "wrong bearer": None, "wrong cookie": None,
    "half a bearer": None, "cookie of another port": None, "token as basic": None,
}  # fmt: skip
METHODS = ("GET", "POST", "OPTIONS", "PUT", "DELETE", "HEAD", "TRACE")
TYPES = {
    "application/json": True, "Application/JSON; charset=utf-8": True, "text/plain": False, "": False,
    "application/x-www-form-urlencoded": False, "multipart/form-data; boundary=x": False,
    "application/json; charset=latin-1": False,
}  # fmt: skip
CARRIED = {
    b"x-content-type-options": b"nosniff", b"referrer-policy": b"no-referrer", b"cache-control": b"no-store",
    b"cross-origin-resource-policy": b"same-origin", b"cross-origin-opener-policy": b"same-origin",
    b"content-security-policy": b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    b"connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
}  # fmt: skip
"""What every answer must carry, whatever the server says of itself."""
PATHS = (
    "/",
    "/page/main.js",
    "/api/login",
    "/api/runs",
    "/api/openapi.json",
    "/api/nothing",
    "/api//enter",
    "/pages",
    "/nothing",
)


def token_headers(name: str) -> list[tuple[bytes, bytes]]:
    token = CREDENTIALS.token.encode()
    found = {
        "bearer": (b"authorization", b"Bearer " + token),
        "wrong bearer": (b"authorization", b"Bearer " + token[::-1]),
        "half a bearer": (b"authorization", b"Bearer " + token[:-1]),
        "token as basic": (b"authorization", b"Basic " + token),
        "cookie": (b"cookie", b"of(another)server=1; b; seq2see-7777=" + token),
        "wrong cookie": (b"cookie", b"seq2see-7777=" + token[::-1]),
        "cookie of another port": (b"cookie", b"seq2see-7778=" + token),
    }
    return [found[name]] if name in found else []


def expected(host: str, origin: str | None, token: str, method: str, kind: str, path: str) -> int:
    """What the rules say, the first that is broken first; 200 stands for "let in"."""
    if not HOSTS[host]:
        return 421
    if method not in ("GET", "POST"):
        return 405
    if ORIGINS[origin] is False or (ORIGINS[origin] is None and method == "POST" and TOKENS[token] != "bearer"):
        return 403
    open_to_all = path == "/api/login" or (method == "GET" and path in ("/", "/page/main.js"))
    if not open_to_all and TOKENS[token] is None:
        return 401
    return 200 if method == "GET" or TYPES[kind] else 415


async def statuses(
    cells: list[tuple[str, str | None, str, str, str, str]],
) -> tuple[list[int], list[dict[bytes, bytes]]]:
    found, answers = [], []

    async def inner(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"Cache-Control", b"public")]})

    async def receive():
        return {"type": "http.request", "body": b"{}"}

    async def send(message):
        if message["type"] == "http.response.start":
            found.append(message["status"])
            answers.append(dict(message["headers"]))
            assert len(answers[-1]) == len(message["headers"])  # none is given twice

    guard = SecurityMiddleware(inner, CREDENTIALS, lambda path: 1000)
    for host, origin, token, method, kind, path in cells:
        page = f"http://{host.lower()}" if origin == "own" else origin
        headers = [(b"host", host.encode())] if host else []
        headers += [(b"origin", page.encode())] if page is not None else []
        headers += [*token_headers(token), (b"content-type", kind.encode())]
        await guard({"type": "http", "method": method, "path": path, "headers": headers}, receive, send)
    return found, answers


@pytest.mark.parametrize("every", [31, pytest.param(1, marks=pytest.mark.long)])
def test_exactly_those_are_let_in_that_the_rules_allow(every):
    """All combinations, or every so many-th of them: 31 shares no factor with the number of choices of any kind."""
    paths = [*PATHS, *(f"/api/{name}" for name in list(ROUTES)[:2])]
    cells = list(itertools.product(HOSTS, ORIGINS, TOKENS, METHODS, TYPES, paths))[::every]
    found, answers = run_async(statuses(cells))
    wrong = [(cell, status) for cell, status in zip(cells, found, strict=True) if status != expected(*cell)]
    assert not wrong, wrong[:5]
    assert {200, 401, 403, 405, 415, 421} == set(found)
    assert all(answer.items() >= CARRIED.items() for answer in answers)
    assert not any(name.lower().startswith(b"access-control") for answer in answers for name in answer)
    assert not any(b"public" in answer.values() for answer in answers)


async def asked(headers: list[tuple[bytes, bytes]], messages: list[dict] | None = None, **scope) -> tuple[list, list]:
    """What the guard hands on to the application and what it sends, if these messages are received."""
    heard, sent = [], []

    async def inner(scope, receive, send):
        heard.append((await receive())["body"])

    async def send(message):
        sent.append(message)

    arriving = iter(messages or [{"type": "http.request"}])

    async def receive():
        return next(arriving)

    whole = {"type": "http", "method": "POST", "path": "/api/predict", "headers": headers, **scope}
    await SecurityMiddleware(inner, CREDENTIALS, lambda path: 10)(whole, receive, send)
    return heard, [message.get("status") for message in sent][:1]


RIGHT = [
    (b"host", b"127.0.0.1:7777"),
    (b"authorization", b"Bearer " + CREDENTIALS.token.encode()),
    (b"content-type", b"application/json"),
]


def part(body: bytes, more: bool = True) -> dict:
    return {"type": "http.request", "body": body, "more_body": more}


@pytest.mark.parametrize(
    ("messages", "whole", "status"),
    [
        ([part(b"[1,"), part(b"2]", False)], b"[1,2]", None),
        ([part(b"[123456", True), part(b"78]", False)], b"[12345678]", None),
        ([part(b"[123456", True), part(b"789]", False)], None, 413),
        ([part(b"[1,"), {"type": "http.disconnect"}], None, 400),
    ],
    ids=["in parts", "just short enough", "one byte too long", "never finished"],
)
def test_a_question_arrives_whole_or_not_at_all(schemas, whole, status):
    assert run_async(asked(RIGHT, schemas)) == ([whole] if whole else [], [status] if status else [])


def test_only_http_is_answered():
    assert run_async(asked(RIGHT, type="websocket")) == ([], [])


@pytest.mark.parametrize("bearer", ["bearer {}", "BEARER   {}"])
def test_the_word_before_the_token_may_be_written_otherwise(bearer):
    headers = [RIGHT[0], (b"Authorization", bearer.format(CREDENTIALS.token).encode()), RIGHT[2]]
    assert run_async(asked(headers)) == ([b""], [])


@pytest.mark.parametrize("kinds", [[], [b"application/json"] * 2])
def test_a_question_says_once_what_it_is(kinds):
    assert run_async(asked([*RIGHT[:2], *((b"content-type", kind) for kind in kinds)])) == ([], [415])


def test_headers_are_counted_with_their_names():
    room = (16 << 10) - sum(len(name) + len(value) for name, value in RIGHT)
    assert run_async(asked([*RIGHT, (b"x" * (room - 1), b"y")])) == ([b""], [])
    assert run_async(asked([*RIGHT, (b"x" * room, b"y")])) == ([], [431])


@pytest.mark.parametrize("twice", ["Host", "Origin", "Authorization"])
def test_a_header_that_is_given_twice_is_not_believed(twice):
    right = {"Host": HOST_HEADER["Host"], "Origin": f"http://{HOST_HEADER['Host']}", "Authorization": f"Bearer {CREDENTIALS.token}"}
    other = {"Host": "evil.example", "Origin": "http://evil.example", "Authorization": "Bearer no"}[twice]
    headers = [*right.items(), (twice, other)]
    assert Client(make_app(workspace())).send("GET", "/api/runs", headers=headers).status_code in (401, 403, 421)  # type: ignore[arg-type]
    assert Client(make_app(workspace())).send("GET", "/api/runs", headers=right).status_code == 200


class TestToken:
    def test_it_has_256_bits_and_is_another_every_time(self):
        assert len({Credentials(1).token for _ in range(50)}) == 50
        assert len(CREDENTIALS.token) == 43  # 32 bytes in base64

    def test_the_link_holds_it_where_no_browser_sends_it(self):
        assert CREDENTIALS.link == f"http://127.0.0.1:7777/#token={CREDENTIALS.token}"

    def test_it_does_not_show_when_keys_are_printed(self):
        assert CREDENTIALS.token not in repr(CREDENTIALS)

    def test_it_is_changed_for_a_cookie_that_lets_in(self):
        client = Client(make_app(workspace()))
        own = {**HOST_HEADER, "Origin": f"http://{HOST_HEADER['Host']}"}
        answer = client.send("POST", "/api/login", own, json={"token": CREDENTIALS.token})
        cookie = answer.headers["set-cookie"]
        assert {"httponly", "samesite=strict", "path=/"} <= {part.strip().lower() for part in cookie.split(";")}
        assert client.send("GET", "/api/runs", {**HOST_HEADER, "Cookie": cookie.split(";")[0]}).status_code == 200

    @pytest.mark.parametrize("token", ["", "x", CREDENTIALS.token[:-1], CREDENTIALS.token + "x", "é" * 43, "\0"], ids=range(6))
    def test_another_token_gets_no_cookie(self, token):
        answer = Client(make_app(workspace())).send(
            "POST", "/api/login", {**HOST_HEADER, "Origin": f"http://{HOST_HEADER['Host']}"}, json={"token": token}
        )
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers


class TestLimits:
    def test_long_headers_are_refused(self):
        client = Client(make_app(workspace()))
        assert client.send("GET", "/", {**HOST_HEADER, "X-Long": "x" * MAX_HEADER_BYTES}).status_code == 431
        assert client.send("GET", "/", {**HOST_HEADER, "X-Long": "x" * (MAX_HEADER_BYTES // 2)}).status_code == 200

    def test_a_long_question_is_refused(self):
        client = Client(make_app(workspace()))
        assert client.post("runs/metrics", run="r1", padding="x" * (1 << 20)).status_code == 413
        assert client.post("runs/metrics", run="r1", padding="x" * 1000).status_code == 422

    def test_a_deep_question_is_refused(self):
        client = Client(make_app(workspace()))
        for levels, status in ((MAX_JSON_DEPTH, 422), (MAX_JSON_DEPTH + 1, 400), (100_000, 400)):
            answer = client.send("POST", "/api/predict", content="[" * levels + "]" * levels, headers=_json())
            assert answer.status_code == status

    @pytest.mark.parametrize(
        ("text", "levels"),
        [
            ('{"a": "[[[["}', 1), ('{"a": "\\"[[["}', 1), ('{"a\\\\": [["', 3), ('"[[[', 0), ('"\\', 0), ("[][][]", 1),
            ('"\\"[', 0), ("", 0),
        ],
    )  # fmt: skip
    def test_brackets_in_texts_do_not_count(self, text, levels):
        assert json_depth(text.encode()) == levels

    def test_depth_is_found_quickly_whatever_was_sent(self):
        for content in (b'"\\' * 500_000, b'"' * 1_000_000, b"\\" * 1_000_000, b"[]" * 100_000):
            assert json_depth(content) <= 1
        assert json_depth(b"[" * 1_000_000) == 33  # nobody counts further

    def test_bounds_are_those_that_are_promised(self):
        """As `docs/explorer.md` tells them."""
        assert (security.MAX_HEADER_BYTES, security.MAX_JSON_DEPTH, security.BODY_TIMEOUT) == (16_384, 32, 30)
        assert (connections.MAX_CONNECTIONS, connections.HEADER_TIMEOUT) == (200, 30)
        assert (job_queue.MAX_WAITING, job_queue.JOB_TIMEOUT) == (16, 120)
        assert (schemas.MAX_CHARACTERS, schemas.MAX_SHOWN_TOKENS) == (20_000, 1_000)
        assert (routes.TEXT, routes.MEDIA) == (1 << 20, 20 << 20)
        assert (downsampling.MOST_LINES, saved_responses.MAX_BYTES) == (4_000, 48 << 20)


def _json() -> dict[str, str]:
    return {**HOST_HEADER, "Authorization": f"Bearer {CREDENTIALS.token}", "Content-Type": "application/json"}


def test_what_goes_wrong_inside_is_told_by_a_number_alone(monkeypatch, capsys):
    def broken(*_):
        raise RuntimeError("secret in a secret place")

    monkeypatch.setattr("seq2see.explorer.server.listed", broken)
    answer = Client(make_app(workspace())).send("GET", "/api/runs")
    told = answer.json()
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    assert f"error {told['id']}\n" in (printed := capsys.readouterr().err)
    assert "in broken" in printed  # where it was
    assert answer.headers["content-security-policy"] == SECURITY_HEADERS["content-security-policy"]
    assert json.loads(answer.text) == told
