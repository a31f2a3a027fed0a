"""The page that tests of one worker share, and who listens to what it complains of."""

from __future__ import annotations

from typing import Any


class PageMonitor:
    """What a page asked for and complained of; a test that provokes a refusal names its status in `allowed`."""

    def __init__(self, page: Any):
        self.allowed: set[int] = set()
        self.asked: list[Any] = []
        self._found: list[tuple[int, str]] = []
        page.on("request", lambda request: self.asked.append(request))
        page.on("console", lambda said: said.type in ("error", "warning") and self._note(0, said.text))
        page.on("pageerror", lambda error: self._note(0, str(error)))
        page.on("requestfailed", self._failed)
        page.on("response", lambda got: got.status >= 400 and self._note(got.status, f"{got.status} {got.url}"))

    def report(self) -> list[str]:
        """All that was not allowed, told once; the console repeats what a response said already."""
        repeated = ("Failed to load resource",) if self.allowed else ()
        faults = [text for status, text in self._found if status not in self.allowed and not text.startswith(repeated)]
        self.asked, self._found, self.allowed = [], [], set()
        return faults

    def _note(self, status: int, text: str) -> None:
        self._found.append((status, text))

    def _failed(self, request: Any) -> None:
        if "ERR_ABORTED" not in (request.failure or ""):  # the page itself no longer wanted it
            self._note(0, f"{request.url}: {request.failure}")


class Tab:
    """One page of a browser, opened when it is wanted, and anew after it was closed."""

    def __init__(self, browser: Any):
        self._browser = browser
        self._page: Any = None

    def page(self) -> Any:
        """An English page, 1280 × 900; the one that is open, if one is."""
        if self._page is None:
            context = self._browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB")
            self._page = context.new_page()
            self._page.set_default_timeout(10_000)
            self._page.monitor = PageMonitor(self._page)
        return self._page

    def close(self) -> None:
        """With its cookies, its history and all that was stored."""
        if self._page is not None:
            self._page.context.close()
            self._page = None
