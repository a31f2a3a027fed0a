"""Reading what a page shows as data: a canvas or a chart carries its numbers in `element.shown`."""

from __future__ import annotations

from typing import Any

PLAIN = """element => JSON.parse(JSON.stringify(element.shown, (key, value) => {
  if (ArrayBuffer.isView(value)) return Array.from(value);
  return typeof value === "number" && !isFinite(value) ? String(value) : value;
}))"""


def shown(page: Any, selector: str) -> Any:
    """What the first element of a selector shows."""
    return page.locator(selector).first.evaluate(PLAIN)


def link_of(page: Any) -> dict[str, str]:
    """What the address says."""
    return page.evaluate("Object.fromEntries(new URLSearchParams(location.hash.slice(1)))")


def until(page: Any, expression: str, argument: Any = None) -> None:
    """Wait until an expression of the page holds; Playwright's own way would need `eval`, which our policy forbids."""
    for _ in range(200):
        if page.evaluate(expression, argument):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"it never came to hold: {expression}")


LATE = """([route, milliseconds]) => {
  const fetched = window.fetch;
  window.fetch = async (address, given) => {
    const answer = fetched(address, given);
    if (address !== `/api/${route}` || window.fetch === fetched) return answer;
    window.fetch = fetched;
    await new Promise((resolve) => setTimeout(resolve, milliseconds));
    return answer;
  };
}"""


def late(page: Any, route: str, milliseconds: int = 700) -> None:
    """The next answer to a question comes late: what was asked after it may be answered first."""
    page.evaluate(LATE, [route, milliseconds])
