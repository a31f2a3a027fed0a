"""The code for this: what every view shows, for every family, is what its Python gives when somebody runs it."""

from __future__ import annotations

import subprocess
import sys
from urllib.parse import urlencode

import numpy as np
import pytest
from page_code import KEPT, MAX_LINE_LENGTH, code_of, run_code, runs_folder
from page_data import view_data, wait_until

import seq2see
from seq2see.explorer.offline import saved_page
from seq2see.explorer.views.attention import LayerRequest, measures
from tiny_runs import SCRIPT

TEXTS = {"recurrent": "红猫", "transformer": "大狗", "gpt": "the cat sat", "bert": "the [MASK] sat on", "vit": ""}
TARGETS = {"recurrent": "the red cat", "transformer": "the big dog"}
FAMILIES = list(TEXTS)
SOME = ("recurrent", "bert", "vit")
"""Whose views differ most."""
HOSTILE = f'"it\'s" \\n \\\n\t猫\u202e{SCRIPT}\'\'\'""" {{x}}'
MATRIX, BARS, STRIP, IMAGE = ".attention-figure canvas", "svg.bars", ".surprisal", ".image-canvas"
NEAR = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture(autouse=True)
def at_home(runs, monkeypatch):
    monkeypatch.chdir(runs_folder(runs))


@pytest.fixture
def look(open_view, page):
    """Opens a view, runs one of its snippets, and gives what that left behind."""

    def opened(view, run, name, **state):
        given = {"text": TEXTS[run], "target": TARGETS.get(run, "")}
        open_view(view, run=run, **{**{key: value for key, value in given.items() if value}, **state})
        return run_code(page, name)

    return opened


def close(page, selector, values):
    np.testing.assert_allclose(view_data(page, selector)["values"], np.asarray(values).flatten(), **NEAR)


@pytest.mark.parametrize("run", SOME)
def test_attention_and_one_head(look, page, runs, run):
    close(page, MATRIX, look("attention", run, "Attention", layer=0, head=1)["weights"])
    close(
        page, ".attention-detail canvas.heat-canvas", look("attention", run, "Attention", query=1)["theme"].values[:, 1]
    )
    left = run_code(page, "heads, measured")["measures"]
    asked = LayerRequest(run=runs.id(run), text=TEXTS[run], target=TARGETS.get(run), layer=0)
    first = next(iter(left.values()))
    told = measures(runs.workspace, asked)
    np.testing.assert_allclose(first[0], told["entropy"], **NEAR)
    if told["distance"]:
        np.testing.assert_allclose(first[1], told["distance"], **NEAR)
    by_hand = look("single-head", run, "One head by hand", layer=0, query=1)
    steps = view_data(page, ".single-head-table")
    np.testing.assert_allclose(by_hand["weights"], steps["weights"], **NEAR)
    np.testing.assert_allclose(by_hand["weights"], steps["model"], **NEAR)


