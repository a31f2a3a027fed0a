"""Curves and pieces: the page shows the numbers that are in the run's own files, and that its tokenizer gives."""

from __future__ import annotations

import json

import pytest
from page_data import link_state, view_data, wait_until


def noted(run, name):
    lines = [json.loads(line) for line in run.folder.metrics.read_text(encoding="utf-8").splitlines()]
    return [(line["step"], line[name]) for line in lines if name in line]


def test_curves_are_those_of_the_journal(open_view, page, runs):
    open_view("runs", smooth=0)
    run = runs.workspace.run(runs.id("transformer"))
    train, valid = view_data(page, "[data-metric=loss]")["lines"]
    assert list(zip(train["x"], train["y"], strict=True)) == noted(run, "loss")
    assert list(zip(valid["x"], valid["y"], strict=True)) == noted(run, "valid_loss")


def test_smoothing_is_a_mean_of_neighbors_and_part_of_the_link(open_view, page, runs):
    open_view("runs")
    page.locator("input[name=smoothing]").fill("10")
    assert link_state(page)["smoothing"] == "10"
    faint, smooth, _ = view_data(page, "[data-metric=loss]")["lines"]
    half = len(faint["y"]) * 10 // 200
    window = faint["y"][20 - half : 20 + half + 1]
    assert smooth["y"][20] == pytest.approx(sum(window) / len(window))
    assert half > 0


def test_another_run_is_laid_over(open_view, page):
    open_view("runs")
    page.get_by_role("checkbox", name="recurrent <i>&").check()
    wait_until(page, "document.querySelector('[data-metric=loss]').viewData.lines.length === 6")
    assert link_state(page)["others"] == "r1"


def test_samples_follow_the_slider(open_view, page, runs):
    open_view("runs")
    folder = runs.workspace.run(runs.id("transformer")).folder.samples
    files = sorted(folder.glob("step-*.tsv"))
    page.locator("input[name=position]").fill("0")
    first = [line.split("\t") for line in files[0].read_text(encoding="utf-8").splitlines()[1:]]
    wait_until(
        page, "first => document.querySelectorAll('table.samples tr')[1]?.cells[2].innerText === first", first[0][2]
    )
    assert link_state(page)["step"] == "20"
    cells = page.locator("table.samples tr").nth(1).locator("td").all_inner_texts()
    assert cells == first[0]


@pytest.mark.usefixtures("fresh")
def test_a_run_that_trains_grows_while_one_looks(open_view, page, runs):
    run = runs.workspace.run(runs.id("gpt"))
    model, aside = run.folder.model, run.folder.path / "model-aside"
    text = run.folder.metrics.read_text(encoding="utf-8")
    model.rename(aside)  # an unfinished run has no model folder
    try:
        open_view("runs", run="gpt", smooth=0)
        before = len(view_data(page, "[data-metric=loss]")["lines"][0]["x"])
        with run.folder.metrics.open("a", encoding="utf-8") as file:
            file.write('{"step": 999, "loss": 0.5}\n')
        wait_until(page, "document.querySelector('[data-metric=loss]').viewData.lines[0].x.at(-1) === 999")
        assert len(view_data(page, "[data-metric=loss]")["lines"][0]["x"]) == before + 1
    finally:
        aside.rename(model)
        run.folder.metrics.write_text(text, encoding="utf-8")


@pytest.mark.usefixtures("fresh")
def test_a_very_long_run_is_thinned_and_says_so_and_still_grows(open_view, page, runs):
    run = runs.workspace.run(runs.id("gpt"))
    model, aside = run.folder.model, run.folder.path / "model-aside"
    text = run.folder.metrics.read_text(encoding="utf-8")
    losses = [3 + (number % 7) / 10 for number in range(9_000)]
    losses[4_321] = 77.0
    model.rename(aside)
    try:
        lines = [json.dumps({"step": step, "loss": loss}) + "\n" for step, loss in enumerate(losses, 1)]
        run.folder.metrics.write_text("".join(lines), encoding="utf-8")
        open_view("runs", run="gpt", smooth=20)
        faint, smooth = view_data(page, "[data-metric=loss]")["lines"]
        assert (4_322, 77.0) in zip(faint["x"], faint["y"], strict=True)
        assert len(faint["x"]) < 4_000
        assert smooth["y"][100] == pytest.approx(3.3, abs=0.01)  # the mean of all, and not that of the extremes
        assert f"9,000 lines that were noted, {len(faint['x']):,}" in page.locator(".charts .note").inner_text()
        with run.folder.metrics.open("a", encoding="utf-8") as file:
            file.write('{"step": 9999, "loss": 0.5}\n')
        wait_until(page, "document.querySelector('[data-metric=loss]').viewData.lines[1].x.at(-1) === 9999")
        assert len(view_data(page, "[data-metric=loss]")["lines"][0]["x"]) == len(faint["x"]) + 1
    finally:
        aside.rename(model)
        run.folder.metrics.write_text(text, encoding="utf-8")


def test_pieces_are_those_of_the_tokenizer_as_one_types(open_view, page, runs):
    open_view("tokenize", run="bert")
    text = "猫坐 the 龘"
    page.locator("textarea").fill(text)
    wait_until(page, "document.querySelector('.cut').innerText.includes('龘')")
    tokenizer = runs.model("bert").tokenizers.source
    numbers = page.locator(".token-groups").first.locator(".token-entry > span").all_inner_texts()
    assert list(map(int, numbers)) == tokenizer.encode(text)
    group = page.locator(".token-groups-group.multi-token").filter(has_text="龘").first
    assert group.locator("b").all_inner_texts() == ["E9", "BE", "98"]
    assert "\ufffd" not in page.locator("main").inner_text()
