"""The Python code that appears on demand: compared strategies, tokens of captions, gold alignments."""

from __future__ import annotations

import numpy as np
import pytest
from page_code import MAX_LINE_LENGTH, code_of, run_code, runs_folder
from page_data import view_data, wait_until

from seq2see.core.settings import walk
from seq2see.explorer.server import serve_in_thread
from seq2see.explorer.views.attention import LayerRequest, measures
from seq2see.explorer.workspace import Workspace
from seq2see.recipes.registry import recipe, resolve
from seq2see.runs.train import train_recipe
from tiny_runs import SMALL

TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture
def in_runs_folder(runs, monkeypatch):
    monkeypatch.chdir(runs_folder(runs))


def test_compared_strategies_are_in_the_code(open_view, page, in_runs_folder):
    settings = {
        "length_penalty": "gnmt",
        "alpha": 0.6,
        "max_new_tokens": 7,
        "seed": 3,
        "temperature": 0.8,
        "forced": "7",
    }
    open_view("decode", run="transformer", text="大狗", **settings)
    assert page.locator("pre[data-code='compare strategies']").count() == 0
    page.get_by_role("button", name="compare strategies").click()
    page.wait_for_selector("table.strategies")
    variables = run_code(page, "compare strategies")
    assert max(map(len, code_of(page, "compare strategies").splitlines())) <= MAX_LINE_LENGTH
    rows = view_data(page, "table.strategies")
    assert [variables["context"].tokenizer.decode(each.tokens) for each in variables["hypotheses"]] == [
        row[1] for row in rows
    ]
    for column, name in ((2, "log_probability"), (3, "score")):
        np.testing.assert_allclose(
            [getattr(each, name) for each in variables["hypotheses"]], [row[column] for row in rows], **TOLERANCE
        )
    page.locator("select[name=length_penalty]").select_option("none")
    wait_until(page, "document.querySelector('table.strategies') === null")
    assert page.locator("pre[data-code='compare strategies']").count() == 0
    assert page.locator(".downloads", has_text="compare strategies").count() == 0


@pytest.mark.parametrize("name", ["caption", "video"])
def test_the_attention_of_a_caption_token_is_in_the_code(open_view, page, in_runs_folder, name):
    open_view("vit", run=name, number=1)
    first = code_of(page, "Attention map of a token")
    page.locator(".image-candidates .token").nth(1).hover()
    wait_until(
        page,
        "first => document.querySelector('pre[data-code=\"Attention map of a token\"]').textContent !== first",
        first,
    )
    heat = run_code(page, "Attention map of a token")["heat"]
    np.testing.assert_allclose(heat, view_data(page, ".image-canvas")["values"], **TOLERANCE)


def test_alignment_error_rates_are_in_the_code(page, tmp_path, monkeypatch):
    paths = {path for path, _, _ in walk(recipe("pocket-transformer"))}
    small = {path: value for path, value in SMALL.items() if path in paths} | {"training.steps": 2, "corpus.size": 300}
    train_recipe(resolve("pocket-transformer", [], small), tmp_path / "pocket")
    monkeypatch.chdir(tmp_path)
    workspace = Workspace.open(["pocket"])
    with serve_in_thread(workspace) as server:
        page.goto(f"{server.link}&view=attention")
        page.wait_for_selector("section.view:not([aria-busy])")
        assert (
            page.locator("pre[data-code='alignment error rate']").count() == 0
        )  # the model's own output has no gold alignment
        page.locator("select[name=examples]").select_option("0")
        page.wait_for_selector("pre[data-code='alignment error rate']", state="attached")
        errors = run_code(page, "alignment error rate")["errors"]
        assert max(map(len, code_of(page, "alignment error rate").splitlines())) <= MAX_LINE_LENGTH
        page.wait_for_selector(".thumbnail >> text=AER", state="attached")
        text, target = (page.locator(f"textarea[name={key}]").input_value() for key in ("text", "target"))
        page.goto("about:blank")
    requests = [LayerRequest(run="r1", text=text, target=target, layer=layer) for layer in range(6)]
    expected = [found for each in requests if (found := measures(workspace, each)["alignment_error"]) is not None]
    assert list(errors.values()) == expected
    assert len(expected) == 2
