"""Where a model looks, as the page shows it, is where it looks; and what the page computes is what it computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_data import link_state, shown, wait_until

from seq2see.decoding.settings import Decoding
from seq2see.explorer.offline import saved_page
from seq2see.explorer.traces import TraceRequest, attention_layers, reading
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.inspection.attention_measures import entropy
from seq2see.models.build import fresh_model
from seq2see.models.settings import ModelSettings, TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.runs.model import open_model
from seq2see.runs.model_folder import ModelConfig, StoredModel
from seq2see.runs.model_tokenizers import Tokenizers
from seq2see.runs.tracing import trace_batch
from seq2see.sequences.tokenizer_training import train_tokenizer
from seq2see.sequences.tokenizers import Characters

TEXTS = {"recurrent": "红猫", "transformer": "红猫", "gpt": "the cat sat 猫", "bert": "the [MASK] sat", "vit": ""}
MATRIX = ".attention-image canvas"
EVERY = pytest.mark.parametrize("name", TEXTS)


def signals(runs: Any, name: str) -> list[Any]:
    """Every attention of the model on this family's text, by Python."""
    asked = TraceRequest(run=runs.id(name), text=TEXTS[name])
    return trace_batch(runs.model(name), reading(runs.workspace, asked)).of("attention")


def matrix(page: Any, selector: str = MATRIX) -> np.ndarray:
    told = shown(page, selector)
    return np.array(told["values"]).reshape(len(told["rows"]), len(told["columns"]))


@EVERY
def test_heads_large_and_small_are_the_models(open_view, runs, name):
    page = open_view("attention", run=name, text=TEXTS[name])
    found = signals(runs, name)
    across = [each for each in found if each.across]
    chosen = (across or found)[-1].values
    assert matrix(page) == pytest.approx(chosen[0], abs=1e-6)
    small = page.locator(".thumbnail")
    assert small.count() == sum(len(each.values) for each in found)
    first = shown(page, ".thumbnail canvas")
    assert first["values"] == pytest.approx(found[0].values[0].flatten(), abs=1e-6)
    bits = float(small.first.locator("small").inner_text().split()[0])
    assert bits == pytest.approx(entropy(found[0].values[0]).mean(), rel=0.06)
    rows = matrix(page, ".attention-detail .heat canvas")
    usual = 0 if across or name == "vit" else -1  # the last of a text may look at most
    assert rows == pytest.approx(chosen[:, usual], abs=1e-6)
    if name == "vit":  # on the image, which has no place for the class token
        assert matrix(page, ".attention-patches canvas").flatten() == pytest.approx(chosen[0, 0, 1:], abs=1e-6)


def test_a_head_is_chosen_by_mouse_and_keys_and_the_link_keeps_it(open_view, runs):
    page = open_view("attention", run="transformer", text="红猫")
    found = signals(runs, "transformer")
    page.locator(".thumbnail").nth(1).click()
    wait_until(
        page, f"Math.abs(document.querySelector('{MATRIX}').shown.values[0] - {found[0].values[1][0][0]}) < 1e-6"
    )
    assert matrix(page) == pytest.approx(found[0].values[1], abs=1e-6)
    assert link_state(page)["layer"] == "0"
    assert link_state(page)["head"] == "1"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    wait_until(page, "location.hash.includes('layer=1')")
    wait_until(
        page, f"Math.abs(document.querySelector('{MATRIX}').shown.values[0] - {found[1].values[1][0][0]}) < 1e-6"
    )
    page.reload()
    page.wait_for_selector("section.view:not([aria-busy])")
    assert matrix(page) == pytest.approx(found[1].values[1], abs=1e-6)


def test_pointing_at_a_token_tells_where_it_looks_by_every_head(open_view, runs):
    page = open_view("attention", run="gpt", text=TEXTS["gpt"])
    last = signals(runs, "gpt")[-1].values
    page.locator(MATRIX).focus()
    for _ in range(4):
        page.keyboard.press("ArrowDown")
    wait_until(page, "location.hash.includes('query=3')")
    wait_until(page, "document.querySelector('.attention-detail canvas').getAttribute('aria-label').includes('“e”')")
    assert matrix(page, ".attention-detail canvas") == pytest.approx(last[:, 3], abs=1e-6)


def test_fused_hidden_and_turned(open_view, runs):
    found = signals(runs, "transformer")[-1].values
    page = open_view("attention", run="transformer", text="红猫", heads="max", transposed="yes")
    assert matrix(page) == pytest.approx(found.max(0).T, abs=1e-6)
    page = open_view("attention", run="transformer", text="红猫", heads="mean", hide="yes")
    told = shown(page, MATRIX)
    assert "<eos>" not in [*told["rows"], *told["columns"]]
    assert matrix(page) == pytest.approx(found.mean(0)[:-1, :-1], abs=1e-6)


def test_all_heads_as_lines_each_in_its_color(open_view, runs):
    page = open_view("attention", run="transformer", text="红猫", heads="all", shows="lines", least=0.2)
    found = signals(runs, "transformer")[-1].values
    lines = shown(page, ".attention-image svg")["lines"]
    assert len(lines) == (found >= 0.2).sum()
    for line in lines:
        assert line["value"] == pytest.approx(found[line["set"], line["start"], line["to"]], abs=1e-6)


