"""The view "Adapter": a heat map of the factors, and the singular values of the chosen matrix."""

from __future__ import annotations

import numpy as np
from page_code import run_code, runs_folder
from page_data import link_state, view_data, views_of, wait_until

from seq2see.runs.experts import adapted_matrices
from seq2see.runs.load import read_adapted_model

MAP, CHART = "canvas[data-plot=factors]", "svg.chart"


def matrices_of(runs):
    return {
        each.name: each
        for each in adapted_matrices(read_adapted_model(runs.workspace.run(runs.id("adapter")).weights).module)
    }


def test_the_map_and_the_chart_have_the_numbers_of_the_adapter(open_view, runs):
    page = open_view("adapter", run="adapter")
    matrices = matrices_of(runs)
    shown = view_data(page, MAP)
    assert len(shown["rows"]) == len(set(shown["rows"])) == len(matrices)
    assert shown["rows"][0] == "encoder 0 self out"
    first = next(iter(matrices))
    columns = len(shown["columns"]) // len(matrices[first].factors)
    expected = np.repeat(matrices[first].factors - 1, columns)
    np.testing.assert_allclose(shown["values"][: len(shown["columns"])], expected, atol=1e-5)
    most = max(matrices.values(), key=lambda each: each.change)
    before, after = view_data(page, CHART)["lines"]
    np.testing.assert_allclose(before["y"], most.before, atol=1e-5)
    np.testing.assert_allclose(after["y"], most.after, atol=1e-5)
    assert "adapter" in views_of(page)
    assert "SVF on transformer" in page.locator(".adapter-summary").inner_text()


def test_a_click_on_a_row_shows_its_matrix(open_view, runs):
    page = open_view("adapter", run="adapter")
    matrices = matrices_of(runs)
    name = list(matrices)[-1]
    page.locator(MAP).focus()
    for _ in range(len(matrices)):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    wait_until(page, "(name) => document.querySelector('figcaption').textContent.includes(name)", name)
    assert link_state(page)["matrix"] == name
    np.testing.assert_allclose(view_data(page, CHART)["lines"][1]["y"], matrices[name].after, atol=1e-5)


def test_other_runs_do_not_have_the_view(open_view):
    page = open_view("architecture", run="transformer")
    assert "adapter" not in views_of(page)


def test_the_python_code_computes_the_shown_numbers(open_view, runs, monkeypatch):
    page = open_view("adapter", run="adapter")
    monkeypatch.chdir(runs_folder(runs))
    computed = run_code(page, "Adapter")["matrices"]
    assert [each.name for each in computed] == list(matrices_of(runs))
    assert [each.change for each in computed] == [each.change for each in matrices_of(runs).values()]
