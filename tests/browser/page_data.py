"""Access to the data of a page: a canvas or a chart has its numbers in `element.viewData`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PLAIN = """element => JSON.parse(JSON.stringify(element.viewData, (key, value) => {
  if (ArrayBuffer.isView(value)) return Array.from(value);
  return typeof value === "number" && !isFinite(value) ? String(value) : value;
}))"""


def view_data(page: Any, selector: str) -> Any:
    """The data of the first element of a selector."""
    return page.locator(selector).first.evaluate(PLAIN)


def link_state(page: Any) -> dict[str, str]:
    """The state in the address."""
    return page.evaluate("Object.fromEntries(new URLSearchParams(location.hash.slice(1)))")


def press(page: Any, *keys: str) -> None:
    """Press some keys."""
    for key in keys:
        page.keyboard.press(key)


WAIT_SCRIPT = """async ([argument, milliseconds]) => {
  const end = Date.now() + milliseconds;
  for (let error = ""; ; ) {
    try {
      const found = (EXPRESSION);
      if (typeof found === "function" ? found(argument) : found) return null;
    } catch (thrown) {
      error = ` (${thrown.message})`; // for example a missing element
    }
    if (Date.now() > end) return `timeout${error}`;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}"""


def views_of(page: Any) -> list[str]:
    """The views in the menu of a run."""
    return page.locator("nav a[data-view]").evaluate_all("links => links.map((link) => link.dataset.view)")


def wait_until(page: Any, expression: str, argument: Any = None, milliseconds: int = 10_000) -> None:
    """Wait until an expression or a function is true in the page.

    Playwright's `wait_for_function` needs `eval`, which the content security policy forbids. Polling in the page is
    faster, too.
    """
    failed = page.evaluate(WAIT_SCRIPT.replace("EXPRESSION", expression), [argument, milliseconds])
    assert failed is None, f"{failed}: {expression}"


FOLLOW_SCRIPT = """(link) => {
  for (const each of document.querySelectorAll(".view, .error")) each.remove();
  scrollTo(0, 0);
  if (location.hash === `#${link}`) dispatchEvent(new PopStateEvent("popstate"));
  else location.hash = link;
}"""
IS_DRAWN = "document.querySelector('section.view:not([aria-busy]), .error')?.offsetHeight > 0"


def follow_link(page: Any, link: str, milliseconds: int = 10_000) -> None:
    """Follow a link in an open page, and wait until its view is drawn."""
    page.evaluate(FOLLOW_SCRIPT, link)
    wait_until(page, IS_DRAWN, milliseconds=milliseconds)


HOLD_SCRIPT = """(route) => {
  const fetched = window.fetch;
  window.fetch = async (url, options) => {
    const response = fetched(url, options);
    if (url !== `/api/${route}` || window.fetch === fetched) return response;
    window.fetch = fetched;
    await new Promise((resolve) => (window.release = resolve));
    return response;
  };
}"""
RESPONSE_TIME = 250
"""Milliseconds after which a response that is not delayed has arrived."""


def delayed_response(page: Any, route: str) -> Callable[[], None]:
    """Delay the next response of a route until the returned function is called; later responses may arrive first."""
    page.evaluate(HOLD_SCRIPT, route)

    def release() -> None:
        wait_until(page, "'release' in window")
        page.evaluate("() => { window.release(); delete window.release; }")

    return release
