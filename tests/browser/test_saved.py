"""A saved page: one file, opened from a disk, without requests, with the same contents."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from page_data import link_state, view_data, views_of

from seq2see.explorer.offline import saved_page, to_iframe
from seq2see.explorer.workspace import Workspace
from tiny_runs import SCRIPT

TEXT = f"红猫{SCRIPT}"


@pytest.fixture(scope="module")
def saved(runs, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "page.html"
    workspace = Workspace(
        {runs.id(name): runs.workspace.run(runs.id(name)) for name in ("recurrent", "transformer", "gpt", "vit")}
    )
    path.write_text(saved_page(workspace, TEXT), encoding="utf-8")
    return path


def test_it_opens_from_a_disk_without_requests_and_shows_the_same(open_view, page, saved, runs):
    open_view("runs", text=TEXT)
    live = view_data(page, "[data-metric=loss]")
    open_view("tokenize", text=TEXT)
    groups = page.locator(".token-groups").first.inner_text()
    page.goto("about:blank")
    page.monitor.requests.clear()
    page.goto(f"{saved.as_uri()}#{urlencode({'view': 'tokenize', 'run': 'r2', 'text': TEXT})}")
    assert page.locator(".token-groups").first.inner_text() == groups
    page.locator("nav a[data-view=runs]").click()
    page.wait_for_selector("[data-metric=loss]")
    assert view_data(page, "[data-metric=loss]") == live
    assert [each.url for each in page.monitor.requests] == [saved.as_uri()]
    assert page.title() != "taken"


@pytest.mark.parametrize("run", ["recurrent", "transformer", "gpt", "vit"])
def test_attention_is_saved_completely(open_view, page, saved, runs, run):
    open_view("attention", run=run, text=TEXT)
    page.wait_for_selector("[role=gridcell], .attention-grid canvas")
    live = view_data(page, ".attention-figure canvas")
    page.goto("about:blank")
    page.goto(f"{saved.as_uri()}#{urlencode({'view': 'attention', 'run': runs.id(run), 'text': TEXT})}")
    page.wait_for_selector("section.view:not([aria-busy])")
    assert view_data(page, ".attention-figure canvas") == live
    for heads in ("mean", "max", "one"):
        page.locator("select[name=heads]").select_option(heads)
    page.locator(".attention-figure canvas").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    page.locator("select[name=heads]").select_option("all")
    page.wait_for_selector(".attention-figure svg")
    assert page.locator(".error").count() == 0


@pytest.mark.parametrize(
    ("run", "lang"), [("recurrent", "en"), ("transformer", "zh"), ("gpt", "en"), ("bert", "zh"), ("vit", "zh")]
)
def test_every_first_request_of_a_view_is_saved(page, saved, runs, run, lang):
    page.goto(f"{saved.as_uri()}#{urlencode({'run': runs.id(run), 'text': TEXT, 'lang': lang})}")
    page.wait_for_selector("section.view:not([aria-busy]), .error")
    views = views_of(page)
    assert len(views) >= 8
    for view in views:
        page.locator(f"nav a[data-view={view}]").click()
        page.wait_for_selector("section.view:not([aria-busy]), .error")
        errors = [each for each in page.locator(".error").all_inner_texts() if "[MASK]" not in each]
        assert errors == [], view  # BERT needs a [MASK] in the text


def test_it_opens_with_its_text_and_reports_missing_responses(page, saved):
    page.goto(saved.as_uri())
    page.wait_for_selector("section.view:not([aria-busy])")
    assert link_state(page)["text"] == TEXT
    page.locator("nav a[data-view=tokenize]").click()
    page.locator("textarea").fill("another text")
    assert "not stored in the saved page" in page.locator(".error").inner_text()


def test_it_works_inside_a_notebook(page, saved, tmp_path):
    path = tmp_path / "notebook.html"
    iframe = to_iframe(saved.read_text(encoding="utf-8"))
    # With an explicit encoding, as in a notebook: the guess of a browser depends on the first bytes.
    path.write_text(f'<!DOCTYPE html><meta charset="utf-8">{iframe}', encoding="utf-8")
    page.goto(path.as_uri())
    frame = page.frame_locator("iframe")
    frame.locator("nav a[data-view=tokenize]").click()
    assert frame.locator("textarea").input_value() == TEXT
    assert frame.locator("details.help").get_attribute("open") is None  # a frame is small
    assert [each.url for each in page.monitor.requests if not each.url.startswith("about:")] == [path.as_uri()]
