"""Without a mouse in Mistakes, One head, Compare and Runs: what keys do is what the model and its files say."""

from __future__ import annotations

import csv
import json
from typing import Any

import numpy as np
import pytest
from page_data import RESPONSE_TIME, delayed_response, link_state, press, view_data, wait_until

ROWS = ".view-mistakes > div:last-child"
TABLE = ".single-head-table"


def linked(page: Any, **wanted: str | None) -> None:
    """Wait until the address says this; None for what it is not to say."""
    for key, value in wanted.items():
        expression = "([key, value]) => new URLSearchParams(location.hash.slice(1)).get(key) === value"
        wait_until(page, expression, [key, value])


def stands_on(page: Any, selector: str) -> None:
    """Wait until the keyboard is there."""
    wait_until(page, "selector => document.activeElement.matches(selector)", selector)


def weigh(page: Any, selector: str, expected: np.ndarray) -> None:
    """Wait until a map shows these numbers."""
    near = """([selector, values]) => {
      const { values: shown } = document.querySelector(selector).viewData;
      return shown.length === values.length && values.every((value, place) => Math.abs(value - shown[place]) < 1e-5);
    }"""
    wait_until(page, near, [selector, expected.flatten().tolist()])


def test_rows_of_mistakes_are_sorted_turned_and_searched(open_view, page, runs):
    folder = runs.workspace.run(runs.id("series")).folder.evaluation
    with (folder / "forecasts.tsv").open(encoding="utf-8") as file:
        _, *table = csv.reader(file, delimiter="\t")
    far = [abs(float(value) - float(guess)) for _, value, guess, *_ in table]
    open_view("mistakes", run="series")
    page.locator("select[name=sort]").focus()
    press(page, "ArrowDown")
    linked(page, sort="top_tokens")
    page.wait_for_selector("main:not([aria-busy])")
    stands_on(page, "select[name=sort]")
    page.get_by_role("button", name="later").focus()
    press(page, "Enter")
    linked(page, **{"start": "25"})
    wait_until(page, f"() => document.querySelector('{ROWS}').viewData.length < 25")
    distances = [-row["score"] for row in view_data(page, ROWS)]
    assert distances == pytest.approx([far[row["number"]] for row in view_data(page, ROWS)], abs=1e-3)
    assert distances == sorted(distances)  # the best were on the page before
    assert page.evaluate("document.activeElement.textContent") == "← earlier"  # there are none later
    press(page, "Enter")
    linked(page, **{"start": None})
    wait_until(page, f"() => document.querySelector('{ROWS}').viewData.length === 25")
    assert page.evaluate("document.activeElement.textContent") == "later →"
    let_go = delayed_response(page, "mistakes/rows")
    press(page, "Enter")
    page.locator("select[name=sort]").focus()
    press(page, "ArrowUp")
    linked(page, sort=None, **{"start": None})
    page.wait_for_timeout(RESPONSE_TIME)
    let_go()
    furthest = f"Math.abs(document.querySelector('{ROWS}').viewData[0].quality + {max(far)}) < 1e-3"
    wait_until(page, furthest)
    page.wait_for_timeout(RESPONSE_TIME)
    assert page.evaluate(furthest)  # the answer that came late is not put over it
    page.locator("input[name=search]").focus()
    page.keyboard.type(table[-1][1])
    press(page, "Enter")
    wait_until(page, f"() => document.querySelector('{ROWS}').viewData.length < 25")
    assert len(table) - 1 in [row["number"] for row in view_data(page, ROWS)]
    stands_on(page, "input[name=search]")


def test_a_cell_of_the_confusion_is_entered_left_and_its_row_looked_at(open_view, page):
    open_view("mistakes", run="vit")
    page.locator(".heat-canvas").focus()
    press(page, "ArrowDown", "Enter")
    page.get_by_role("button", name="All rows").focus()
    assert len(view_data(page, ROWS)) == 1
    press(page, "Enter")
    linked(page, truth=None, answer=None)
    wait_until(page, f"() => document.querySelector('{ROWS}').viewData.length === 2")
    stands_on(page, ".heat-canvas")
    number = view_data(page, ROWS)[1]["number"]
    page.locator(".judged a").nth(1).focus()
    press(page, "Enter")
    page.wait_for_selector("section.view-vit:not([aria-busy])")
    assert link_state(page).get("number", "0") == str(number)


