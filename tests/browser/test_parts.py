"""Parts that views share, by themselves: a map's colors, keys and zoom; a strip of tokens; what is downloaded."""

from __future__ import annotations

import csv
import io

import pytest
from page_data import link_state, view_data

MAP = """async ({ rows, columns, values, both }) => {
  const { heatMap } = await import("/page/parts/heat_map.js");
  const place = document.querySelector("section.view");
  const map = heatMap({ name: "map", rows, columns, values, both, onPick: (cell) => (window.picked = cell) });
  place.replaceChildren(map.element);
  map.layOut();
  window.map = map;
}"""
COLORS = """() => {
  const { canvas, cell, gutters, given } = window.map, dots = window.devicePixelRatio;
  const { data, width } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return given.rows.flatMap((_, row) => given.columns.map((_, column) => {
    const x = Math.floor((gutters.left + (column + 0.5) * cell.width) * dots);
    const y = Math.floor((gutters.top + (row + 0.5) * cell.height) * dots);
    return Array.from(data.slice(4 * (y * width + x), 4 * (y * width + x) + 3));
  }));
}"""
"""The color in the middle of every cell."""


@pytest.fixture
def put(open_view, page):
    def put_it(rows, columns, values, both=False):
        open_view("tokenize", theme="light")
        given = {"rows": rows, "columns": columns, "values": values, "both": both}
        page.evaluate(MAP, given)
        return page

    return put_it


def test_the_largest_is_the_darkest_and_nothing_is_paper(put):
    page = put(["a", "b"], ["x", "y", "z"], [0, 0.25, 0.5, 0.75, 1, 0])
    colors = page.evaluate(COLORS)
    assert colors[0] == colors[5] == [255, 255, 255]
    brightness = [sum(each) for each in colors[:5]]
    assert brightness == sorted(brightness, reverse=True)
    assert len(set(brightness)) == 5


def test_signs_have_colors_of_their_own_and_zeros_alone_are_paper(put):
    page = put(["a"], ["x", "y", "z"], [-2, 0, 2], both=True)
    below, zero, above = page.evaluate(COLORS)
    assert below[0] > below[2]
    assert above[2] > above[0]
    assert zero == [255, 255, 255]
    page = put(["a"], ["x"], [0], both=True)
    assert page.evaluate(COLORS) == [[255, 255, 255]]


def test_keys_walk_over_a_map_tell_its_cells_and_pick_one(put):
    page = put(["<b>", "红"], ["x", "<0xE7>"], [0.5, 0.125, 1, 0.0625])
    page.locator(".heat-canvas").focus()
    for key in ("ArrowLeft", "ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert page.locator(".heat-readout").inner_text() == "红 → E7: 0.0625"
    page.keyboard.press("Enter")
    assert page.evaluate("window.picked") == {"row": 1, "column": 1, "value": 0.0625}


def test_a_thousand_tokens_are_painted_zoomed_and_reached(put):
    names = [f"token {number}" for number in range(1000)]
    page = put(names[:300], names, [number % 7 for number in range(300_000)])
    assert page.evaluate("window.map.cell.width") < 3
    page.locator(".heat-canvas").focus()
    for key in ("+", "+", "+", "+", "+", "+", "+", "+"):
        page.keyboard.press(key)
    assert page.evaluate("window.map.cell.width") > 11
    page.evaluate("window.map.point({ row: 299, column: 999 }); window.map.bringIntoSight()")
    assert page.locator(".heat-readout").inner_text() == f"token 299 → token 999: {299_999 % 7}"
    left = page.evaluate("window.map.window.scrollLeft + window.map.seen.width")
    assert left >= page.evaluate("window.map.gutters.left + 999 * window.map.cell.width")


def test_what_is_taken_home_is_what_is_shown(open_view, page):
    open_view("tokenize", run="bert", text="=1+1,猫")
    with page.expect_download() as taken:
        page.get_by_role("button", name="Tokenize CSV").click()
    text = taken.value.path().read_text(encoding="utf-8-sig")
    _, *rows = list(csv.reader(io.StringIO(text)))
    numbers = page.locator(".token-entry > span").all_inner_texts()
    assert [row[3] for row in rows] == numbers
    assert not [cell for row in rows for cell in row if cell.startswith("=")]  # a spreadsheet would compute it
    open_view("runs")
    with page.expect_download() as taken:
        page.locator(".downloads button", has_text="SVG").first.click()
    image = taken.value.path().read_text(encoding="utf-8")
    assert image.startswith("<svg")
    assert image.count("<path") == len(view_data(page, "[data-metric=loss]")["lines"])


def test_quick_changes_are_one_step_back(open_view, page):
    open_view("runs")
    page.locator("input[name=smoothing]").focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    assert link_state(page)["smoothing"] == "7"
    page.go_back()
    assert "smoothing" not in link_state(page)
    page.wait_for_selector("section.view:not([aria-busy])")
    assert page.locator("input[name=smoothing]").input_value() == "2"


SCATTERED = """async () => {
  const { scatter } = await import("/page/parts/scatter.js");
  const map = scatter({ name: "words", labels: ["a", "b"], places: [0, 0, 1, 1] });
  map.key(new KeyboardEvent("keydown", { key: "ArrowRight" }));
  return [map.told.textContent, map.image().outerHTML];
}"""


def test_a_map_of_words_is_whole_before_it_is_laid_out(open_view, page):
    open_view("tokenize")
    told, drawn = page.evaluate(SCATTERED)
    assert told == "b"
    assert "undefined" not in drawn
    assert "NaN" not in drawn


TURNS = """async () => {
  const { turns } = await import("/page/parts/dom.js");
  const turn = turns(), done = [], gates = {};
  const gate = (name) => new Promise((resolve, reject) => (gates[name] = { resolve, reject }));
  const act = (name) => () => gate(name).finally(() => done.push(name));
  const [one, other] = [turn(act("one")), turn(act("other"))];
  const soon = () => new Promise((resolve) => setTimeout(resolve, 5));
  const first = one().catch((error) => done.push(error));
  await soon();
  const waiting = [other(), one(), other(), one()];
  await soon();
  const early = Object.keys(gates);
  gates.one.reject("failed");
  await soon();
  gates.other.resolve();
  await soon();
  gates.one.resolve();
  await Promise.all([first, ...waiting]);
  return { early, done };
}"""


def test_what_draws_one_page_takes_turns_and_is_done_once_however_often_it_was_wanted(open_view, page):
    open_view("tokenize")
    assert page.evaluate(TURNS) == {"early": ["one"], "done": ["one", "failed", "other", "one"]}


CHART = """async (most) => {
  const { lineChart } = await import("/page/parts/chart.js");
  const chart = lineChart({ name: "loss", lines: [{ name: "run", x: [0, most], y: [most, 1] }], xName: "步" });
  document.querySelector("section.view").replaceChildren(chart.element);
  const all = [chart.svg, ...chart.svg.querySelectorAll("text")];
  const [image, ...texts] = all.map((each) => each.getBoundingClientRect());
  const [left, right, bottom] = [image.left, image.right, image.bottom + 1];
  return texts.every((text) => text.left >= left && text.right <= right && text.bottom <= bottom);
}"""


@pytest.mark.parametrize("max_new_tokens", [10, 1000, 400_000, 2_000_000])
def test_no_number_of_a_chart_is_cut_off(open_view, page, most):
    open_view("tokenize")
    assert page.evaluate(CHART, most)
