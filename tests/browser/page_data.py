"""Reading what a page shows as data: a canvas or a chart carries its numbers in `element.view_data`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PLAIN = """element => JSON.parse(JSON.stringify(element.shown, (key, value) => {
  if (ArrayBuffer.isView(value)) return Array.from(value);
  return typeof value === "number" && !isFinite(value) ? String(value) : value;
}))"""


def view_data(page: Any, selector: str) -> Any:
    """What the first element of a selector shows."""
    return page.locator(selector).first.evaluate(PLAIN)


def link_state(page: Any) -> dict[str, str]:
    """What the address says."""
    return page.evaluate("Object.fromEntries(new URLSearchParams(location.hash.slice(1)))")


def press(page: Any, *keys: str) -> None:
    """One key after another."""
    for key in keys:
        page.keyboard.press(key)


WAIT_SCRIPT = """async ([argument, milliseconds]) => {
  const end = Date.now() + milliseconds;
  for (let error = ""; ; ) {
    try {
      const found = (EXPRESSION);
      if (typeof found === "function" ? found(argument) : found) return null;
    } catch (thrown) {
      error = ` (${thrown.message})`; // such as what is not there yet
    }
    if (Date.now() > end) return `it never came to hold${error}`;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}"""


def views_of(page: Any) -> list[str]:
    """The views that the menu offers of a run."""
    return page.locator("nav a[data-view]").evaluate_all("links => links.map((link) => link.dataset.view)")


def wait_until(page: Any, expression: str, argument: Any = None, milliseconds: int = 10_000) -> None:
    """Wait until an expression or a function of the page holds.

    Playwright's own way would need `eval`, which our policy forbids; and a page asks itself faster than we can ask it.
    """
    failed = page.evaluate(WAIT_SCRIPT.replace("EXPRESSION", expression), [argument, milliseconds])
    assert failed is None, f"{failed}: {expression}"


FOLLOW_SCRIPT = """(link) => {
  for (const each of document.querySelectorAll(".view, .complaint")) each.remove();
  scrollTo(0, 0);
  if (location.hash === `#${link}`) dispatchEvent(new PopStateEvent("popstate"));
  else location.hash = link;
}"""
IS_DRAWN = "document.querySelector('section.view:not([aria-busy]), .complaint')?.offsetHeight > 0"


def follow_link(page: Any, link: str, milliseconds: int = 10_000) -> None:
    """A page that is open follows a link, and what it asks for is drawn when this returns."""
    page.evaluate(FOLLOW_SCRIPT, link)
    wait_until(page, IS_DRAWN, milliseconds=milliseconds)


HOLD_SCRIPT = """(route) => {
  const fetched = window.fetch;
  window.fetch = async (address, given) => {
    const answer = fetched(address, given);
    if (address !== `/api/${route}` || window.fetch === fetched) return answer;
    window.fetch = fetched;
    await new Promise((resolve) => (window.letGo = resolve));
    return answer;
  };
}"""
RESPONSE_TIME = 250
"""Milliseconds in which a question that is not held back is answered."""


def delayed_response(page: Any, route: str) -> Callable[[], None]:
    """The next answer to a question is held back until it is let go: what was asked after it may be answered first."""
    page.evaluate(HOLD_SCRIPT, route)

    def let_go() -> None:
        wait_until(page, "'letGo' in window")
        page.evaluate("() => { window.letGo(); delete window.letGo; }")

    return let_go