def test_one_head_is_chosen_spelled_and_changed(open_view, page, runs):
    weights = runs.model("gpt").trace("the cat", "").of("attention")[0].values
    open_view("single-head", run="gpt", text="the cat", layer=0)
    page.locator(".single-head-strip .token[tabindex='0']").focus()
    press(page, "ArrowRight", "ArrowRight", "Enter")
    linked(page, query="2")
    stands_on(page, ".single-head-strip [data-index='2']")
    assert view_data(page, TABLE)["weights"] == pytest.approx(weights[0, 2], abs=1e-5)
    page.locator(f"{TABLE} button").nth(1).focus()
    press(page, "Enter")
    linked(page, key="1")
    stands_on(page, f"{TABLE} tr:nth-child(3) button")
    terms = np.array(view_data(page, ".single-head-spelled canvas")["values"]).reshape(3, -1)[2]
    assert terms.sum() == pytest.approx(view_data(page, TABLE)["products"][1], rel=1e-4)
    page.locator("#control-head").focus()
    press(page, "ArrowDown")
    weigh(page, ".single-head-all canvas", weights[1])
    stands_on(page, "#control-head")
    page.locator("#control-masked").focus()
    press(page, " ")
    linked(page, masked="no")
    assert min(view_data(page, TABLE)["weights"]) > 0
    press(page, " ")
    linked(page, masked=None)
    page.locator(".single-head-queries canvas").focus()
    press(page, "ArrowRight", "ArrowDown", "ArrowDown", "Enter")
    page.keyboard.type("9.5")
    press(page, "Enter")
    linked(page, edits="q.2.0=9.5")
    assert view_data(page, TABLE)["weights"] != pytest.approx(weights[1, 2], abs=1e-3)
    stands_on(page, "#control-cell")
    press(page, "Tab", "Enter")
    linked(page, edits=None)
    stands_on(page, "#control-cell")  # there is nothing left to be undone
    assert view_data(page, TABLE)["weights"] == pytest.approx(weights[1, 2], abs=1e-5)


def test_two_runs_and_two_texts_are_compared(open_view, page, runs):
    open_view("compare", text="红猫")
    page.locator("select[name=second]").focus()
    press(page, "ArrowDown")
    linked(page, second=runs.id("recurrent"))
    page.wait_for_selector(".side:nth-child(2) h2:has-text('recurrent')")
    stands_on(page, "select[name=second]")
    page.locator("input[name=text]").focus()
    press(page, "Control+A")
    page.keyboard.type("老马")
    let_go = delayed_response(page, "attention/lens")
    press(page, "Enter")
    first, second = runs.model("transformer"), runs.model("recurrent")
    target = first("老马").text
    wait_until(page, "said => document.querySelectorAll('.side-answer')[1].textContent === said", second("老马").text)
    stands_on(page, "input[name=text]")
    looks = [model.trace("老马", target).of("attention") for model in (first, second)]
    across = [[look for look in each if look.across] for each in looks]
    page.locator("#control-layer").focus()
    page.evaluate("window.before = document.activeElement")
    let_go()
    wait_until(page, "!window.before.isConnected")
    stands_on(page, "#control-layer")  # another, in its place
    press(page, "ArrowLeft")
    weigh(page, "[data-map='0'] canvas", across[0][0].values.mean(0))
    weigh(page, "[data-map='1'] canvas", across[1][0].values.mean(0))
    stands_on(page, "#control-layer")
    page.locator("#control-head").focus()
    press(page, "ArrowRight", "ArrowRight")
    linked(page, head="1", layer="0")
    weigh(page, "[data-map='0'] canvas", across[0][0].values[1])
    page.locator("[data-map='0'] canvas").focus()
    press(page, "ArrowDown", "ArrowDown", "ArrowRight")
    told = page.locator("[data-map='0'] .heat-readout").inner_text()
    assert float(told.rpartition(": ")[2]) == pytest.approx(across[0][0].values[1, 1, 1], abs=5e-4)
    page.locator("select[name=second]").focus()
    press(page, "ArrowUp")
    linked(page, second=None)
    page.wait_for_selector(".side:nth-child(2) h2:has-text('transformer')")
    page.locator("#control-kind").focus()
    press(page, "ArrowDown")
    linked(page, kind="source")
    weigh(page, "[data-map='1'] canvas", next(each for each in looks[0] if not each.across).values[1])
    stands_on(page, "#control-kind")


def test_curves_are_laid_over_smoothed_and_read(open_view, page, runs):
    open_view("runs")
    page.locator("input[name=over-r1]").focus()
    press(page, " ")
    linked(page, others="r1")
    wait_until(page, "() => document.querySelector('[data-metric=loss]').viewData.lines.length === 6")
    stands_on(page, "input[name=over-r1]")
    press(page, " ")
    linked(page, others=None)
    page.locator("input[name=smoothing]").focus()
    press(page, "Home")
    wait_until(page, "() => document.querySelector('[data-metric=loss]').viewData.lines.length === 2")
    folder = runs.workspace.run(runs.id("transformer")).folder
    lines = [json.loads(line) for line in folder.metrics.read_text(encoding="utf-8").splitlines()]
    losses = [(line["step"], line["loss"]) for line in lines if "loss" in line]
    page.locator("[data-metric=loss]").focus()
    press(page, "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft")
    told = page.locator(".chart-readout").first
    step, _, values = told.inner_text().partition(": ")
    assert int(step) == losses[1][0]
    assert float(values.split(" · ")[0].split()[-1]) == pytest.approx(losses[1][1], rel=1e-2)
    press(page, "Escape")
    assert told.inner_text() == ""
    page.locator("input[name=position]").focus()
    press(page, "Home")
    linked(page, step="20")
    _, first, *_ = (folder.samples / "step-000020.tsv").read_text(encoding="utf-8").splitlines()
    cells = "() => [...document.querySelectorAll('table.samples tr')[1].cells].map((cell) => cell.textContent)"
    wait_until(page, f"first => String(({cells})()) === first", ",".join(first.split("\t")))
    stands_on(page, "input[name=position]")
