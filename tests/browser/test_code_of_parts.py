"""The code for what is opened or pointed at: searches that are compared, words of captions, true alignments."""

from __future__ import annotations

import numpy as np
import pytest
from page_code import MAX_LINE_LENGTH, code_of, run_code, runs_folder
from page_data import view_data, wait_until

from seq2see.api import resolve
from seq2see.core.settings import walk
from seq2see.explorer.server import serve_in_thread
from seq2see.explorer.views.attention import LayerRequest, measures
from seq2see.explorer.workspace import Workspace
from seq2see.recipes.registry import recipe
from seq2see.runs.train import train_recipe
from tiny_runs import SMALL

NEAR = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture
def at_home(runs, monkeypatch):
    monkeypatch.chdir(runs_folder(runs))


def test_ways_that_are_compared_are_searched_in_python(open_view, page, at_home):
    chosen = {"length_penalty": "gnmt", "alpha": 0.6, "max_new_tokens": 7, "seed": 3, "temperature": 0.8, "forced": "7"}
    open_view("decode", run="transformer", text="大狗", **chosen)
    assert page.locator("pre[data-code='compare the ways']").count() == 0
    page.get_by_role("button", name="compare the ways").click()
    page.wait_for_selector("table.strategies")
    left = run_code(page, "compare the ways")
    assert max(map(len, code_of(page, "compare the ways").splitlines())) <= MAX_LINE_LENGTH
    told = view_data(page, "table.strategies")
    assert [left["before"].tokenizer.decode(each.tokens) for each in left["responses"]] == [row[1] for row in told]
    for place, name in ((2, "log_probability"), (3, "score")):
        np.testing.assert_allclose(
            [getattr(each, name) for each in left["responses"]], [row[place] for row in told], **NEAR
        )
    page.locator("select[name=length_penalty]").select_option("none")
    wait_until(page, "document.querySelector('table.strategies') === null")
    assert page.locator("pre[data-code='compare the ways']").count() == 0
    assert page.locator(".downloads", has_text="compare the ways").count() == 0


@pytest.mark.parametrize("name", ["caption", "video"])
def test_a_word_of_a_caption_looks_where_python_says(open_view, page, at_home, name):
    open_view("vit", run=name, number=1)
    first = code_of(page, "Where a word looked")
    page.locator(".image-candidates .token").nth(1).hover()
    wait_until(
        page, "first => document.querySelector('pre[data-code=\"Where a word looked\"]').textContent !== first", first
    )
    heat = run_code(page, "Where a word looked")["heat"]
    np.testing.assert_allclose(heat, view_data(page, ".image-canvas")["values"], **NEAR)


def test_alignments_are_judged_in_python(page, tmp_path, monkeypatch):
    known = {path for path, _, _ in walk(recipe("pocket-transformer"))}
    small = {path: value for path, value in SMALL.items() if path in known} | {"training.steps": 2, "corpus.size": 300}
    train_recipe(resolve("pocket-transformer", [], small), tmp_path / "pocket")
    monkeypatch.chdir(tmp_path)
    workspace = Workspace.open(["pocket"])
    with serve_in_thread(workspace) as keys:
        page.goto(f"{keys.link}&view=attention")
        page.wait_for_selector("section.view:not([aria-busy])")
        assert page.locator("pre[data-code='alignment error']").count() == 0  # nothing is known of its own answer
        page.locator("select[name=examples]").select_option("0")
        page.wait_for_selector("pre[data-code='alignment error']", state="attached")
        errors = run_code(page, "alignment error")["errors"]
        assert max(map(len, code_of(page, "alignment error").splitlines())) <= MAX_LINE_LENGTH
        page.wait_for_selector(".thumbnail >> text=error", state="attached")
        text, target = (page.locator(f"textarea[name={key}]").input_value() for key in ("text", "target"))
        page.goto("about:blank")
    asked = [LayerRequest(run="r1", text=text, target=target, layer=layer) for layer in range(6)]
    told = [found for each in asked if (found := measures(workspace, each)["alignment_error"]) is not None]
    assert list(errors.values()) == told
    assert len(told) == 2
