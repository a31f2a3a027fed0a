"""The layout around every view: login, links, languages, themes, the keyboard, narrow screens."""

from __future__ import annotations

import re

import pytest
from page_data import link_state, views_of, wait_until

from tiny_runs import RUNS, SCRIPT

DRAWN_WELL = """() => [document.querySelectorAll(".error").length,
  document.querySelector(".help p").textContent.length, document.documentElement.scrollWidth]"""


def test_the_token_is_exchanged_for_a_cookie_and_removed_from_the_address(open_view, page, runs):
    open_view("tokenize")
    assert "token" not in link_state(page)
    assert page.evaluate("document.cookie") == ""
    page.goto(runs.link.partition("#")[0] + "#view=tokenize&run=r2")
    page.reload()
    page.wait_for_selector("section.view-tokenize:not([aria-busy])")


@pytest.mark.usefixtures("fresh")
def test_without_a_token_there_is_no_data(page, runs):
    page.monitor.allowed = {401}
    page.goto(runs.link.partition("#")[0] + "#view=runs")
    assert "terminal" in page.locator(".error").inner_text()


def test_a_link_opens_the_same_view_and_back_goes_back(open_view, page):
    open_view("tokenize", text="红猫 & <b>")
    assert page.locator("textarea").input_value() == "红猫 & <b>"
    page.locator("nav a[data-view=runs]").click()
    page.wait_for_selector("section.view-runs:not([aria-busy])")
    assert link_state(page)["text"] == "红猫 & <b>"  # the input is shared by all views
    page.go_back()
    page.wait_for_selector("section.view-tokenize:not([aria-busy])")
    page.locator("select[name=run]").select_option("r1")
    page.wait_for_selector("section.view-tokenize:not([aria-busy])")
    assert link_state(page) == {"view": "tokenize", "run": "r1", "text": "红猫 & <b>"}


def test_language_and_theme_are_switched_and_stored_in_the_link(open_view, page):
    open_view("tokenize")
    assert page.locator("h1").inner_text() == "Tokenize"
    page.get_by_role("button", name="Switch to Chinese").click()
    assert page.locator("h1").inner_text() == "分词"
    assert page.evaluate("document.documentElement.lang") == "zh"
    page.locator("select[name=theme]").focus()
    page.locator("select[name=theme]").select_option("dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    assert {"lang": "zh", "theme": "dark"}.items() <= link_state(page).items()
    assert page.evaluate("document.activeElement.name") == "theme"  # the focus is restored


@pytest.mark.usefixtures("fresh")
def test_the_keyboard_skips_to_the_content(open_view, page):
    open_view("tokenize")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip-link"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"


@pytest.mark.timeout(120, func_only=True)
@pytest.mark.usefixtures("fresh")
def test_every_view_of_every_run_is_drawn_in_both_languages_and_on_a_narrow_screen(open_view, page):
    page.set_viewport_size({"width": 380, "height": 700})
    for run in RUNS:
        open_view("runs", run=run)
        views = views_of(page)
        assert "runs" in views
        for number, view in enumerate(views):
            open_view(view, run=run, lang=("en", "zh")[number % 2])
            errors, help_length, width = page.evaluate(DRAWN_WELL)
            assert errors == 0, (run, view)
            assert help_length > 40, (run, view)
            assert width <= 380, f"{view} of {run} is {width} pixels wide"


def test_what_looks_like_markup_stays_text(open_view, page):
    for view in ("runs", "tokenize"):
        open_view(view, text=SCRIPT)
        assert page.evaluate("document.querySelectorAll('body script, body i').length") == 0
        assert page.title().endswith("seq2see")
        assert "transformer <i>&" in page.locator("select[name=run]").inner_text()
    assert SCRIPT in page.locator(".view-tokenize textarea").input_value()
    open_view("runs", run="gpt")
    assert "<script>do" in page.locator("table.samples").inner_text()


def test_every_text_exists_in_both_languages(open_view, page):
    open_view("runs")
    tables = page.evaluate("""async () => {
      const { VIEWS } = await import("/page/views.js");
      return VIEWS.map(({ name, strings }) => [name, strings]);
    }""")
    for name, strings in tables:
        assert strings["en"].keys() == strings["zh"].keys(), name
        assert {"title", "hint", "help_text"} <= strings["en"].keys(), name
        empty = [key for language in strings.values() for key, text in language.items() if not text]
        assert not empty, name
        same = [text for key, text in strings["zh"].items() if text == strings["en"][key]]
        english = [text for text in same if len(re.findall(r"[a-z]{4,}", text)) > 3]  # a formula is equal in both
        assert not english, f"{name}: not translated"


def test_a_typed_text_is_the_input_of_another_view_too(open_view, page):
    open_view("tokenize", run="gpt", text="the cat")
    page.locator("textarea[name=text]").fill("the mat")
    wait_until(page, "location.hash.includes('mat')")
    page.locator("nav a[data-view=next-token]").click()
    page.wait_for_selector("section.view-next-token:not([aria-busy])")
    assert page.locator("textarea[name=text]").input_value() == "the mat"
