"""The page that tests share forgives no fault, and tells each to the test that caused it alone."""

from __future__ import annotations

import pytest
from tabs import Tab


def test_what_a_page_complains_of_is_told_once(open_view, page):
    open_view("tokenize")
    page.evaluate("() => { console.error('oh'); setTimeout(() => { throw new Error('dear'); }); }")
    page.evaluate("() => fetch('/api/nowhere').then(() => fetch('http://127.0.0.1:9/')).catch(() => {})")
    page.mouse.move(1, 1)
    told = "\n".join(page.monitor.report())
    for part in ("oh", "dear", "404", "/api/nowhere", "Content Security Policy"):
        assert part in told
    assert page.monitor.report() == []


def test_what_is_allowed_is_forgiven_and_only_in_one_test(open_view, page):
    open_view("tokenize")
    page.monitor.allowed.add(404)
    page.evaluate("() => fetch('/api/nowhere')")
    assert page.monitor.report() == []
    assert page.monitor.allowed == set()
    assert page.monitor.asked == []


@pytest.mark.usefixtures("fresh")
def test_a_page_is_one_until_it_is_closed(tab: Tab):
    page = tab.page()
    assert tab.page() is page
    tab.close()
    assert page.is_closed()
    again = tab.page()
    assert again is not page
    assert again.viewport_size == {"width": 1280, "height": 900}
