"""Without a mouse: the Tab key reaches everything, the focus is visible, keys act, and a redraw keeps the focus."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from page_data import delayed_response, link_state, press, view_data, views_of, wait_until

FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]"
WATCH = """() => {
  document.activeElement.blur();
  for (const each of document.querySelectorAll("[data-reached]")) delete each.dataset.reached;
  window.walked = { invisible: [], ended: false };
  window.walker ??= document.addEventListener("focusin", ({ target }) => {
    const { outlineStyle, outlineWidth } = getComputedStyle(target);
    const visible = outlineStyle !== "none" && parseFloat(outlineWidth) >= 2;
    if (target.dataset.reached) window.walked.ended = true;
    else if (target.closest("main, footer") && !visible) window.walked.invisible.push(target.outerHTML.slice(0, 90));
    target.dataset.reached = "yes";
  }) ?? true;
}"""
NOT_REACHED = f"""() => [...document.querySelectorAll("main *, footer *")]
  .filter((each) => each.matches("{FOCUSABLE}") && each.tabIndex >= 0 && !each.dataset.reached && !each.disabled)
  .filter((each) => each.checkVisibility({{ visibilityProperty: true }}))
  .map((each) => each.outerHTML.slice(0, 90))"""


def walk(page: Any) -> list[str]:
    """Press Tab until the focus returns to the start; return the elements whose focus is invisible."""
    page.evaluate(WATCH)
    for _ in range(25):
        for _ in range(8):
            page.keyboard.down("Tab")
        if page.evaluate("window.walked.ended"):
            page.keyboard.up("Tab")
            return page.evaluate("window.walked.invisible")
    raise AssertionError("the focus never returns to the start")


@pytest.mark.parametrize("run", ["recurrent", "vit"])
def test_everything_is_reached_with_a_visible_focus(open_view, page, run):
    open_view("", run=run)
    for view in views_of(page):
        open_view(view, run=run)
        assert walk(page) == [], view
        assert page.evaluate(NOT_REACHED) == [], view


def test_heads_and_cells_of_attention(open_view, page, runs):
    open_view("attention", text="红猫", target="the red cat", layer=0)
    page.locator(".thumbnail").first.focus()
    press(page, "ArrowDown", "ArrowRight", "Enter")
    wait_until(page, "() => new URLSearchParams(location.hash.slice(1)).get('layer') === '1'")
    assert link_state(page)["head"] == "1"
    wait_until(page, "() => document.activeElement.getAttribute('aria-pressed') === 'true'")
    wait_until(
        page,
        "() => document.querySelector('.attention-figure canvas').getAttribute('aria-label').includes('encoder 2')",
    )
    record = runs.model("transformer").trace("红猫", "the red cat")
    weights = record.of("attention")[1].values[1]
    np.testing.assert_allclose(view_data(page, ".attention-figure canvas")["values"], weights.ravel(), atol=1e-6)
    page.locator(".attention-figure canvas").focus()
    press(page, "ArrowDown", "ArrowDown", "ArrowRight")
    readout = page.locator(".attention-figure .heat-readout").inner_text()
    assert float(readout.rpartition(": ")[2]) == pytest.approx(weights[1, 1], abs=5e-4)
    press(page, "Escape")
    assert page.locator(".attention-figure .heat-readout").inner_text() == ""


def test_candidates_are_appended_one_after_another(open_view, page, runs):
    open_view("next-token", run="gpt", text="the cat")
    page.locator(".bars .clickable[tabindex='0']").focus()
    press(page, "ArrowDown", "ArrowDown", "ArrowUp")
    for count in (1, 2):
        page.evaluate("window.before = document.activeElement")
        press(page, "Enter")
        wait_until(page, "() => !window.before.isConnected")
        assert len(link_state(page)["forced"].split(".")) == count
        index = "[...document.activeElement.parentElement.children].indexOf(document.activeElement)"
        assert page.evaluate(f"[Boolean(document.activeElement.closest('.bars')), {index}]") == [True, 1]


def test_a_node_is_forced_and_the_focus_stays_in_the_tree(open_view, page):
    open_view("decode", text="红猫")
    page.locator(".search-tree [tabindex='0']").focus()
    press(page, "ArrowDown", "ArrowUp", "ArrowRight", "ArrowLeft")
    assert page.evaluate("document.activeElement.dataset.number") == "0"
    token = page.evaluate("document.activeElement.querySelector('text').textContent")
    press(page, "Enter")
    page.wait_for_selector(".view-decode .token")
    assert page.locator(".view-decode .strip .token-text").first.inner_text() == token
    assert page.evaluate("document.activeElement.closest('.search-tree') !== null")


def test_modules_are_opened_selected_and_closed(open_view, page):
    open_view("architecture", run="gpt")
    page.locator(".block-name[tabindex='0']").focus()
    press(page, "ArrowDown", "ArrowLeft")
    box = "document.activeElement.closest('details')"
    assert page.evaluate(f"[{box}.dataset.block, {box}.open]") == ["target", False]
    press(page, "ArrowRight")
    assert page.evaluate(f"{box}.open")
    press(page, "ArrowRight", "Enter")
    assert link_state(page)["block"] == page.evaluate(f"{box}.dataset.block") != "target"
    press(page, "ArrowLeft")
    assert page.evaluate(f"{box}.dataset.block") == "target"


def test_words_are_found_on_the_map(open_view, page):
    open_view("embeddings", run="transformer")
    page.locator("canvas.scatter").focus()
    press(page, "ArrowRight", "ArrowRight")
    label = page.locator(".scatter-box .heat-readout").inner_text()
    press(page, "Enter")
    wait_until(page, "() => document.querySelector('.neighbors svg') !== null")
    assert link_state(page)["word"] == label.lstrip("▁")


def test_patches_are_covered_and_the_drawing_board_is_closed(open_view, page):
    open_view("vit", run="vit")
    page.locator(".image-canvas").focus()
    press(page, "ArrowRight", "ArrowRight", "ArrowDown", "Enter")
    wait_until(page, "() => new URLSearchParams(location.hash.slice(1)).get('cover') === '5'")
    page.get_by_role("button", name="Draw").focus()
    press(page, "Enter")
    page.locator(".drawing-canvas").focus()
    press(page, "Escape")
    assert page.locator(".drawing-canvas").count() == 0
    assert page.evaluate("document.activeElement.tagName") == "BUTTON"


@pytest.mark.usefixtures("fresh")
def test_a_redraw_keeps_the_focus_and_escape_closes_a_fold(open_view, page):
    open_view("positions", run="gpt", text="the cat", length=8)
    page.locator("input[name=length]").focus()
    press(page, "ArrowRight")
    wait_until(page, "() => document.querySelector('canvas[data-plot=table]').viewData.rows.length === 9")
    assert page.evaluate("document.activeElement.name") == "length"
    page.locator(".help summary").focus()
    press(page, "Escape")
    assert not page.locator(".help").first.evaluate("fold => fold.open")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"


def test_a_slow_request_shows_the_progress_bar(open_view, page):
    open_view("attention", text="红猫")
    page.locator(".progress-bar").wait_for(state="hidden")
    release = delayed_response(page, "attention/head")
    page.locator(".thumbnail").first.focus()
    press(page, "Enter")
    page.wait_for_selector(".progress-bar:not([hidden])")
    assert page.locator("main").get_attribute("aria-busy") == "true"
    release()
    page.wait_for_selector(".progress-bar", state="hidden")
    assert page.locator("main").get_attribute("aria-busy") is None
    release = delayed_response(page, "examples")
    page.evaluate("document.querySelector('nav a[data-view=single-head]').click()")
    page.wait_for_selector(".progress-bar:not([hidden])")
    placeholder = "getComputedStyle(document.querySelector('.view'), '::before').content"
    assert "computing" in page.evaluate(placeholder)  # nothing is drawn yet
    release()