def test_what_is_chosen_of_attention_is_chosen_in_python(look, page):
    fused = {"heads": "mean", "hide_special": "yes", "transposed": "yes"}
    left = look("attention", "transformer", "Attention", layer=5, **fused)
    close(page, MATRIX, left["weights"])
    assert left["weights"].shape == (len(view_data(page, MATRIX)["rows"]), len(view_data(page, MATRIX)["columns"]))
    close(page, MATRIX, look("attention", "transformer", "Attention", heads="max")["weights"])
    every = look("attention", "gpt", "Attention", heads="all", shows="lines", hide="yes")["weights"]
    for line in view_data(page, ".attention-figure svg")["lines"]:
        assert every[line["set"], line["from"], line["to"]] == pytest.approx(line["value"], abs=1e-5)
    changed = {"scaled": "no", "masked": "no", "edits": "q.1.0=1.5,k.0.1=-2,v.0.0=7", "query": 1}
    for run in ("gpt", "recurrent"):
        left = look("single-head", run, "One head by hand", **changed)
        np.testing.assert_allclose(left["weights"], view_data(page, ".single-head-table")["weights"], **NEAR)
        output = view_data(page, ".single-head-output canvas.heat-canvas")["values"][: len(left["output"])]
        np.testing.assert_allclose(left["output"], output, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("run", ["transformer", "gpt", "bert"])
def test_what_comes_next_and_how_it_is_searched(look, page, run):
    drawn = {"temperature": 0.7, "top_k": 5, "top_p": 0.9, "count": 6}
    more = drawn if run == "bert" else {**drawn, "repetition": 1.5, "forced": "7.8"}
    for state in ({}, more):
        left = look("next-token", run, "Next token", **state)
        np.testing.assert_allclose(left["top_tokens"].values.numpy(), view_data(page, BARS)["values"][:-1], **NEAR)
    for paint in ("surprisal", "entropy"):
        bits = look("next-token", run, "Surprise", paint=paint)["bits"].numpy()
        told = view_data(page, STRIP)["values"][: len(bits)]
        blanks = [place for place, token in enumerate(view_data(page, STRIP)["tokens"]) if token == "[MASK]"]
        bits[blanks] = 0
        np.testing.assert_allclose(np.minimum(bits / 12, 1), told, **NEAR)
    if run != "recurrent":
        scores = run_code(page, "Layer by layer")["scores"]
        np.testing.assert_allclose(
            scores[:, scores[-1].argmax()].exp().numpy(), view_data(page, ".lens")["probability"], **NEAR
        )
    if run == "bert":
        return
    beams = {"num_beams": 2, "length_penalty": "gnmt", "alpha": 0.6, "max_new_tokens": 7, "forced": "7"}
    for state in (
        {"strategy": "sample", "seed": 3, "temperature": 0.8},
        beams,
        {"num_beams": 1, "length_penalty": "average"},
    ):
        left = look("decode", run, "Search", **state)
        answer, told = left["answer"], view_data(page, ".answer")
        assert left["before"].tokenizer.decode(answer.tokens) == told["text"]
        assert (answer.score, answer.log_probability) == pytest.approx(
            (told["score"], told["log_probability"]), abs=1e-5
        )
        assert list(range(len(left["tree"].nodes))) == view_data(page, ".search-tree")["numbers"]
    found = look("decode", run, "Teacher forcing against free running", target="the cat")["found"]
    told = view_data(page, ".exposure-bias > div:last-child")
    for name in ("forced_loss", "free_loss", "truth_after_own_loss"):
        np.testing.assert_allclose(getattr(found, name), told[name], **NEAR)


def test_states_and_what_is_left(look, page):
    for sort in ("number", "mean", "change", "latest"):
        state = {"cell": "encoder.stack.backward_cells.0", "signals": "update", "sort": sort, "word": 1}
        states = look("recurrent", "recurrent", "States", **state)["states"]
        close(page, "[data-plot=states]", states.T)
    left = run_code(page, "What is left of a word")["left"]
    told = page.locator("svg.chart").first.evaluate("chart => chart.left.map((line) => line.y)")
    np.testing.assert_allclose(left, told, **NEAR)
    found = run_code(page, "One context vector, or one at each step")["found"]
    close(page, "[data-plot=contexts]", [found.summary, *found.steps])


def test_images(look, page):
    changed = {"cover": "3.5", "order": ".".join(map(str, reversed(range(16))))}
    seen = [
        {"layer": 1, "head": 1, "query": 6},
        {"number": 1, "signals": "rollout", "fusion": "max", "discard": 0.5, **changed},
        {"signals": "position", "query": 3},
    ]
    for state in seen:
        close(page, IMAGE, look("vit", "vit", "Images", **state)["heat"])
    for state in ({"number": 1}, {**changed, "off": "yes"}):
        said = look("vit", "vit", "What the model says", **state)["already_generated"]
        told = page.locator(BARS).last.evaluate("each => each.viewData")
        assert told["labels"] == [each.text for each in said.candidates[0]]
        np.testing.assert_allclose(told["values"], [each.probability for each in said.candidates[0]], **NEAR)


@pytest.mark.parametrize("run", SOME)
def test_positions_compare_and_what_it_is_made_of(look, page, runs, run):
    if run != "recurrent":
        left = look("positions", run, "What the model is told", length=9)
        close(page, "[data-plot=table]", left["table"])
        close(page, "[data-plot=alike]", left["neighbors"])
    if run != "vit":
        count = len(runs.model(run).tokenizers.source.encode("红猫"))
        order = ".".join(map(str, reversed(range(count))))
        turned = look("positions", run, "The same words in another order", order=order, text="红猫", off="yes")
        close(page, "[data-plot=distances]", turned["distances"])
        assert page.locator("[data-prediction=reordered]").text_content() == turned["answer"]
    others = {"vit": {"other_number": 1}, "bert": {"other": "the cat [MASK] on"}, "gpt": {}}.get(run, {"other": "小猫"})
    sides = look("compare", run, "Compare", **others)
    answers = page.locator(".side-answer").all_text_contents()
    assert [each.text for each in sides["responses"]] == answers[:2]
    if "read" in sides:
        told = np.reshape(view_data(page, ".target-map canvas")["values"], (3, -1))
        np.testing.assert_allclose([[each.probability for each in side] for side in sides["read"]], told[:2], **NEAR)
    maps = run_code(page, "Attention")["weights"]
    for place, weights in enumerate(maps):
        close(page, f"[data-map='{place}'] canvas", weights)
    root = look("architecture", run, "Architecture")["root"]
    told = view_data(page, ".blocks")[0]
    assert (root.parameters, root.macs) == (told["parameters"], told["operations"])


def test_two_runs_are_compared(look, page):
    left = look("compare", "recurrent", "Attention", second="transformer", head=1, layer=1)
    close(page, "[data-map='2'] canvas", left["difference"])


@pytest.mark.parametrize("run", FAMILIES)
def test_what_lies_in_the_folder_and_in_the_tables(look, page, run):
    left = look("runs", run, "Runs", smooth=10)
    faint, bold, valid = view_data(page, "[data-metric=loss]")["lines"]
    name = left["names"][0]
    assert [list(each) for each in left["curves"][name, "loss"]] == [
        list(each) for each in zip(faint["x"], faint["y"], strict=True)
    ]
    np.testing.assert_allclose(left["bold"], bold["y"], **NEAR)
    assert [loss for _, loss in left["curves"][name, "valid_loss"]] == valid["y"]
    rows = run_code(page, "The same examples, step by step")["rows"]
    assert [row[2] for row in rows] == [
        row.locator("td").nth(2).text_content() for row in page.locator(".samples tr").all()[1:]
    ]
    rows = look("mistakes", run, "Mistakes", sort="most-confident")["rows"]
    told = view_data(page, "section.view-mistakes > div:last-child")
    assert [row.number for row in rows] == [row["number"] for row in told]
    np.testing.assert_allclose([row.quality for row in rows], [row["score"] for row in told], **NEAR)
    if run == "vit":
        return close(
            page, ".heat-canvas", run_code(page, "Confusion: rows are the truth, columns the answers")["counts"]
        )
    left = look("tokenize", run, "Tokenize", text=HOSTILE)
    ids = [int(each) for each in page.locator(".token-entry > span").all_text_contents()]
    assert [each for side in left["ids"].values() for each in side] == ids
    close(page, "canvas.scatter", look("embeddings", run, "Embeddings")["found"].places)
    return None


def test_words_and_sources(look, page):
    state = {
        "word": "猫",
        "neighbors": 4,
        "first": "红",
        "second_word": "黑",
        "third": "猫",
        "common": "猫",
        "sentences": "红猫\n大猫",
    }
    near = look("embeddings", "transformer", "neighbors", **state)["neighbors"]
    np.testing.assert_allclose([each.cosine for each in near], view_data(page, ".near .bars")["values"], **NEAR)
    wait_until(page, "document.querySelector('.sums .bars') && document.querySelector('.contexts .chart')")
    name = "What is to the third as the first to the second? first − second + third"
    sums = run_code(page, name)["everything"]
    np.testing.assert_allclose([each.cosine for each in sums], view_data(page, ".sums .bars")["values"], **NEAR)
    cosines = run_code(page, "One word in several sentences")["cosines"]
    line = view_data(page, ".contexts .chart")["lines"][0]["y"]
    np.testing.assert_allclose([layer[0] for layer in cosines.values()], line, **NEAR)
    source = look("architecture", "gpt", "block", block="decoder.blocks.0.theme")["source"]
    assert source == page.locator(".block-details pre").first.text_content()
    found = look("mistakes", "vit", "Mistakes", truth="红", answer="红", find="1")["rows"]
    assert [row.number for row in found] == [
        row["number"] for row in view_data(page, "section.view-mistakes > div:last-child")
    ]


def test_it_is_folded_copied_by_keyboard_and_told_in_both_languages(open_view, page):
    open_view("tokenize", text=HOSTILE)
    fold = page.locator("details.code")
    assert not fold.locator("pre").first.is_visible()
    fold.locator("summary").focus()
    page.keyboard.press("Enter")
    code = code_of(page, "Tokenize")
    fold.get_by_role("button", name="copy: Tokenize").focus()
    page.keyboard.press("Enter")
    assert fold.get_by_role("button").text_content() == "copied"
    page.locator("textarea[name=text]").fill("")
    page.locator("textarea[name=text]").focus()
    page.keyboard.press("Control+V")
    assert page.locator("textarea[name=text]").input_value() == code
    wait_until(
        page, "code => document.querySelector('pre[data-code]').textContent !== code", code
    )  # it follows what is typed
    page.get_by_role("button", name="Switch to Chinese").click()
    wait_until(page, "document.querySelector('details.code summary').textContent === '对应的代码'")
    assert page.locator("details.code").get_attribute("open") is not None
    open_view("attention", lang="zh", text="红猫", head=1)
    assert "# 第 2 头" in code_of(page, "注意力")


def test_the_code_is_in_saved_pages_and_in_notebooks(page, runs, tmp_path):
    path = tmp_path / "theme.html"
    text = "the cat sat"
    path.write_text(saved_page(runs.workspace, text, views=("tokenize",)), encoding="utf-8")
    page.goto(f"{path.as_uri()}#{urlencode({'view': 'tokenize', 'run': runs.id('gpt'), 'text': text})}")
    assert run_code(page, "Tokenize")["ids"]["both"] == runs.model("gpt").tokenizers.source.encode(text)
    book = tmp_path / "notebook.html"
    model = seq2see.load(runs.workspace.run(runs.id("gpt")).name)
    begun = '<!DOCTYPE html><meta charset="utf-8"><textarea></textarea>'
    book.write_text(f"{begun}{model(text).attention._repr_html_()}", encoding="utf-8")
    page.goto(book.as_uri())
    frame = page.frame_locator("iframe")
    frame.locator("details.code summary").click()
    frame.get_by_role("button", name="copy: Attention").click()
    page.locator("textarea").focus()
    page.keyboard.press("Control+V")
    code = page.locator("textarea").input_value()
    assert code == frame.locator("pre[data-code=Attention]").text_content()
    assert f'seq2see.load("{model.name}")' in code


def test_python_itself_has_nothing_against_any_of_it(look, page, runs, tmp_path):
    for view, name in (("tokenize", "Tokenize"), ("attention", "Attention"), ("compare", "Compare")):
        look(view, "gpt", name, text=HOSTILE)
    for number, code in enumerate(KEPT):
        (tmp_path / f"snippet_{number}.py").write_text(code, encoding="utf-8")
        assert str(runs_folder(runs)) not in code
        assert max(map(len, code.splitlines())) <= MAX_LINE_LENGTH
        assert len(code.splitlines()) <= 30
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", str(tmp_path)]
    found = subprocess.run(ruff, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout
