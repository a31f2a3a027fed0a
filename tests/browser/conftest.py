"""A server with tiny runs and one Chromium for all tests of this folder; a test gets a page that forgives no error.

    def test_it_shows_what_the_model_does(open_view, runs):
        page = open_view("attention", run="transformer", text="红猫", layer=1)
        assert shown(page, "canvas")["rows"] == [...]          # what a canvas shows, as data
        model = runs.model("transformer")                      # the same model in Python, to compare with

Whatever the browser complains of (an error, a refused request, a broken content policy) fails the test. All tests of
one worker share a page, since a fresh one takes longer than most of them: a view is opened by its link, as by somebody
who pastes one. A test that sizes its page, or leaves something behind that no link undoes, asks for `fresh`.
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
"""Set in CI: a missing Chromium is a failure there, and not a reason to skip."""
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRAWN = "section.view:not([aria-busy])"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here need a browser."""
    here = Path(__file__).parent
    for item in (each for each in items if here in each.path.parents):
        item.add_marker(pytest.mark.browser)
        item.add_marker(pytest.mark.timeout(60, func_only=True))  # training the tiny runs is not the test
        if CHROMIUM is None and not os.environ.get(BROWSER_REQUIRED):
            item.add_marker(pytest.mark.skip(reason="needs Chromium: `apt install chromium fonts-wqy-microhei`"))


FAILED = pytest.StashKey[bool]()


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """What became of a test so far, for those who tidy up after it."""
    item.stash[FAILED] = call.excinfo is not None


@dataclass(frozen=True)
class Runs:
    """The runs on the bench, by the names of their families."""

    workspace: Workspace
    link: str

    def id(self, name: str) -> str:
        """What the page calls a run."""
        return f"r{list(RUNS).index(name) + 1}"

    def model(self, name: str) -> Any:
        """The model that the server answers with."""
        return self.workspace.run(self.id(name)).model


@pytest.fixture(scope="package")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """One tiny run of each family on a server in a thread; every worker has its own copies, which tests may change."""
    root_folder = tmp_path_factory.getbasetemp() / "explored"
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):  # whoever comes first to a run trains it for all
        shared = tmp_path_factory.getbasetemp().parent / "trained"
        for name in sorted(RUNS, reverse=worker == "gw0"):  # so two begin at two ends
            with FileLock(shared.with_name(f"{name}.lock")), without_shape_checks():
                tiny_run(name, shared)
        shutil.copytree(shared, root_folder)
    with without_shape_checks():
        workspace = Workspace.open([str(tiny_run(name, root_folder)) for name in RUNS])
    with serve_in_thread(workspace) as keys:
        yield Runs(workspace, keys.link)


@pytest.fixture(scope="package")
def chromium() -> Iterator[Any]:
    """One browser."""
    from playwright.sync_api import sync_playwright

    assert CHROMIUM, "there is no Chromium, and the environment says that there must be"
    with sync_playwright() as playwright:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--disable-gpu", *sandbox])
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def tab(chromium: Any) -> Iterator[Tab]:
    """The page that tests share."""
    tab = Tab(chromium)
    yield tab
    tab.close()


@pytest.fixture
def fresh(tab: Tab) -> Iterator[None]:
    """The page of this test is new, and used by no other: asked for with `usefixtures`, which is done first."""
    tab.close()
    yield
    tab.close()


@pytest.fixture
def page(tab: Tab, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A page in English, 1280 × 900, that is watched: `page.monitor.allowed` names statuses to forgive."""
    page = tab.page()
    yield page
    page.mouse.move(0, 0)  # pointing at nothing; and what the browser has to say is heard by now
    faults = page.monitor.report()
    if faults or request.node.stash[FAILED]:
        tab.close()  # who knows what is left in it
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
            follow_link(page, link)
        else:
            page.goto(f"{home}#{token}&{link}")
            page.wait_for_selector(f"{DRAWN}, .complaint")
        return page

    return open_it
