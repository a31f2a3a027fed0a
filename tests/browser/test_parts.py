"""Parts that views share: the colors, keys and zoom of a heat map; a strip of tokens; downloads; the serial queue."""

from __future__ import annotations

import csv
import io

import pytest
from page_data import link_state, view_data

MAP = """async ({ rows, columns, values, diverging }) => {
  const { heatMap } = await import("/page/parts/heat_map.js");
  const container = document.querySelector("section.view");
  const map = heatMap({ name: "map", rows, columns, values, diverging, onPick: (cell) => (window.picked = cell) });
  container.replaceChildren(map.element);
  map.layOut();
  window.map = map;
}"""
COLORS = """() => {
  const { canvas, cell, labelMargins, options } = window.map, dots = window.devicePixelRatio;
  const { data, width } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return options.rows.flatMap((_, row) => options.columns.map((_, column) => {
    const x = Math.floor((labelMargins.left + (column + 0.5) * cell.width) * dots);
    const y = Math.floor((labelMargins.top + (row + 0.5) * cell.height) * dots);
    return Array.from(data.slice(4 * (y * width + x), 4 * (y * width + x) + 3));
  }));
}"""
"""The color in the middle of every cell."""


@pytest.fixture
def show_map(open_view, page):
    def show(rows, columns, values, diverging=False):
        open_view("tokenize", theme="light")
        options = {"rows": rows, "columns": columns, "values": values, "diverging": diverging}
        page.evaluate(MAP, options)
        return page

    return show


def test_the_largest_value_is_the_darkest_and_zero_is_the_background(show_map):
    page = show_map(["a", "b"], ["x", "y", "z"], [0, 0.25, 0.5, 0.75, 1, 0])
    colors = page.evaluate(COLORS)
    assert colors[0] == colors[5] == [255, 255, 255]
    brightness = [sum(each) for each in colors[:5]]
    assert brightness == sorted(brightness, reverse=True)
    assert len(set(brightness)) == 5


def test_signs_have_different_colors_and_zeros_have_the_background(show_map):
    page = show_map(["a"], ["x", "y", "z"], [-2, 0, 2], diverging=True)
    below, zero, above = page.evaluate(COLORS)
    assert below[0] > below[2]
    assert above[2] > above[0]
    assert zero == [255, 255, 255]
    page = show_map(["a"], ["x"], [0], diverging=True)
    assert page.evaluate(COLORS) == [[255, 255, 255]]


def test_keys_move_over_a_map_and_pick_a_cell(show_map):
    page = show_map(["<b>", "红"], ["x", "<0xE7>"], [0.5, 0.125, 1, 0.0625])
    page.locator(".heat-canvas").focus()
    for key in ("ArrowLeft", "ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert page.locator(".heat-readout").inner_text() == "红 → E7: 0.0625"
    page.keyboard.press("Enter")
    assert page.evaluate("window.picked") == {"row": 1, "column": 1, "value": 0.0625}


def test_a_thousand_tokens_are_painted_zoomed_and_scrolled(show_map):
    names = [f"token {number}" for number in range(1000)]
    page = show_map(names[:300], names, [number % 7 for number in range(300_000)])
    assert page.evaluate("window.map.cell.width") < 3
    page.locator(".heat-canvas").focus()
    for key in ("+", "+", "+", "+", "+", "+", "+", "+"):
        page.keyboard.press(key)
    assert page.evaluate("window.map.cell.width") > 11
    page.evaluate("window.map.point({ row: 299, column: 999 }); window.map.scrollIntoView()")
    assert page.locator(".heat-readout").inner_text() == f"token 299 → token 999: {299_999 % 7}"
    left = page.evaluate("window.map.window.scrollLeft + window.map.visible.width")
    assert left >= page.evaluate("window.map.labelMargins.left + 999 * window.map.cell.width")


def test_downloads_equal_the_view(open_view, page):
    open_view("tokenize", run="bert", text="=1+1,猫")
    with page.expect_download() as download:
        page.get_by_role("button", name="Tokenize CSV").click()
    text = download.value.path().read_text(encoding="utf-8-sig")
    _, *rows = list(csv.reader(io.StringIO(text)))
    numbers = page.locator(".token-entry > span").all_inner_texts()
    assert [row[3] for row in rows] == numbers
    assert not [cell for row in rows for cell in row if cell.startswith("=")]  # a spreadsheet would evaluate it
    open_view("runs")
    with page.expect_download() as download:
        page.locator(".downloads button", has_text="SVG").first.click()
    image = download.value.path().read_text(encoding="utf-8")
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


SCATTER = """async () => {
  const { scatter } = await import("/page/parts/scatter.js");
  const map = scatter({ name: "words", labels: ["a", "b"], points: [0, 0, 1, 1] });
  map.key(new KeyboardEvent("keydown", { key: "ArrowRight" }));
  return [map.readout.textContent, map.figure().outerHTML];
}"""


def test_a_scatter_plot_is_complete_before_its_layout(open_view, page):
    open_view("tokenize")
    readout, figure = page.evaluate(SCATTER)
    assert readout == "b"
    assert "undefined" not in figure
    assert "NaN" not in figure


QUEUE = """async () => {
  const { serialQueue } = await import("/page/parts/dom.js");
  const serial = serialQueue(), done = [], gates = {};
  const gate = (name) => new Promise((resolve, reject) => (gates[name] = { resolve, reject }));
  const action = (name) => () => gate(name).finally(() => done.push(name));
  const [one, other] = [serial(action("one")), serial(action("other"))];
  const pause = () => new Promise((resolve) => setTimeout(resolve, 5));
  const first = one().catch((error) => done.push(error));
  await pause();
  const waiting = [other(), one(), other(), one()];
  await pause();
  const early = Object.keys(gates);
  gates.one.reject("failed");
  await pause();
  gates.other.resolve();
  await pause();
  gates.one.resolve();
  await Promise.all([first, ...waiting]);
  return { early, done };
}"""


def test_actions_of_a_queue_run_one_after_another_and_waiting_ones_once(open_view, page):
    open_view("tokenize")
    assert page.evaluate(QUEUE) == {"early": ["one"], "done": ["one", "failed", "other", "one"]}


CHART = """async (max) => {
  const { lineChart } = await import("/page/parts/chart.js");
  const chart = lineChart({ name: "loss", lines: [{ name: "run", x: [0, max], y: [max, 1] }], xName: "步" });
  document.querySelector("section.view").replaceChildren(chart.element);
  const all = [chart.svg, ...chart.svg.querySelectorAll("text")];
  const [image, ...texts] = all.map((each) => each.getBoundingClientRect());
  const [left, right, bottom] = [image.left, image.right, image.bottom + 1];
  return texts.every((text) => text.left >= left && text.right <= right && text.bottom <= bottom);
}"""


@pytest.mark.parametrize("max_value", [10, 1000, 400_000, 2_000_000])
def test_no_label_of_a_chart_is_cut_off(open_view, page, max_value):
    open_view("tokenize")
    assert page.evaluate(CHART, max_value)
