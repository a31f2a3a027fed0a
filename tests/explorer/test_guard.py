"""Who is let in: every combination of host, page, token, method, content type and path."""

from __future__ import annotations

import itertools
import json

import pytest
from benches import KEYS, OWN, Client, app_of, bench, by_itself

from seq2see.explorer.guard import HEADERS, MOST_DEPTH, MOST_HEADER_BYTES, Guard, Keys, depth
from seq2see.explorer.routes import ROUTES

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
    "application/json": True, "application/json; charset=utf-8": True, "text/plain": False, "": False,
    "application/x-www-form-urlencoded": False, "multipart/form-data; boundary=x": False,
}  # fmt: skip
PATHS = (
    "/",
    "/page/main.js",
    "/api/enter",
    "/api/runs",
    "/api/openapi.json",
    "/api/nothing",
    "/api//enter",
    "/nothing",
)


def token_headers(name: str) -> list[tuple[bytes, bytes]]:
    token = KEYS.token.encode()
    found = {
        "bearer": (b"authorization", b"Bearer " + token),
        "wrong bearer": (b"authorization", b"Bearer " + token[::-1]),
        "half a bearer": (b"authorization", b"Bearer " + token[:-1]),
        "token as basic": (b"authorization", b"Basic " + token),
        "cookie": (b"cookie", b"a=b; seq2see-7777=" + token),
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
    open_to_all = path == "/api/enter" or (method == "GET" and path in ("/", "/page/main.js"))
    if not open_to_all and TOKENS[token] is None:
        return 401
    return 200 if method == "GET" or TYPES[kind] else 415


async def statuses(
    cells: list[tuple[str, str | None, str, str, str, str]],
) -> tuple[list[int], list[dict[bytes, bytes]]]:
    found, answers = [], []

    async def inner(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"cache-control", b"public")]})

    async def receive():
        return {"type": "http.request", "body": b"{}"}

    async def send(message):
        if message["type"] == "http.response.start":
            found.append(message["status"])
            answers.append(dict(message["headers"]))

    guard = Guard(inner, KEYS, lambda path: 1000)
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
    found, answers = by_itself(statuses(cells))
    wrong = [(cell, status) for cell, status in zip(cells, found, strict=True) if status != expected(*cell)]
    assert not wrong, wrong[:5]
    assert {200, 401, 403, 405, 415, 421} == set(found)
    assert all(answer[name.encode()] == value.encode() for answer in answers for name, value in HEADERS.items())
    assert not any(name.startswith(b"access-control") for answer in answers for name in answer)


@pytest.mark.parametrize("twice", ["Host", "Origin", "Authorization"])
def test_a_header_that_is_given_twice_is_not_believed(twice):
    right = {"Host": OWN["Host"], "Origin": f"http://{OWN['Host']}", "Authorization": f"Bearer {KEYS.token}"}
    other = {"Host": "evil.example", "Origin": "http://evil.example", "Authorization": "Bearer no"}[twice]
    headers = [*right.items(), (twice, other)]
    assert Client(app_of(bench())).send("GET", "/api/runs", headers=headers).status_code in (401, 403, 421)  # type: ignore[arg-type]
    assert Client(app_of(bench())).send("GET", "/api/runs", headers=right).status_code == 200


class TestToken:
    def test_it_has_256_bits_and_is_another_every_time(self):
        assert len({Keys(1).token for _ in range(50)}) == 50
        assert len(KEYS.token) == 43  # 32 bytes in base64

    def test_it_does_not_show_when_keys_are_printed(self):
        assert KEYS.token not in repr(KEYS)

    def test_it_is_changed_for_a_cookie_that_lets_in(self):
        client = Client(app_of(bench()))
        own = {**OWN, "Origin": f"http://{OWN['Host']}"}
        answer = client.send("POST", "/api/enter", own, json={"token": KEYS.token})
        cookie = answer.headers["set-cookie"]
        assert {"httponly", "samesite=strict", "path=/"} <= {part.strip().lower() for part in cookie.split(";")}
        assert client.send("GET", "/api/runs", {**OWN, "Cookie": cookie.split(";")[0]}).status_code == 200

    @pytest.mark.parametrize("token", ["", "x", KEYS.token[:-1], KEYS.token + "x", "é" * 43, "\0"], ids=range(6))
    def test_another_token_gets_no_cookie(self, token):
        answer = Client(app_of(bench())).send(
            "POST", "/api/enter", {**OWN, "Origin": f"http://{OWN['Host']}"}, json={"token": token}
        )
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers


class TestLimits:
    def test_long_headers_are_refused(self):
        client = Client(app_of(bench()))
        assert client.send("GET", "/", {**OWN, "X-Long": "x" * MOST_HEADER_BYTES}).status_code == 431
        assert client.send("GET", "/", {**OWN, "X-Long": "x" * (MOST_HEADER_BYTES // 2)}).status_code == 200

    def test_a_long_question_is_refused(self):
        client = Client(app_of(bench()))
        assert client.ask("runs/metrics", run="r1", padding="x" * (1 << 20)).status_code == 413
        assert client.ask("runs/metrics", run="r1", padding="x" * 1000).status_code == 422

    def test_a_deep_question_is_refused(self):
        client = Client(app_of(bench()))
        for levels, status in ((MOST_DEPTH, 422), (MOST_DEPTH + 1, 400), (100_000, 400)):
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
        assert depth(text.encode()) == levels

    def test_depth_is_found_quickly_whatever_was_sent(self):
        for content in (b'"\\' * 500_000, b'"' * 1_000_000, b"\\" * 1_000_000, b"[]" * 100_000):
            assert depth(content) <= 1


def _json() -> dict[str, str]:
    return {**OWN, "Authorization": f"Bearer {KEYS.token}", "Content-Type": "application/json"}


def test_what_goes_wrong_inside_is_told_by_a_number_alone(monkeypatch, capsys):
    def broken(*_):
        raise RuntimeError("secret in a secret place")

    monkeypatch.setattr("seq2see.explorer.server.listed", broken)
    answer = Client(app_of(bench())).send("GET", "/api/runs")
    told = answer.json()
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    assert told["id"] in capsys.readouterr().err
    assert answer.headers["content-security-policy"] == HEADERS["content-security-policy"]
    assert json.loads(answer.text) == told
