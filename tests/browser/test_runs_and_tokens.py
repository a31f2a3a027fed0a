"""Curves and tokens: the page shows the numbers of the files of a run, and those of its tokenizer."""

from __future__ import annotations

import json

import pytest
from page_data import link_state, view_data, wait_until


def recorded(run, name):
    lines = [json.loads(line) for line in run.folder.metrics.read_text(encoding="utf-8").splitlines()]
    return [(line["step"], line[name]) for line in lines if name in line]


def test_curves_are_those_of_the_metrics_log(open_view, page, runs):
    open_view("runs", smoothing=0)
    run = runs.workspace.run(runs.id("transformer"))
    train, valid = view_data(page, "[data-metric=loss]")["lines"]
    assert list(zip(train["x"], train["y"], strict=True)) == recorded(run, "loss")
    assert list(zip(valid["x"], valid["y"], strict=True)) == recorded(run, "valid_loss")


def test_smoothing_is_a_moving_average_and_part_of_the_link(open_view, page, runs):
    open_view("runs")
    page.locator("input[name=smoothing]").fill("10")
    assert link_state(page)["smoothing"] == "10"
    faint, smooth, _ = view_data(page, "[data-metric=loss]")["lines"]
    half = len(faint["y"]) * 10 // 200
    window = faint["y"][20 - half : 20 + half + 1]
    assert smooth["y"][20] == pytest.approx(sum(window) / len(window))
    assert half > 0


def test_another_run_is_overlaid(open_view, page):
    open_view("runs")
    page.get_by_role("checkbox", name="recurrent <i>&").check()
    wait_until(page, "document.querySelector('[data-metric=loss]').viewData.lines.length === 6")
    assert link_state(page)["others"] == "r1"


def test_samples_follow_the_slider(open_view, page, runs):
    open_view("runs")
    folder = runs.workspace.run(runs.id("transformer")).folder.samples
    files = sorted(folder.glob("step-*.tsv"))
    page.locator("input[name=index]").fill("0")
    first = [line.split("\t") for line in files[0].read_text(encoding="utf-8").splitlines()[1:]]
    wait_until(
        page, "first => document.querySelectorAll('table.samples tr')[1]?.cells[2].innerText === first", first[0][2]
    )
    assert link_state(page)["step"] == "20"
    cells = page.locator("table.samples tr").nth(1).locator("td").all_inner_texts()
    assert cells == first[0]


@pytest.mark.usefixtures("fresh")
def test_the_curves_of_a_run_in_progress_are_updated(open_view, page, runs):
    run = runs.workspace.run(runs.id("gpt"))
    model, renamed = run.folder.model, run.folder.path / "model-renamed"
    text = run.folder.metrics.read_text(encoding="utf-8")
    model.rename(renamed)  # an unfinished run has no model folder
    try:
        open_view("runs", run="gpt", smoothing=0)
        before = len(view_data(page, "[data-metric=loss]")["lines"][0]["x"])
        with run.folder.metrics.open("a", encoding="utf-8") as file:
            file.write('{"step": 999, "loss": 0.5}\n')
        wait_until(page, "document.querySelector('[data-metric=loss]').viewData.lines[0].x.at(-1) === 999")
        assert len(view_data(page, "[data-metric=loss]")["lines"][0]["x"]) == before + 1
    finally:
        renamed.rename(model)
        run.folder.metrics.write_text(text, encoding="utf-8")


@pytest.mark.usefixtures("fresh")
def test_a_very_long_run_is_downsampled_with_a_note_and_updated(open_view, page, runs):
    run = runs.workspace.run(runs.id("gpt"))
    model, renamed = run.folder.model, run.folder.path / "model-renamed"
    text = run.folder.metrics.read_text(encoding="utf-8")
    losses = [3 + (number % 7) / 10 for number in range(9_000)]
    losses[4_321] = 77.0
    model.rename(renamed)
    try:
        lines = [json.dumps({"step": step, "loss": loss}) + "\n" for step, loss in enumerate(losses, 1)]
        run.folder.metrics.write_text("".join(lines), encoding="utf-8")
        open_view("runs", run="gpt", smoothing=20)
        faint, smooth = view_data(page, "[data-metric=loss]")["lines"]
        assert (4_322, 77.0) in zip(faint["x"], faint["y"], strict=True)
        assert len(faint["x"]) < 4_000
        assert smooth["y"][100] == pytest.approx(3.3, abs=0.01)  # the mean of all values, not of the sampled extremes
        assert f"{len(faint['x']):,} of 9,000 records" in page.locator(".charts .note").inner_text()
        with run.folder.metrics.open("a", encoding="utf-8") as file:
            file.write('{"step": 9999, "loss": 0.5}\n')
        wait_until(page, "document.querySelector('[data-metric=loss]').viewData.lines[1].x.at(-1) === 9999")
        assert len(view_data(page, "[data-metric=loss]")["lines"][0]["x"]) == len(faint["x"]) + 1
    finally:
        renamed.rename(model)
        run.folder.metrics.write_text(text, encoding="utf-8")


def test_tokens_are_those_of_the_tokenizer_during_typing(open_view, page, runs):
    open_view("tokenize", run="bert")
    text = "猫坐 the 龘"
    page.locator("textarea").fill(text)
    wait_until(page, "document.querySelector('.token-groups').innerText.includes('龘')")
    tokenizer = runs.model("bert").tokenizers.source
    numbers = page.locator(".token-groups").first.locator(".token-entry > span").all_inner_texts()
    assert list(map(int, numbers)) == tokenizer.encode(text)
    group = page.locator(".token-group.multi-token").filter(has_text="龘").first
    assert group.locator("b").all_inner_texts() == ["E9", "BE", "98"]
    assert "\ufffd" not in page.locator("main").inner_text()
