"""Path traversal: thousands of paths, in addresses and in every text; only files of the page and of runs are opened.

An audit hook records every file that Python opens, even if no response contains it.
"""

from __future__ import annotations

import random
import sys
import sysconfig
from pathlib import Path
from urllib.parse import unquote

import pytest
from tiny_workspace import BEARER, Client, make_app, run_async, workspace

import seq2see
from seq2see.explorer.offline import PAGE
from seq2see.explorer.routes import ROUTES

DOTS = ("..", "%2e%2e", ".%2e", "%2E.", "..;", "..%00", "%252e%252e", "\u2024\u2024", "\uff0e\uff0e", "....", ".")
SLASHES = ("/", "\\", "%2f", "%5c", "%252f", "\u2215", "\u2044", "\uff0f", "\u29f8", "//", "/./", ";/", "%c0%af")
ROOTS = (
    "",
    "/",
    "//",
    "\\\\127.0.0.1\\c$\\",
    "file:///",
    "file://localhost/",
    "C:\\",
    "C:/",
    "~/",
    "~root/",
    "\0",
    "%00",
)
ENDS = ("", "%00", "%00.js", ".js", "?.js", "#.js", ";.js", " ", ".", "/", "::$DATA", "\r\n", "%0d%0a")
SECRET = "a secret text"


def path(rng: random.Random, target: str) -> str:
    """A random path to a target."""
    step = rng.choice(DOTS) + rng.choice(SLASHES)
    inside = rng.choice(("", "views/", "parts/", "main.js/", "runs/"))
    return rng.choice(ROOTS) + inside + step * rng.randrange(13) + target + rng.choice(ENDS)


def targets(folder: Path) -> list[str]:
    """Targets of attacks: a file next to the runs, a file of this package outside the page, and system files."""
    files = ["secret.txt", "half-done/recipe.toml", "server.py", "explorer/security.py", "index.html", "views"]
    return [*files, str(folder / "secret.txt"), "etc/passwd", "/etc/passwd", "proc/self/environ", "Windows/win.ini"]


class OpenedFiles:
    """The names of all files that are opened while it is active."""

    def __init__(self):
        self.names: set[str] | None = None
        sys.addaudithook(self.record)

    def record(self, event: str, arguments: tuple) -> None:
        if self.names is not None and event in ("open", "os.listdir", "os.scandir"):
            self.names |= {str(arguments[0])} if isinstance(arguments[0], str | bytes) else set()

    def outside(self, *allowed: Path) -> list[str]:
        """The files outside these folders."""
        return [name for name in self.names or () if not any(Path(name).is_relative_to(each) for each in allowed)]


OPENED = OpenedFiles()


@pytest.fixture
def opened():
    OPENED.names = set()
    yield OPENED
    OPENED.names = None


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    (root / "secret.txt").write_text(SECRET, encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def app(folder):
    application = make_app(workspace(folder))
    run_async(get_all(application, ["/"]))  # the first response makes Python open its own source files
    return application


async def get_all(app, paths: list[str]) -> list[tuple[int, bytes]]:
    """GET these raw paths: a client library would normalize them."""
    found: list[tuple[int, bytes]] = []
    headers = [(name.lower().encode(), value.encode()) for name, value in BEARER.items()]

    async def receive():
        return {"type": "http.request", "body": b""}

    for each in paths:
        status, body = 0, b""

        async def send(message):
            nonlocal status, body
            status, body = message.get("status", status), body + message.get("body", b"")

        raw = each.encode("utf-8", "surrogatepass")
        scope = {"type": "http", "method": "GET", "path": unquote(each), "raw_path": raw, "query_string": b""}
        await app({**scope, "root_path": "", "headers": headers}, receive, send)
        found.append((status, body))
    return found


@pytest.mark.parametrize(("seed", "count"), [(1, 300), pytest.param(2, 5_000, marks=pytest.mark.long)])
def test_no_path_leads_out_of_the_page(app, folder, opened, seed, count):
    rng, goals = random.Random(seed), targets(folder)
    paths = [f"{start}{path(rng, rng.choice(goals))}" for _ in range(count) for start in ("/page/", "/", "/api/")]
    responses = run_async(get_all(app, paths))
    page = {file.read_bytes() for file in PAGE.rglob("*") if file.is_file()}
    assert {status for status, _ in responses} <= {200, 404, 405}
    assert all(body in page for status, body in responses if status == 200)
    assert not any(SECRET.encode() in body for _, body in responses)
    assert not opened.outside(PAGE)


def body_of(name: str, text: str) -> dict[str, object]:
    """A request with one text in all fields that accept a text."""
    schema = ROUTES[name].request_model.model_json_schema()["properties"]
    return {key: value for key, each in schema.items() if key != "run" and (value := _filled(each, text)) is not None}


def _filled(schema: dict, text: str) -> object:
    options = schema.get("anyOf", [schema])
    for each in options:
        if "enum" in each or "const" in each:
            return each.get("enum", [None])[0]
        if each.get("type") == "string":
            return text
        if each.get("type") == "array" and each.get("items", {}).get("type") == "string":
            return [text] * max(1, each.get("minItems", 1))
    return None


@pytest.mark.parametrize(
    ("runs", "count"), [(("r5", "r7"), 1), pytest.param(("r1", "r5", "r6", "r7"), 2, marks=pytest.mark.long)]
)
def test_no_text_of_a_request_is_a_file_name(app, folder, opened, runs, count):
    rng, goals = random.Random(count), targets(folder)
    numbers = {"layer": 0, "row": 0, "word": 0, "step": 10}
    requests = [
        {
            "method": "POST",
            "url": f"/api/{name}",
            "headers": BEARER,
            "json": {"run": run, **more, **body_of(name, text)},
        }
        for name, route in ROUTES.items()
        for more in [{key: value for key, value in numbers.items() if key in route.request_model.model_fields}]
        for run in runs
        for text in [unquote(path(rng, rng.choice(goals))) for _ in range(count)]
    ]
    for request, response in zip(requests, Client(app).all(requests), strict=True):
        assert response.status_code in (200, 404, 422), request
        assert SECRET not in response.text
    python = [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")]
    folders = [folder / name for name in ("half-done", "evaluated", "labeled")]
    system = map(Path, ("/usr", "/proc", "/sys"))  # torch and numpy read these
    assert not opened.outside(Path(seq2see.__file__).parent, *folders, *python, *system)


def test_the_audit_hook_records_opened_files(opened, folder):
    (folder / "secret.txt").read_text(encoding="utf-8")
    assert opened.outside(PAGE) == [str(folder / "secret.txt")]
    assert opened.outside(folder) == []
