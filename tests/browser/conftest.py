"""A server with tiny runs and one Chromium for all tests of this folder; a test gets a page that forgives no error.

    def test_it_shows_what_the_model_does(open_view, runs):
        page = open_view("attention", run="transformer", text="红猫", layer=1)
        assert shown(page, "canvas")["rows"] == [...]          # what a canvas shows, as data
        model = runs.model("transformer")                      # the same model in Python, to compare with

Whatever the browser complains of (an error, a refused request, a broken content policy) fails the test.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from filelock import FileLock

from seq2see.explorer.bench import Bench
from seq2see.explorer.server import serving
from tiny_runs import RUNS, tiny_run

NEEDED = "SEQ2SEE_NEEDS_BROWSER"
"""Set in CI: a missing Chromium is a failure there, and not a reason to skip."""
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDE = {"test_code.py", "test_every_page.py", "test_keyboard.py", "test_long_texts.py"}
"""What looks at every page once more, for one thing alone: `make test-wide`."""
DRAWN = "section.view:not([aria-busy])"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here need a browser."""
    here = Path(__file__).parent
    for item in (each for each in items if here in each.path.parents):
        item.add_marker(pytest.mark.browser)
        if item.path.name in WIDE:
            item.add_marker(pytest.mark.wide)
        item.add_marker(pytest.mark.timeout(60, func_only=True))  # training the tiny runs is not the test
        if CHROMIUM is None and not os.environ.get(NEEDED):
            item.add_marker(pytest.mark.skip(reason="needs Chromium: `apt install chromium fonts-wqy-microhei`"))


@dataclass(frozen=True)
class Runs:
    """The runs on the bench, by the names of their families."""

    bench: Bench
    link: str

    def id(self, name: str) -> str:
        """What the page calls a run."""
        return f"r{list(RUNS).index(name) + 1}"

    def model(self, name: str) -> Any:
        """The model that the server answers with."""
        return self.bench.run(self.id(name)).model


@pytest.fixture(scope="package")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """One tiny run of each family on a server in a thread; every worker has its own copies, which tests may change."""
    shelf = tmp_path_factory.getbasetemp() / "explored"
    if os.environ.get("PYTEST_XDIST_WORKER"):  # whoever comes first trains them for all
        shared = tmp_path_factory.getbasetemp().parent / "trained"
        with FileLock(shared.with_suffix(".lock")):
            for name in RUNS:
                tiny_run(name, shared)
            shutil.copytree(shared, shelf)
    bench = Bench.open([str(tiny_run(name, shelf)) for name in RUNS])
    with serving(bench) as keys:
        yield Runs(bench, keys.link)


@pytest.fixture(scope="package")
def chromium() -> Iterator[Any]:
    """One browser."""
    from playwright.sync_api import sync_playwright

    assert CHROMIUM, "there is no Chromium, and the environment says that there must be"
    with sync_playwright() as playwright:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=sandbox)
        yield browser
        browser.close()


class Watched:
    """What a page complained of; a test that provokes a refusal names its status in `allowed`."""

    def __init__(self, page: Any):
        self.allowed: set[int] = set()
        self._found: list[tuple[int, str]] = []
        page.on("console", lambda said: said.type in ("error", "warning") and self._note(0, said.text))
        page.on("pageerror", lambda error: self._note(0, str(error)))
        page.on("requestfailed", self._failed)
        page.on("response", lambda got: got.status >= 400 and self._note(got.status, f"{got.status} {got.url}"))

    @property
    def faults(self) -> list[str]:
        """All that was not allowed; the console repeats what a response said already."""
        repeated = "Failed to load resource" if self.allowed else None
        return [text for status, text in self._found if status not in self.allowed and not _begins(text, repeated)]

    def _note(self, status: int, text: str) -> None:
        self._found.append((status, text))

    def _failed(self, request: Any) -> None:
        if "ERR_ABORTED" not in (request.failure or ""):  # the page itself no longer wanted it
            self._note(0, f"{request.url}: {request.failure}")


def _begins(text: str, beginning: str | None) -> bool:
    return beginning is not None and text.startswith(beginning)


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    """An empty page in English, 1280 × 900, that is watched: `page.watched.allowed` names statuses to forgive."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB")
    page = context.new_page()
    page.set_default_timeout(10_000)
    page.watched = Watched(page)
    yield page
    faults = page.watched.faults
    context.close()
    assert not faults, "\n".join(faults)


@pytest.fixture
def open_view(page: Any, runs: Runs) -> Callable[..., Any]:
    """Opens a view of a run, with what else the link is to say, and waits until it is drawn.

    A page that is open already only follows the link, as it does for people who paste one.
    """
    home, _, token = runs.link.partition("#")

    def open_it(view: str, run: str = "transformer", **state: Any) -> Any:
        second = {"second": runs.id(state.pop("second"))} if "second" in state else {}
        link = urlencode({"view": view, "run": runs.id(run), **second, **state})
        if page.url.startswith(home):
            page.evaluate("document.querySelectorAll('.view, .complaint').forEach((each) => each.remove())")
            page.evaluate("link => { location.hash = ''; location.hash = link; }", link)
        else:
            page.goto(f"{home}#{token}&{link}")
        page.wait_for_selector(f"{DRAWN}, .complaint")
        return page

    return open_it
