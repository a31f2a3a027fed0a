"""Screenshots of every view in both languages: `make screenshots`.

Without arguments the tiny runs of the tests are trained. The images are in `.cache/screenshots`: one for each run, view
and language, light in English and dark in Chinese.
"""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests"))

from conftest import CHROMIUM, DRAWN  # noqa: E402
from seq2see.explorer.server import serve_in_thread  # noqa: E402
from seq2see.explorer.workspace import Workspace  # noqa: E402
from tiny_runs import RUNS, tiny_run  # noqa: E402

OUT = ROOT / ".cache" / "screenshots"
COLOR_SCHEMES = {"en": "light", "zh": "dark"}


def screenshots_of(page: Page, link: str, name: str, run: str) -> int:
    """Save screenshots of every view that supports a run, and return their number."""
    page.goto("about:blank")
    page.goto(f"{link}&{urlencode({'run': run})}")
    page.wait_for_selector("nav a")
    views = page.locator("nav a").evaluate_all("links => links.map((link) => link.dataset.view)")
    for view in views:
        for language, theme in COLOR_SCHEMES.items():
            page.goto("about:blank")
            page.goto(f"{link}&{urlencode({'run': run, 'view': view, 'lang': language, 'theme': theme})}")
            page.wait_for_selector(f"{DRAWN}, .error")
            page.screenshot(path=OUT / f"{name} {view} {language}.png", full_page=True)
    return len(views)


def main(names: list[str]) -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    workspace = Workspace.open(names or [str(tiny_run(name, ROOT / ".cache" / "tiny-runs")) for name in RUNS])
    labels = [Path(name).name for name in names] or list(RUNS)
    with serve_in_thread(workspace) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900}, locale="en-GB")
        for run, label in zip(workspace.runs, labels, strict=True):
            print(f"{label}: {screenshots_of(page, server.link, label, run)} views")
        browser.close()
    print(f"images in {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main(sys.argv[1:])
