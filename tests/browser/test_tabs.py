"""The shared page reports every error, and only to the test that caused it."""

from __future__ import annotations

import pytest
from tabs import Tab


def test_an_error_of_a_page_is_reported_once(open_view, page):
    open_view("tokenize")
    page.evaluate("() => { console.error('oh'); setTimeout(() => { throw new Error('dear'); }); }")
    page.evaluate("() => fetch('/api/nowhere').then(() => fetch('http://127.0.0.1:9/')).catch(() => {})")
    page.mouse.move(1, 1)
    report = "\n".join(page.monitor.report())
    for part in ("oh", "dear", "404", "/api/nowhere", "Content Security Policy"):
        assert part in report
    assert page.monitor.report() == []


def test_an_allowed_status_is_no_fault_and_only_in_one_test(open_view, page):
    open_view("tokenize")
    page.monitor.allowed.add(404)
    page.evaluate("() => fetch('/api/nowhere')")
    assert page.monitor.report() == []
    assert page.monitor.allowed == set()
    assert page.monitor.requests == []


@pytest.mark.usefixtures("fresh")
def test_a_page_is_shared_until_it_is_closed(tab: Tab):
    page = tab.page()
    assert tab.page() is page
    tab.close()
    assert page.is_closed()
    another = tab.page()
    assert another is not page
    assert another.viewport_size == {"width": 1280, "height": 900}