def test_a_thousand_tokens_are_shown(open_view, runs):
    text = ("the cat sat on the mat. 猫坐在垫子上。" * 40)[:1000]
    page = open_view("attention", run="gpt", text=text)
    told = page.evaluate(f"""() => {{
        const {{ rows, columns, values }} = document.querySelector('{MATRIX}').shown;
        return [rows.length, columns.length, values[999 * 1000], values[1]];
    }}""")
    assert told[:2] == [1000, 1000]
    assert told[2] > 0 == told[3]  # the last looks at the first, and not the other way round
    page = open_view("attention", run="gpt", text=text, query=999, head=1)
    last = runs.model("gpt").trace(text, "").of("attention")[-1].values[:, 999]
    shares = np.sort(last.max(0))[-40:]
    assert np.sort(matrix(page, ".attention-detail .heat canvas").max(0)) == pytest.approx(shares, abs=1e-6)


@EVERY
def test_computed_by_hand_it_is_what_the_model_computes(open_view, runs, name):
    page = open_view("single-head", run=name, text=TEXTS[name], query=1)
    found = signals(runs, name)[-1].values[0]
    assert matrix(page, ".hand-all canvas") == pytest.approx(found, abs=1e-5)
    steps = shown(page, ".hand-table")
    assert steps["weights"] == pytest.approx(found[1], abs=1e-5)
    assert float(page.locator(".hand-notes").get_attribute("data-difference")) < 1e-5
    output = matrix(page, ".hand-output canvas")
    assert output[0] == pytest.approx(output[1], abs=1e-5)


def test_without_the_division_without_the_mask_and_with_another_number(open_view, runs):
    asked = TraceRequest(run=runs.id("gpt"), text="the cat")
    (signal,) = [each for each in attention_layers(runs.workspace, asked) if each.name.endswith("1.theme")]
    size = signal.values.shape[-1]
    page = open_view("single-head", run="gpt", text="the cat", query=2)
    own = shown(page, ".hand-table")
    assert own["weights"][3:] == [0] * len("e cat")
    page.locator("#control-masked").uncheck()
    open_to_all = shown(page, ".hand-table")
    assert all(weight > 0 for weight in open_to_all["weights"])
    powers = np.exp(open_to_all["scaled"])
    assert open_to_all["weights"] == pytest.approx(powers / powers.sum(), abs=1e-6)
    page.locator("#control-scaled").uncheck()
    bare = shown(page, ".hand-table")
    assert np.array(bare["scaled"]) == pytest.approx(np.array(own["scaled"]) * size**0.5, rel=1e-5)
    page.locator(".hand-queries canvas").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.keyboard.type("9.5")
    page.keyboard.press("Enter")
    wait_until(page, "location.hash.includes('edits=q.0.0')")
    assert shown(page, ".hand-queries canvas")["values"][0] == 9.5
    assert float(page.locator(".hand-notes").get_attribute("data-difference")) > 1e-3


@pytest.mark.parametrize("name", ["transformer", "vit"])
def test_a_saved_page_shows_both_views_and_every_head_without_a_server(page, runs, tmp_path, name):
    id = runs.id(name)
    path = tmp_path / "theme.html"
    path.write_text(saved_page(Workspace({id: runs.workspace.run(id)}), TEXTS[name]), encoding="utf-8")
    found = signals(runs, name)
    page.goto(path.as_uri())
    page.wait_for_selector("section.view-attention:not([aria-busy])")
    page.locator(".thumbnail").nth(1).click()
    wait_until(
        page, f"Math.abs(document.querySelector('{MATRIX}').shown.values[0] - {found[0].values[1][0][0]}) < 1e-6"
    )
    page.locator("nav a[data-view=one-head]").click()
    page.wait_for_selector("section.view-one-head:not([aria-busy])")
    assert matrix(page, ".hand-all canvas") == pytest.approx(found[-1].values[0], abs=1e-5)


def placed(positions: str) -> OpenRun:
    """A GPT with random weights that tells its heads about places in another way."""
    embedding = TokenEmbeddingSettings(positions=positions)
    stack = TransformerSettings(width=16, depth=2, heads=2, dropout=0.0)
    settings = ModelSettings(target=TextTarget(embedding=embedding, max_tokens=64), decoder=stack)
    tokenizer = train_tokenizer(Characters(), ["我有一支笔"])
    module = fresh_model(settings, (len(tokenizer), len(tokenizer)), "xavier", seed=1).eval()
    config = ModelConfig(name="gpt", step=1, model=settings, decoding=Decoding(max_new_tokens=8))
    run = OpenRun("r1", positions, None, Path())
    run.model = open_model(StoredModel(config, module, Tokenizers(tokenizer, tokenizer)))
    return run


@pytest.mark.parametrize("positions", ["rotary", "alibi"])
def test_positions_that_attention_itself_is_told_are_in_what_is_computed_by_hand(page, tmp_path, positions):
    """Turned before they meet, or added to the score; the plain product would give other weights."""
    run = placed(positions)
    path = tmp_path / "theme.html"
    text = "我有一支笔我有一支笔"
    path.write_text(saved_page(Workspace({"r1": run}), text, views=("attention", "single-head")), encoding="utf-8")
    found = run.model.trace(text, "").of("attention")[-1].values[0]
    page.goto(f"{path.as_uri()}#view=one-head&run=r1&query=9&text={text}")
    page.wait_for_selector("section.view-one-head:not([aria-busy])")
    assert matrix(page, ".hand-all canvas") == pytest.approx(found, abs=1e-5)
    assert ("+ position" in page.locator(".hand-table").inner_text()) == (positions == "alibi")
