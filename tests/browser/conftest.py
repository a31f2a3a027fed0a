"""A server with tiny runs and one Chromium for all tests of this folder. An error of the page fails the test.

    def test_it_shows_what_the_model_does(open_view, runs):
        page = open_view("attention", run="transformer", text="红猫", layer=1)
        assert view_data(page, "canvas")["rows"] == [...]      # the data of a canvas
        model = runs.model("transformer")                      # the same model in Python, to compare with

Every error in the browser (an exception, a refused request, a violation of the content security policy) fails the test.
All tests of one worker share a page, since a new one takes longer than most tests: a view is opened by its link, as
when a user pastes one. A test that changes the size of its page, or other state that is not in a link, uses `fresh`.
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
from page_data import follow_link
from tabs import Tab

from seq2see.explorer.server import serve_in_thread
from seq2see.explorer.workspace import Workspace
from speedups import without_shape_checks
from tiny_runs import RUNS, tiny_run

BROWSER_REQUIRED = "SEQ2SEE_NEEDS_BROWSER"
"""Set in CI, where a missing Chromium is a failure."""
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRAWN = "section.view:not([aria-busy])"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder: they need a browser."""
    here = Path(__file__).parent
    for item in (each for each in items if here in each.path.parents):
        item.add_marker(pytest.mark.browser)
        item.add_marker(pytest.mark.timeout(60, func_only=True))  # without the training of the tiny runs
        if CHROMIUM is None and not os.environ.get(BROWSER_REQUIRED):
            item.add_marker(pytest.mark.skip(reason="needs Chromium: `apt install chromium fonts-wqy-microhei`"))


FAILED = pytest.StashKey[bool]()


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Store whether a test has failed, for the teardown of fixtures."""
    item.stash[FAILED] = call.excinfo is not None


@dataclass(frozen=True)
class Runs:
    """The runs of the workspace, by the names of their families."""

    workspace: Workspace
    link: str

    def id(self, name: str) -> str:
        """The id of a run."""
        return f"r{list(RUNS).index(name) + 1}"

    def model(self, name: str) -> Any:
        """The model of the server."""
        return self.workspace.run(self.id(name)).model


@pytest.fixture(scope="package")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """One tiny run of each family on a server in a thread; every worker has its own copies, which tests may change."""
    root_folder = tmp_path_factory.getbasetemp() / "explored"
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):  # the first worker trains a run for all workers
        shared = tmp_path_factory.getbasetemp().parent / "trained"
        for name in sorted(RUNS, reverse=worker == "gw0"):  # two workers start at opposite ends
            with FileLock(shared.with_name(f"{name}.lock")), without_shape_checks():
                tiny_run(name, shared)
        shutil.copytree(shared, root_folder)
    with without_shape_checks():
        workspace = Workspace.open([str(tiny_run(name, root_folder)) for name in RUNS])
    with serve_in_thread(workspace) as server:
        yield Runs(workspace, server.link)


@pytest.fixture(scope="package")
def launch() -> Iterator[Callable[..., Any]]:
    """A function that starts a browser with further flags."""
    from playwright.sync_api import sync_playwright

    assert CHROMIUM, f"{BROWSER_REQUIRED} is set, but there is no Chromium"
    flags = ["--disable-gpu", *["--no-sandbox"] * (os.geteuid() == 0)]
    with sync_playwright() as playwright:
        yield lambda *more: playwright.chromium.launch(executable_path=CHROMIUM, args=[*flags, *more])


@pytest.fixture(scope="package")
def chromium(launch: Callable[..., Any]) -> Iterator[Any]:
    """One browser."""
    browser = launch()
    yield browser
    browser.close()


@pytest.fixture(scope="package")
def tab(chromium: Any) -> Iterator[Tab]:
    """The shared page."""
    tab = Tab(chromium)
    yield tab
    tab.close()


@pytest.fixture
def fresh(tab: Tab) -> Iterator[None]:
    """A new page for this test only; with `usefixtures`, so that it is set up first."""
    tab.close()
    yield
    tab.close()


@pytest.fixture
def page(tab: Tab, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A monitored page in English, 1280 × 900; `page.monitor.allowed` contains statuses that are no faults."""
    page = tab.page()
    yield page
    page.mouse.move(0, 0)  # away from all elements; pending events of the browser arrive too
    faults = page.monitor.report()
    if faults or request.node.stash[FAILED]:
        tab.close()  # its state is unknown
    assert not faults, "\n".join(faults)


@pytest.fixture
def open_view(page: Any, runs: Runs) -> Callable[..., Any]:
    """Open a view of a run with the given state, and wait until it is drawn.

    A page that is already open only follows the link, as when a user pastes one.
    """
    home, _, token = runs.link.partition("#")

    def open_it(view: str, run: str = "transformer", **state: Any) -> Any:
        second = {"second": runs.id(state.pop("second"))} if "second" in state else {}
        link = urlencode({"view": view, "run": runs.id(run), **second, **state})
        if page.url.startswith(home):
            follow_link(page, link)
        else:
            page.goto(f"{home}#{token}&{link}")
            page.wait_for_selector(f"{DRAWN}, .error")
        return page

    return open_it
