"""The security middleware with every combination of host, origin, token, method, content type and path."""

from __future__ import annotations

import itertools
import json

import pytest
from tiny_workspace import CREDENTIALS, HOST_HEADER, Client, make_app, run_async, workspace

from seq2see.explorer import job_queue, offline, routes, schemas, security, server
from seq2see.explorer.routes import ROUTES
from seq2see.explorer.security import (
    MAX_HEADER_BYTES,
    MAX_JSON_DEPTH,
    SECURITY_HEADERS,
    Credentials,
    SecurityMiddleware,
    json_depth,
)
from seq2see.explorer.views import runs

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
EXPECTED_HEADERS = {
    b"x-content-type-options": b"nosniff", b"referrer-policy": b"no-referrer", b"cache-control": b"no-store",
    b"cross-origin-resource-policy": b"same-origin", b"cross-origin-opener-policy": b"same-origin",
    b"content-security-policy": b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    b"media-src 'self' blob:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
}  # fmt: skip
"""The headers of every response."""
PATHS = (
    "/",
    "/page/main.js",
    "/api/login",
    "/api/runs",
    "/api/openapi.json",
    "/api/nothing",
    "/api//login",
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
    """The expected status by the first violated rule; 200 for a valid request."""
    if not HOSTS[host]:
        return 421
    if method not in ("GET", "POST"):
        return 405
    if ORIGINS[origin] is False or (ORIGINS[origin] is None and method == "POST" and TOKENS[token] != "bearer"):
        return 403
    is_public = path == "/api/login" or (method == "GET" and path in ("/", "/page/main.js"))
    if not is_public and TOKENS[token] is None:
        return 401
    return 200 if method == "GET" or TYPES[kind] else 415


async def statuses(
    cells: list[tuple[str, str | None, str, str, str, str]],
) -> tuple[list[int], list[dict[bytes, bytes]]]:
    found, responses = [], []

    async def inner(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"Cache-Control", b"public")]})

    async def receive():
        return {"type": "http.request", "body": b"{}"}

    async def send(message):
        if message["type"] == "http.response.start":
            found.append(message["status"])
            responses.append(dict(message["headers"]))
            assert len(responses[-1]) == len(message["headers"])  # no duplicates

    middleware = SecurityMiddleware(inner, CREDENTIALS, lambda path: 1000)
    for host, origin, token, method, kind, path in cells:
        page = f"http://{host.lower()}" if origin == "own" else origin
        headers = [(b"host", host.encode())] if host else []
        headers += [(b"origin", page.encode())] if page is not None else []
        headers += [*token_headers(token), (b"content-type", kind.encode())]
        await middleware({"type": "http", "method": method, "path": path, "headers": headers}, receive, send)
    return found, responses


@pytest.mark.parametrize("every", [31, pytest.param(1, marks=pytest.mark.long)])
def test_exactly_the_valid_requests_are_accepted(every):
    """All combinations, or every 31st: 31 has no common factor with the number of values of any kind."""
    paths = [*PATHS, *(f"/api/{name}" for name in list(ROUTES)[:2])]
    cells = list(itertools.product(HOSTS, ORIGINS, TOKENS, METHODS, TYPES, paths))[::every]
    found, responses = run_async(statuses(cells))
    mismatches = [(cell, status) for cell, status in zip(cells, found, strict=True) if status != expected(*cell)]
    assert not mismatches, mismatches[:5]
    assert {200, 401, 403, 405, 415, 421} == set(found)
    assert all(response.items() >= EXPECTED_HEADERS.items() for response in responses)
    assert not any(name.lower().startswith(b"access-control") for response in responses for name in response)
    assert not any(b"public" in response.values() for response in responses)


async def send_request(
    headers: list[tuple[bytes, bytes]], messages: list[dict] | None = None, **scope
) -> tuple[list, list]:
    """The bodies that the middleware passes to the application and the statuses that it sends, for these messages."""
    received, sent = [], []

    async def inner(scope, receive, send):
        received.append((await receive())["body"])

    async def send(message):
        sent.append(message)

    incoming = iter(messages or [{"type": "http.request"}])

    async def receive():
        return next(incoming)

    request = {"type": "http", "method": "POST", "path": "/api/predict", "headers": headers, **scope}
    await SecurityMiddleware(inner, CREDENTIALS, lambda path: 10)(request, receive, send)
    return received, [message.get("status") for message in sent][:1]


