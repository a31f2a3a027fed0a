"""Keyboard control of Mistakes, Single head, Compare and Runs, compared with the model and its files."""

from __future__ import annotations

import csv
import json
from typing import Any

import numpy as np
import pytest
from page_data import RESPONSE_TIME, delayed_response, link_state, press, view_data, wait_until

ROWS = ".view-mistakes > div:last-child"
TABLE = ".single-head-table"


def wait_for_link(page: Any, **state: str | None) -> None:
    """Wait until the address has this state; None for a missing key."""
    for key, value in state.items():
        expression = "([key, value]) => new URLSearchParams(location.hash.slice(1)).get(key) === value"
        wait_until(page, expression, [key, value])


def wait_for_focus(page: Any, selector: str) -> None:
    """Wait until an element has the focus."""
    wait_until(page, "selector => document.activeElement.matches(selector)", selector)


def wait_for_values(page: Any, selector: str, expected: np.ndarray) -> None:
    """Wait until a heat map has these values."""
    is_close = """([selector, values]) => {
      const { values: shown } = document.querySelector(selector).viewData;
      return shown.length === values.length && values.every((value, index) => Math.abs(value - shown[index]) < 1e-5);
    }"""
    wait_until(page, is_close, [selector, expected.flatten().tolist()])


def test_rows_of_mistakes_are_sorted_paged_and_searched(open_view, page, runs):
    folder = runs.workspace.run(runs.id("series")).folder.evaluation
    with (folder / "forecasts.tsv").open(encoding="utf-8") as file:
        _, *table = csv.reader(file, delimiter="\t")
    errors = [abs(float(value) - float(forecast)) for _, value, forecast, *_ in table]
    open_view("mistakes", run="series")
    page.locator("select[name=sort]").focus()
    press(page, "ArrowDown")
    wait_for_link(page, sort="best")
    page.wait_for_selector("main:not([aria-busy])")
    wait_for_focus(page, "select[name=sort]")
    page.get_by_role("button", name="later").focus()
    press(page, "Enter")
    wait_for_link(page, start="25")
    wait_until(page, f"() => document.querySelector('{ROWS}').viewData.length < 25")
    distances = [-row["score"] for row in view_data(page, ROWS)]
    assert distances == pytest.approx([errors[row["number"]] for row in view_data(page, ROWS)], abs=1e-3)
    assert distances == sorted(distances)  # the best are on the first page
    assert page.evaluate("document.activeElement.textContent") == "← earlier"  # the other button is disabled
    press(page, "Enter")
    wait_for_link(page, start=None)
    wait_until(page, f"() => document.querySelector('{ROWS}').viewData.length === 25")
    assert page.evaluate("document.activeElement.textContent") == "later →"
    release = delayed_response(page, "mistakes/rows")
    press(page, "Enter")
    page.locator("select[name=sort]").focus()
    press(page, "ArrowUp")
    wait_for_link(page, sort=None, start=None)
    page.wait_for_timeout(RESPONSE_TIME)
    release()
    is_worst_first = f"Math.abs(document.querySelector('{ROWS}').viewData[0].score + {max(errors)}) < 1e-3"
    wait_until(page, is_worst_first)
    page.wait_for_timeout(RESPONSE_TIME)
    assert page.evaluate(is_worst_first)  # the late response is not drawn
    page.locator("input[name=search]").focus()
    page.keyboard.type(table[-1][1])
    press(page, "Enter")
    wait_until(page, f"() => document.querySelector('{ROWS}').viewData.length < 25")
    assert len(table) - 1 in [row["number"] for row in view_data(page, ROWS)]
    wait_for_focus(page, "input[name=search]")


def test_a_cell_of_the_confusion_matrix_filters_rows_with_links(open_view, page):
    open_view("mistakes", run="vit")
    page.locator(".heat-canvas").focus()
    press(page, "ArrowDown", "Enter")
    page.get_by_role("button", name="All rows").focus()
    assert len(view_data(page, ROWS)) == 1
    press(page, "Enter")
    wait_for_link(page, truth=None, answer=None)
    wait_until(page, f"() => document.querySelector('{ROWS}').viewData.length === 2")
    wait_for_focus(page, ".heat-canvas")
    number = view_data(page, ROWS)[1]["number"]
    page.locator(".evaluated-rows a").nth(1).focus()
    press(page, "Enter")
    page.wait_for_selector("section.view-vit:not([aria-busy])")
    assert link_state(page).get("number", "0") == str(number)


