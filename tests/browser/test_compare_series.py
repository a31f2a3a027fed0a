"""The view "Compare" for series: curves, errors and differences are those of the two models."""

from __future__ import annotations

import numpy as np
import pytest
from page_code import run_code
from page_data import view_data, wait_until

from seq2see.data.series_dataset import parse_numbers
from seq2see.explorer.offline import saved_page
from seq2see.explorer.server import serve_in_thread
from seq2see.explorer.workspace import Workspace
from seq2see.recipes.registry import resolve
from seq2see.runs.train import train_recipe
from tiny_runs import sine_csv, tiny_run

TEXT = "16 17.5 19 20.5 22 23 24 24.5 24 23"


@pytest.fixture
def two_runs(tmp_path, monkeypatch):
    """A GRU with a context of twelve values, and a linear model of the last four."""
    tiny_run("series", tmp_path)
    train_recipe(resolve("forecast-autoregressive", [sine_csv(tmp_path)], {"training.steps": 30}), tmp_path / "line")
    monkeypatch.chdir(tmp_path)
    return Workspace.open(["series <i>&", "line"])


def lines(page, name):
    """The lines of a chart, by name."""
    return {line["name"]: line for line in view_data(page, f"[data-plot={name}]")["lines"]}


def test_two_runs_forecast_one_series(page, two_runs, tmp_path):
    models, values = [run.model for run in two_runs.runs.values()], parse_numbers(TEXT)
    with serve_in_thread(two_runs) as server:
        page.goto(f"{server.link}&view=compare&run=r1&second=r2&text={TEXT.replace(' ', '+')}")
        page.wait_for_selector("section.view:not([aria-busy])")
        names = ["first: series <i>&", "second: line"]
        drawn, errors = lines(page, "forecasts"), lines(page, "errors")
        assert drawn["values"]["y"] == values
        for name, model in zip(names, models, strict=True):
            one_step = model.one_step_forecasts(TEXT)
            first = len(values) + 2 - len(one_step)  # the last prediction is after the last value
            assert drawn[name]["x"] == list(range(first, len(values) + 2))
            assert drawn[name]["y"] == pytest.approx(one_step, abs=1e-6)
            forecast = parse_numbers(model(TEXT, max_new_tokens=16).text)
            assert drawn[f"{name}, forecast"]["y"] == pytest.approx(forecast)
            truth = [values[time - 1] for time in errors[name]["x"]]
            assert errors[name]["y"] == pytest.approx(np.abs(np.subtract(one_step[:-1], truth)), abs=1e-6)
        difference = lines(page, "differences")["second − first"]
        first_side, second_side = (dict(zip(drawn[name]["x"], drawn[name]["y"], strict=True)) for name in names)
        assert difference["y"][0] == pytest.approx(
            second_side[difference["x"][0]] - first_side[difference["x"][0]], abs=1e-6
        )
        assert (difference["x"][0], difference["x"][-1]) == (5, len(values) + 16)
        mean_errors = [float(each) for each in page.locator("table.forecasts td:nth-child(2)").all_inner_texts()]
        assert mean_errors == pytest.approx([np.mean(errors[name]["y"]) for name in names], rel=0.01)
        variables = run_code(page, "Compare")
        for name, found in zip(names, variables["errors"], strict=True):
            np.testing.assert_allclose(found, errors[name]["y"], atol=1e-5)
        page.locator("textarea[name=other]").fill("20 21 22 23 24 25 26 27 28 29 30")
        wait_until(page, "document.querySelectorAll('[data-plot=forecasts]').length === 2")
        assert page.locator("[data-plot=differences]").count() == 0
        page.locator("select[name=examples]").select_option("1")  # an example with known future values
        wait_until(page, "document.querySelectorAll('table.forecasts th').length === 4")
        page.goto("about:blank")
    path = tmp_path / "page.html"
    path.write_text(saved_page(two_runs, views=("compare",)), encoding="utf-8")
    page.goto(f"{path.as_uri()}#view=compare&run=r1&second=r2")
    page.wait_for_selector("[data-plot=differences]")