VALID_HEADERS = [
    (b"host", b"127.0.0.1:7777"),
    (b"authorization", b"Bearer " + CREDENTIALS.token.encode()),
    (b"content-type", b"application/json"),
]


def part(body: bytes, more: bool = True) -> dict:
    return {"type": "http.request", "body": body, "more_body": more}


@pytest.mark.parametrize(
    ("messages", "body", "status"),
    [
        ([part(b"[1,"), part(b"2]", False)], b"[1,2]", None),
        ([part(b"[123456", True), part(b"78]", False)], b"[12345678]", None),
        ([part(b"[123456", True), part(b"789]", False)], None, 413),
        ([part(b"[1,"), {"type": "http.disconnect"}], None, 400),
    ],
    ids=["in parts", "maximum size", "one byte too long", "incomplete"],
)
def test_a_body_is_passed_on_completely_or_rejected(messages, body, status):
    assert run_async(send_request(VALID_HEADERS, messages)) == ([body] if body else [], [status] if status else [])


def test_only_http_requests_have_responses():
    assert run_async(send_request(VALID_HEADERS, type="websocket")) == ([], [])


@pytest.mark.parametrize("bearer", ["bearer {}", "BEARER   {}"])
def test_the_authorization_scheme_is_not_case_sensitive(bearer):
    headers = [VALID_HEADERS[0], (b"Authorization", bearer.format(CREDENTIALS.token).encode()), VALID_HEADERS[2]]
    assert run_async(send_request(headers)) == ([b""], [])


@pytest.mark.parametrize("kinds", [[], [b"application/json"] * 2])
def test_a_request_has_exactly_one_content_type(kinds):
    assert run_async(send_request([*VALID_HEADERS[:2], *((b"content-type", kind) for kind in kinds)])) == ([], [415])


def test_the_size_of_headers_includes_their_names():
    space = (16 << 10) - sum(len(name) + len(value) for name, value in VALID_HEADERS)
    assert run_async(send_request([*VALID_HEADERS, (b"x" * (space - 1), b"y")])) == ([b""], [])
    assert run_async(send_request([*VALID_HEADERS, (b"x" * space, b"y")])) == ([], [431])


@pytest.mark.parametrize("name", ["Host", "Origin", "Authorization"])
def test_a_duplicate_header_is_invalid(name):
    valid = {
        "Host": HOST_HEADER["Host"],
        "Origin": f"http://{HOST_HEADER['Host']}",
        "Authorization": f"Bearer {CREDENTIALS.token}",
    }
    other = {"Host": "evil.example", "Origin": "http://evil.example", "Authorization": "Bearer no"}[name]
    headers = [*valid.items(), (name, other)]
    assert Client(make_app(workspace())).send("GET", "/api/runs", headers=headers).status_code in (401, 403, 421)  # type: ignore[arg-type]
    assert Client(make_app(workspace())).send("GET", "/api/runs", headers=valid).status_code == 200


class TestToken:
    def test_it_has_256_bits_and_is_always_different(self):
        assert len({Credentials(1).token for _ in range(50)}) == 50
        assert len(CREDENTIALS.token) == 43  # 32 bytes in base64

    def test_the_link_has_it_in_the_fragment(self):
        assert CREDENTIALS.link == f"http://127.0.0.1:7777/#token={CREDENTIALS.token}"

    def test_it_is_not_part_of_the_repr(self):
        assert CREDENTIALS.token not in repr(CREDENTIALS)

    def test_it_is_exchanged_for_a_valid_cookie(self):
        client = Client(make_app(workspace()))
        headers = {**HOST_HEADER, "Origin": f"http://{HOST_HEADER['Host']}"}
        response = client.send("POST", "/api/login", headers, json={"token": CREDENTIALS.token})
        cookie = response.headers["set-cookie"]
        assert {"httponly", "samesite=strict", "path=/"} <= {part.strip().lower() for part in cookie.split(";")}
        assert client.send("GET", "/api/runs", {**HOST_HEADER, "Cookie": cookie.split(";")[0]}).status_code == 200

    @pytest.mark.parametrize(
        "token", ["", "x", CREDENTIALS.token[:-1], CREDENTIALS.token + "x", "é" * 43, "\0"], ids=range(6)
    )
    def test_another_token_gets_no_cookie(self, token):
        response = Client(make_app(workspace())).send(
            "POST", "/api/login", {**HOST_HEADER, "Origin": f"http://{HOST_HEADER['Host']}"}, json={"token": token}
        )
        assert response.status_code == 401
        assert "set-cookie" not in response.headers


