"""The attention weights on the page are those of the model, and so are the weights that the page computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_data import link_state, view_data, wait_until

from seq2see.data.tokenizers.tokenizer import Characters, train_tokenizer
from seq2see.decoding.engine import Decoding
from seq2see.explorer.inputs import TraceRequest, attention_layers, named_batch
from seq2see.explorer.offline import saved_page
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.inspection.attention_measures import entropy
from seq2see.models.build import fresh_model
from seq2see.models.settings import ModelSettings, TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.runs.load import open_model
from seq2see.tasks.model import trace_batch
from seq2see.tasks.model_folder import ModelConfig, StoredModel, Tokenizers
from seq2see.tasks.task import pretrained_task

TEXTS = {"recurrent": "红猫", "transformer": "红猫", "gpt": "the cat sat 猫", "bert": "the [MASK] sat", "vit": ""}
MATRIX = ".attention-figure canvas"
EVERY = pytest.mark.parametrize("name", TEXTS)


def signals(runs: Any, name: str) -> list[Any]:
    """All attention layers of the model for the text of its family, computed in Python."""
    request = TraceRequest(run=runs.id(name), text=TEXTS[name])
    return trace_batch(runs.model(name), named_batch(runs.workspace, request)).of("attention")


def matrix(page: Any, selector: str = MATRIX) -> np.ndarray:
    data = view_data(page, selector)
    return np.array(data["values"]).reshape(len(data["rows"]), len(data["columns"]))


@EVERY
def test_heads_and_thumbnails_are_those_of_the_model(open_view, runs, name):
    page = open_view("attention", run=name, text=TEXTS[name])
    found = signals(runs, name)
    cross = [each for each in found if each.is_cross_attention]
    chosen = (cross or found)[-1].values
    assert matrix(page) == pytest.approx(chosen[0], abs=1e-6)
    thumbnails = page.locator(".thumbnail")
    assert thumbnails.count() == sum(len(each.values) for each in found)
    first = view_data(page, ".thumbnail canvas")
    assert first["values"] == pytest.approx(found[0].values[0].flatten(), abs=1e-6)
    bits = float(thumbnails.first.locator("small").inner_text().split()[0])
    assert bits == pytest.approx(entropy(found[0].values[0]).mean(), rel=0.06)
    rows = matrix(page, ".attention-detail .heat canvas")
    query = 0 if cross or name == "vit" else -1  # the last token attends to the most tokens
    assert rows == pytest.approx(chosen[:, query], abs=1e-6)
    if name == "vit":  # without the class token
        assert matrix(page, ".attention-patches canvas").flatten() == pytest.approx(chosen[0, 0, 1:], abs=1e-6)


def test_a_head_is_selected_by_mouse_and_keys_and_stored_in_the_link(open_view, runs):
    page = open_view("attention", run="transformer", text="红猫")
    found = signals(runs, "transformer")
    page.locator(".thumbnail").nth(1).click()
    wait_until(
        page, f"Math.abs(document.querySelector('{MATRIX}').viewData.values[0] - {found[0].values[1][0][0]}) < 1e-6"
    )
    assert matrix(page) == pytest.approx(found[0].values[1], abs=1e-6)
    assert link_state(page)["layer"] == "0"
    assert link_state(page)["head"] == "1"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    wait_until(page, "location.hash.includes('layer=1')")
    wait_until(
        page, f"Math.abs(document.querySelector('{MATRIX}').viewData.values[0] - {found[1].values[1][0][0]}) < 1e-6"
    )
    page.reload()
    page.wait_for_selector("section.view:not([aria-busy])")
    assert matrix(page) == pytest.approx(found[1].values[1], abs=1e-6)


def test_pointing_at_a_token_shows_its_weights_in_every_head(open_view, runs):
    page = open_view("attention", run="gpt", text=TEXTS["gpt"])
    last = signals(runs, "gpt")[-1].values
    page.locator(MATRIX).focus()
    for _ in range(4):
        page.keyboard.press("ArrowDown")
    wait_until(page, "location.hash.includes('query=3')")
    wait_until(page, "document.querySelector('.attention-detail canvas').getAttribute('aria-label').includes('“e”')")
    assert matrix(page, ".attention-detail canvas") == pytest.approx(last[:, 3], abs=1e-6)


def test_fused_hidden_and_transposed(open_view, runs):
    found = signals(runs, "transformer")[-1].values
    page = open_view("attention", run="transformer", text="红猫", heads="max", transposed="yes")
    assert matrix(page) == pytest.approx(found.max(0).T, abs=1e-6)
    page = open_view("attention", run="transformer", text="红猫", heads="mean", hide_special="yes")
    data = view_data(page, MATRIX)
    assert "<eos>" not in [*data["rows"], *data["columns"]]
    assert matrix(page) == pytest.approx(found.mean(0)[:-1, :-1], abs=1e-6)


def test_all_heads_as_lines_each_in_its_color(open_view, runs):
    page = open_view("attention", run="transformer", text="红猫", heads="all", display="lines", threshold=0.2)
    found = signals(runs, "transformer")[-1].values
    lines = view_data(page, ".attention-figure svg")["lines"]
    assert len(lines) == (found >= 0.2).sum()
    for line in lines:
        assert line["value"] == pytest.approx(found[line["set"], line["from"], line["to"]], abs=1e-6)


def test_a_thousand_tokens_are_shown(open_view, runs):
    text = ("the cat sat on the mat. 猫坐在垫子上。" * 40)[:1000]
    page = open_view("attention", run="gpt", text=text)
    shape_and_values = page.evaluate(f"""() => {{
        const {{ rows, columns, values }} = document.querySelector('{MATRIX}').viewData;
        return [rows.length, columns.length, values[999 * 1000], values[1]];
    }}""")
    assert shape_and_values[:2] == [1000, 1000]
    assert shape_and_values[2] > 0 == shape_and_values[3]  # the mask is causal
    page = open_view("attention", run="gpt", text=text, query=999, head=1)
    last = runs.model("gpt").trace(text, "").of("attention")[-1].values[:, 999]
    largest = np.sort(last.max(0))[-40:]
    assert np.sort(matrix(page, ".attention-detail .heat canvas").max(0)) == pytest.approx(largest, abs=1e-6)


@EVERY
def test_a_single_head_is_computed_as_by_the_model(open_view, runs, name):
    page = open_view("single-head", run=name, text=TEXTS[name], query=1)
    found = signals(runs, name)[-1].values[0]
    assert matrix(page, ".single-head-all canvas") == pytest.approx(found, abs=1e-5)
    steps = view_data(page, ".single-head-table")
    assert steps["weights"] == pytest.approx(found[1], abs=1e-5)
    assert float(page.locator(".single-head-notes").get_attribute("data-difference")) < 1e-5
    output = matrix(page, ".single-head-output canvas")
    assert output[0] == pytest.approx(output[1], abs=1e-5)


def test_without_the_scale_without_the_mask_and_with_an_edit(open_view, runs):
    request = TraceRequest(run=runs.id("gpt"), text="the cat")
    (signal,) = [each for each in attention_layers(runs.workspace, request) if each.name.endswith("1.self_attention")]
    head_dim = signal.values.shape[-1]
    page = open_view("single-head", run="gpt", text="the cat", query=2)
    original = view_data(page, ".single-head-table")
    assert original["weights"][3:] == [0] * len("e cat")
    page.locator("#control-masked").uncheck()
    unmasked = view_data(page, ".single-head-table")
    assert all(weight > 0 for weight in unmasked["weights"])
    powers = np.exp(unmasked["scaled"])
    assert unmasked["weights"] == pytest.approx(powers / powers.sum(), abs=1e-6)
    page.locator("#control-scaled").uncheck()
    unscaled = view_data(page, ".single-head-table")
    assert np.array(unscaled["scaled"]) == pytest.approx(np.array(original["scaled"]) * head_dim**0.5, rel=1e-5)
    page.locator(".single-head-queries canvas").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.keyboard.type("9.5")
    page.keyboard.press("Enter")
    wait_until(page, "location.hash.includes('edits=q.0.0')")
    assert view_data(page, ".single-head-queries canvas")["values"][0] == 9.5
    assert float(page.locator(".single-head-notes").get_attribute("data-difference")) > 1e-3


@pytest.mark.parametrize("name", ["transformer", "vit"])
def test_a_saved_page_shows_both_views_and_every_head_without_a_server(page, runs, tmp_path, name):
    id = runs.id(name)
    path = tmp_path / "page.html"
    path.write_text(saved_page(Workspace({id: runs.workspace.run(id)}), TEXTS[name]), encoding="utf-8")
    found = signals(runs, name)
    page.goto(path.as_uri())
    page.wait_for_selector("section.view-attention:not([aria-busy])")
    page.locator(".thumbnail").nth(1).click()
    wait_until(
        page, f"Math.abs(document.querySelector('{MATRIX}').viewData.values[0] - {found[0].values[1][0][0]}) < 1e-6"
    )
    page.locator("nav a[data-view=single-head]").click()
    page.wait_for_selector("section.view-single-head:not([aria-busy])")
    assert matrix(page, ".single-head-all canvas") == pytest.approx(found[-1].values[0], abs=1e-5)


def gpt_run(positions: str) -> OpenRun:
    """A GPT with random weights and another position encoding in its attention."""
    embedding = TokenEmbeddingSettings(positions=positions)
    stack = TransformerSettings(width=16, depth=2, heads=2, dropout=0.0)
    settings = ModelSettings(target=TextTarget(embedding=embedding, max_tokens=64), decoder=stack)
    tokenizer = train_tokenizer(Characters(), ["我有一支笔"])
    module = fresh_model(settings, (len(tokenizer), len(tokenizer)), "xavier", seed=1).eval()
    config = ModelConfig(
        task=pretrained_task(settings), name="gpt", step=1, model=settings, decoding=Decoding(max_new_tokens=8)
    )
    run = OpenRun("r1", positions, None, Path())
    run.model = open_model(StoredModel(config, module, Tokenizers(tokenizer, tokenizer)))
    return run


@pytest.mark.parametrize("positions", ["rotary", "alibi"])
def test_position_encodings_of_the_attention_are_included(page, tmp_path, positions):
    """RoPE rotates queries and keys, ALiBi adds a bias; the plain dot product would give other weights."""
    run = gpt_run(positions)
    path = tmp_path / "page.html"
    text = "我有一支笔我有一支笔"
    path.write_text(saved_page(Workspace({"r1": run}), text, views=("attention", "single-head")), encoding="utf-8")
    found = run.model.trace(text, "").of("attention")[-1].values[0]
    page.goto(f"{path.as_uri()}#view=single-head&run=r1&query=9&text={text}")
    page.wait_for_selector("section.view-single-head:not([aria-busy])")
    assert matrix(page, ".single-head-all canvas") == pytest.approx(found, abs=1e-5)
    assert ("+ position bias" in page.locator(".single-head-table").inner_text()) == (positions == "alibi")
