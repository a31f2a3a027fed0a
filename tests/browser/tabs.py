"""The page that the tests of one worker share, and a monitor of its errors."""

from __future__ import annotations

from typing import Any


class PageMonitor:
    """The requests and the errors of a page; a test that provokes an error adds its status to `allowed`."""

    def __init__(self, page: Any):
        self.allowed: set[int] = set()
        self.requests: list[Any] = []
        self._faults: list[tuple[int, str]] = []
        page.on("request", lambda request: self.requests.append(request))
        page.on("console", lambda message: message.type in ("error", "warning") and self._note(0, message.text))
        page.on("pageerror", lambda error: self._note(0, str(error)))
        page.on("requestfailed", self._failed)
        page.on("response", self._received)

    def report(self) -> list[str]:
        """All errors that are not allowed since the last report; the console repeats the errors of responses."""
        repeated = ("Failed to load resource",) if self.allowed else ()
        faults = [text for status, text in self._faults if status not in self.allowed and not text.startswith(repeated)]
        self.requests, self._faults, self.allowed = [], [], set()
        return faults

    def _received(self, response: Any) -> None:
        if response.status >= 400:
            self._note(response.status, f"{response.status} {response.url}")

    def _note(self, status: int, text: str) -> None:
        self._faults.append((status, text))

    def _failed(self, request: Any) -> None:
        if "ERR_ABORTED" not in (request.failure or ""):  # the page aborted it
            self._note(0, f"{request.url}: {request.failure}")


class Tab:
    """One page of a browser, opened on demand, and again after it was closed."""

    def __init__(self, browser: Any):
        self._browser = browser
        self._page: Any = None

    def page(self) -> Any:
        """The open page, or a new English page of 1280 × 900."""
        if self._page is None:
            context = self._browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB")
            self._page = context.new_page()
            self._page.set_default_timeout(10_000)
            self._page.monitor = PageMonitor(self._page)
        return self._page

    def close(self) -> None:
        """Close the page, and delete its cookies, history and storage."""
        if self._page is not None:
            self._page.context.close()
            self._page = None