class TestLimits:
    def test_long_headers_are_rejected(self):
        client = Client(make_app(workspace()))
        assert client.send("GET", "/", {**HOST_HEADER, "X-Long": "x" * MAX_HEADER_BYTES}).status_code == 431
        assert client.send("GET", "/", {**HOST_HEADER, "X-Long": "x" * (MAX_HEADER_BYTES // 2)}).status_code == 200

    def test_a_large_request_is_rejected(self):
        client = Client(make_app(workspace()))
        assert client.post("runs/metrics", run="r1", padding="x" * (1 << 20)).status_code == 413
        assert client.post("runs/metrics", run="r1", padding="x" * 1000).status_code == 422

    def test_a_deeply_nested_request_is_rejected(self):
        client = Client(make_app(workspace()))
        for levels, status in ((MAX_JSON_DEPTH, 422), (MAX_JSON_DEPTH + 1, 400), (100_000, 400)):
            response = client.send("POST", "/api/predict", content="[" * levels + "]" * levels, headers=_json())
            assert response.status_code == status

    @pytest.mark.parametrize(
        ("text", "levels"),
        [
            ('{"a": "[[[["}', 1), ('{"a": "\\"[[["}', 1), ('{"a\\\\": [["', 3), ('"[[[', 0), ('"\\', 0), ("[][][]", 1),
            ('"\\"[', 0), ("", 0),
        ],
    )  # fmt: skip
    def test_brackets_in_texts_do_not_count(self, text, levels):
        assert json_depth(text.encode()) == levels

    def test_depth_is_computed_in_linear_time(self):
        for content in (b'"\\' * 500_000, b'"' * 1_000_000, b"\\" * 1_000_000, b"[]" * 100_000):
            assert json_depth(content) <= 1
        assert json_depth(b"[" * 1_000_000) == 33  # the count stops here

    def test_limits_are_the_documented_ones(self):
        """The limits in `docs/explorer.md`."""
        assert (security.MAX_HEADER_BYTES, security.MAX_JSON_DEPTH, security.BODY_TIMEOUT) == (16_384, 32, 30)
        assert (server.MAX_CONNECTIONS, server.HEADER_TIMEOUT) == (200, 30)
        assert (job_queue.MAX_WAITING, job_queue.JOB_TIMEOUT) == (16, 120)
        assert (schemas.MAX_CHARACTERS, schemas.MAX_SHOWN_TOKENS) == (20_000, 1_000)
        assert (routes.MAX_TEXT_BYTES, routes.MAX_MEDIA_BYTES) == (1 << 20, 20 << 20)
        assert (runs.MAX_POINTS, offline.MAX_PAGE_BYTES) == (4_000, 48 << 20)


def _json() -> dict[str, str]:
    return {**HOST_HEADER, "Authorization": f"Bearer {CREDENTIALS.token}", "Content-Type": "application/json"}


def test_an_internal_error_is_reported_by_its_id_only(monkeypatch, capsys):
    def broken(*_):
        raise RuntimeError("secret in a secret place")

    monkeypatch.setattr("seq2see.explorer.server.list_runs", broken)
    response = Client(make_app(workspace())).send("GET", "/api/runs")
    fields = response.json()
    assert response.status_code == 500
    assert "secret" not in response.text
    assert "Traceback" not in response.text
    assert f"error {fields['id']}\n" in (printed := capsys.readouterr().err)
    assert "in broken" in printed  # the traceback
    assert response.headers["content-security-policy"] == SECURITY_HEADERS["content-security-policy"]
    assert json.loads(response.text) == fields