def test_a_single_head_is_selected_and_edited(open_view, page, runs):
    weights = runs.model("gpt").trace("the cat", "").of("attention")[0].values
    open_view("single-head", run="gpt", text="the cat", layer=0)
    page.locator(".single-head-strip .token[tabindex='0']").focus()
    press(page, "ArrowRight", "ArrowRight", "Enter")
    wait_for_link(page, query="2")
    wait_for_focus(page, ".single-head-strip [data-index='2']")
    assert view_data(page, TABLE)["weights"] == pytest.approx(weights[0, 2], abs=1e-5)
    page.locator(f"{TABLE} button").nth(1).focus()
    press(page, "Enter")
    wait_for_link(page, key="1")
    wait_for_focus(page, f"{TABLE} tr:nth-child(3) button")
    terms = np.array(view_data(page, ".single-head-terms canvas")["values"]).reshape(3, -1)[2]
    assert terms.sum() == pytest.approx(view_data(page, TABLE)["products"][1], rel=1e-4)
    page.locator("#control-head").focus()
    press(page, "ArrowDown")
    wait_for_values(page, ".single-head-all canvas", weights[1])
    wait_for_focus(page, "#control-head")
    page.locator("#control-masked").focus()
    press(page, " ")
    wait_for_link(page, masked="no")
    assert min(view_data(page, TABLE)["weights"]) > 0
    press(page, " ")
    wait_for_link(page, masked=None)
    page.locator(".single-head-queries canvas").focus()
    press(page, "ArrowRight", "ArrowDown", "ArrowDown", "Enter")
    page.keyboard.type("9.5")
    press(page, "Enter")
    wait_for_link(page, edits="q.2.0=9.5")
    assert view_data(page, TABLE)["weights"] != pytest.approx(weights[1, 2], abs=1e-3)
    wait_for_focus(page, "#control-cell")
    press(page, "Tab", "Enter")
    wait_for_link(page, edits=None)
    wait_for_focus(page, "#control-cell")  # there are no more edits
    assert view_data(page, TABLE)["weights"] == pytest.approx(weights[1, 2], abs=1e-5)


def test_two_runs_and_two_texts_are_compared(open_view, page, runs):
    open_view("compare", text="红猫")
    page.locator("select[name=second]").focus()
    press(page, "ArrowDown")
    wait_for_link(page, second=runs.id("recurrent"))
    page.wait_for_selector(".side:nth-child(2) h2:has-text('recurrent')")
    wait_for_focus(page, "select[name=second]")
    page.wait_for_selector("#control-layer")  # the layers of both runs have arrived; the next response is delayed
    page.locator("input[name=text]").focus()
    press(page, "Control+A")
    page.keyboard.type("老马")
    release = delayed_response(page, "attention/layers")
    press(page, "Enter")
    first, second = runs.model("transformer"), runs.model("recurrent")
    target = first("老马").text
    wait_until(page, "text => document.querySelectorAll('.side-answer')[1].textContent === text", second("老马").text)
    wait_for_focus(page, "input[name=text]")
    signals = [model.trace("老马", target).of("attention") for model in (first, second)]
    cross = [[signal for signal in each if signal.is_cross_attention] for each in signals]
    page.locator("#control-layer").focus()
    page.evaluate("window.before = document.activeElement")
    release()
    wait_until(page, "!window.before.isConnected")
    wait_for_focus(page, "#control-layer")  # the new one
    press(page, "ArrowLeft")
    wait_for_values(page, "[data-map='0'] canvas", cross[0][0].values.mean(0))
    wait_for_values(page, "[data-map='1'] canvas", cross[1][0].values.mean(0))
    wait_for_focus(page, "#control-layer")
    page.locator("#control-head").focus()
    press(page, "ArrowRight", "ArrowRight")
    wait_for_link(page, head="1", layer="0")
    wait_for_values(page, "[data-map='0'] canvas", cross[0][0].values[1])
    page.locator("[data-map='0'] canvas").focus()
    press(page, "ArrowDown", "ArrowDown", "ArrowRight")
    readout = page.locator("[data-map='0'] .heat-readout").inner_text()
    assert float(readout.rpartition(": ")[2]) == pytest.approx(cross[0][0].values[1, 1, 1], abs=5e-4)
    page.locator("select[name=second]").focus()
    press(page, "ArrowUp")
    wait_for_link(page, second=None)
    page.wait_for_selector(".side:nth-child(2) h2:has-text('transformer')")
    page.locator("#control-kind").focus()
    press(page, "ArrowDown")
    wait_for_link(page, kind="source")
    wait_for_values(
        page, "[data-map='1'] canvas", next(each for each in signals[0] if not each.is_cross_attention).values[1]
    )
    wait_for_focus(page, "#control-kind")


def test_curves_are_overlaid_smoothed_and_read(open_view, page, runs):
    open_view("runs")
    page.locator("input[name=over-r1]").focus()
    press(page, " ")
    wait_for_link(page, others="r1")
    wait_until(page, "() => document.querySelector('[data-metric=loss]').viewData.lines.length === 6")
    wait_for_focus(page, "input[name=over-r1]")
    press(page, " ")
    wait_for_link(page, others=None)
    page.locator("input[name=smoothing]").focus()
    press(page, "Home")
    wait_until(page, "() => document.querySelector('[data-metric=loss]').viewData.lines.length === 2")
    folder = runs.workspace.run(runs.id("transformer")).folder
    lines = [json.loads(line) for line in folder.metrics.read_text(encoding="utf-8").splitlines()]
    losses = [(line["step"], line["loss"]) for line in lines if "loss" in line]
    page.locator("[data-metric=loss]").focus()
    press(page, "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft")
    readout = page.locator(".chart-readout").first
    step, _, values = readout.inner_text().partition(": ")
    assert int(step) == losses[1][0]
    assert float(values.split(" · ")[0].split()[-1]) == pytest.approx(losses[1][1], rel=1e-2)
    press(page, "Escape")
    assert readout.inner_text() == ""
    page.locator("input[name=index]").focus()
    press(page, "Home")
    wait_for_link(page, step="20")
    _, first, *_ = (folder.samples / "step-000020.tsv").read_text(encoding="utf-8").splitlines()
    cells = "() => [...document.querySelectorAll('table.samples tr')[1].cells].map((cell) => cell.textContent)"
    wait_until(page, f"first => String(({cells})()) === first", ",".join(first.split("\t")))
    wait_for_focus(page, "input[name=index]")
