"""The Python code of a view computes what the view shows, for every family."""

from __future__ import annotations

import subprocess
import sys
from urllib.parse import urlencode

import numpy as np
import pytest
from page_code import MAX_LINE_LENGTH, SNIPPETS, code_of, run_code, runs_folder
from page_data import view_data, wait_until

import seq2see
from seq2see.explorer.offline import saved_page
from seq2see.explorer.views.attention import LayerRequest, measures
from tiny_runs import SCRIPT

TEXTS = {"recurrent": "红猫", "transformer": "大狗", "gpt": "the cat sat", "bert": "the [MASK] sat on", "vit": ""}
TARGETS = {"recurrent": "the red cat", "transformer": "the big dog"}
FAMILIES = list(TEXTS)
SOME = ("recurrent", "bert", "vit")
"""The families whose views differ most."""
HOSTILE = f'"it\'s" \\n \\\n\t猫\u202e{SCRIPT}\'\'\'""" {{x}}'
MATRIX, BARS, STRIP, IMAGE = ".attention-figure canvas", "svg.bars", ".strip", ".image-canvas"
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture(autouse=True)
def in_runs_folder(runs, monkeypatch):
    monkeypatch.chdir(runs_folder(runs))


@pytest.fixture
def run_view(open_view, page):
    """Open a view, run one of its snippets, and return the variables."""

    def open_and_run(view, run, name, **state):
        inputs = {"text": TEXTS[run], "target": TARGETS.get(run, "")}
        open_view(view, run=run, **{**{key: value for key, value in inputs.items() if value}, **state})
        return run_code(page, name)

    return open_and_run


def assert_close(page, selector, values):
    np.testing.assert_allclose(view_data(page, selector)["values"], np.asarray(values).flatten(), **TOLERANCE)


@pytest.mark.parametrize("run", SOME)
def test_attention_and_a_single_head(run_view, page, runs, run):
    assert_close(page, MATRIX, run_view("attention", run, "Attention", layer=0, head=1)["weights"])
    assert_close(
        page,
        ".attention-detail canvas.heat-canvas",
        run_view("attention", run, "Attention", query=1)["signal"].values[:, 1],
    )
    layers = run_code(page, "measures of all heads")["measures"]
    request = LayerRequest(run=runs.id(run), text=TEXTS[run], target=TARGETS.get(run), layer=0)
    first = next(iter(layers.values()))
    expected = measures(runs.workspace, request)
    np.testing.assert_allclose(first[0], expected["entropy"], **TOLERANCE)
    if expected["distance"]:
        np.testing.assert_allclose(first[1], expected["distance"], **TOLERANCE)
    computed = run_view("single-head", run, "Single head", layer=0, query=1)
    steps = view_data(page, ".single-head-table")
    np.testing.assert_allclose(computed["weights"], steps["weights"], **TOLERANCE)
    np.testing.assert_allclose(computed["weights"], steps["model"], **TOLERANCE)


def test_the_settings_of_attention_are_in_the_code(run_view, page):
    fused = {"heads": "mean", "hide_special": "yes", "transposed": "yes"}
    weights = run_view("attention", "transformer", "Attention", layer=5, **fused)["weights"]
    assert_close(page, MATRIX, weights)
    assert weights.shape == (len(view_data(page, MATRIX)["rows"]), len(view_data(page, MATRIX)["columns"]))
    assert_close(page, MATRIX, run_view("attention", "transformer", "Attention", heads="max")["weights"])
    all_heads = run_view("attention", "gpt", "Attention", heads="all", display="lines", hide_special="yes")["weights"]
    for line in view_data(page, ".attention-figure svg")["lines"]:
        assert all_heads[line["set"], line["from"], line["to"]] == pytest.approx(line["value"], abs=1e-5)
    edited = {"scaled": "no", "masked": "no", "edits": "q.1.0=1.5,k.0.1=-2,v.0.0=7", "query": 1}
    for run in ("gpt", "recurrent"):
        computed = run_view("single-head", run, "Single head", **edited)
        np.testing.assert_allclose(computed["weights"], view_data(page, ".single-head-table")["weights"], **TOLERANCE)
        output = view_data(page, ".single-head-output canvas.heat-canvas")["values"][: len(computed["output"])]
        np.testing.assert_allclose(computed["output"], output, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("run", ["transformer", "gpt", "bert"])
def test_the_next_token_and_searches(run_view, page, run):
    sampling = {"temperature": 0.7, "top_k": 5, "top_p": 0.9, "count": 6}
    settings = sampling if run == "bert" else {**sampling, "repetition_penalty": 1.5, "forced": "7.8"}
    for state in ({}, settings):
        best = run_view("next-token", run, "Next token", **state)["best"]
        np.testing.assert_allclose(best.values.numpy(), view_data(page, BARS)["values"][:-1], **TOLERANCE)
    for measure in ("surprisal", "entropy"):
        bits = run_view("next-token", run, "surprisal", color_by=measure)["bits"].numpy()
        values = view_data(page, STRIP)["values"][: len(bits)]
        masks = [index for index, token in enumerate(view_data(page, STRIP)["tokens"]) if token == "[MASK]"]
        bits[masks] = 0
        np.testing.assert_allclose(np.minimum(bits / 12, 1), values, **TOLERANCE)
    if run != "recurrent":
        scores = run_code(page, "Logit lens")["scores"]
        np.testing.assert_allclose(
            scores[:, scores[-1].argmax()].exp().numpy(), view_data(page, ".lens")["probability"], **TOLERANCE
        )
    if run == "bert":
        return
    beams = {"num_beams": 2, "length_penalty": "gnmt", "alpha": 0.6, "max_new_tokens": 7, "forced": "7"}
    for state in (
        {"strategy": "sample", "seed": 3, "temperature": 0.8},
        beams,
        {"num_beams": 1, "length_penalty": "average"},
    ):
        variables = run_view("decode", run, "Search tree", **state)
        hypothesis, answer = variables["hypothesis"], view_data(page, ".answer")
        assert variables["context"].tokenizer.decode(hypothesis.tokens) == answer["text"]
        assert (hypothesis.score, hypothesis.log_probability) == pytest.approx(
            (answer["score"], answer["log_probability"]), abs=1e-5
        )
        assert list(range(len(variables["tree"].nodes))) == view_data(page, ".search-tree")["numbers"]
    title = "Exposure bias: teacher forcing and free running"
    result = run_view("decode", run, title, target="the cat")["result"]
    data = view_data(page, ".exposure-bias > div:last-child")
    for name in ("forced_loss", "free_loss", "truth_after_free_loss"):
        np.testing.assert_allclose(getattr(result, name), data[name], **TOLERANCE)


def test_states_and_the_influence_of_a_token(run_view, page):
    for sort in ("number", "mean", "change", "peak"):
        state = {"cell": "encoder.stack.backward_cells.0", "signals": "update", "sort": sort, "word": 1}
        states = run_view("recurrent", "recurrent", "States", **state)["states"]
        assert_close(page, "[data-plot=states]", states.T)
    influence = run_code(page, "Influence of a token")["influence"]
    lines = page.locator("svg.chart").first.evaluate("chart => chart.influence.map((line) => line.y)")
    np.testing.assert_allclose(influence, lines, **TOLERANCE)
    comparison = run_code(page, "One context vector, or one per step")["comparison"]
    assert_close(page, "[data-plot=contexts]", [comparison.fixed_context, *comparison.attention_contexts])


def test_images(run_view, page):
    changed = {"cover": "3.5", "order": ".".join(map(str, reversed(range(16))))}
    states = [
        {"layer": 1, "head": 1, "query": 6},
        {"number": 1, "overlay": "rollout", "fusion": "max", "discard": 0.5, **changed},
        {"overlay": "position", "query": 3},
    ]
    for state in states:
        assert_close(page, IMAGE, run_view("vit", "vit", "Images", **state)["heat"])
    for state in ({"number": 1}, {**changed, "off": "yes"}):
        (candidates,) = run_view("vit", "vit", "Prediction", **state)["prediction"].candidates
        chart = page.locator(BARS).last.evaluate("each => each.viewData")
        assert chart["labels"] == [each.text for each in candidates]
        np.testing.assert_allclose(chart["values"], [each.probability for each in candidates], **TOLERANCE)


@pytest.mark.parametrize("run", SOME)
def test_positions_compare_and_architecture(run_view, page, runs, run):
    if run != "recurrent":
        variables = run_view("positions", run, "Position encoding", length=9)
        assert_close(page, "[data-plot=table]", variables["table"])
        assert_close(page, "[data-plot=similarity]", variables["similarity"])
    if run != "vit":
        count = len(runs.model(run).tokenizers.source.encode("红猫"))
        order = ".".join(map(str, reversed(range(count))))
        variables = run_view("positions", run, "The same tokens in another order", order=order, text="红猫", off="yes")
        assert_close(page, "[data-plot=distances]", variables["distances"])
        assert page.locator("[data-prediction=reordered]").text_content() == variables["output"]
    others = {"vit": {"other_number": 1}, "bert": {"other": "the cat [MASK] on"}, "gpt": {}}.get(run, {"other": "小猫"})
    variables = run_view("compare", run, "Compare", **others)
    answers = page.locator(".side-answer").all_text_contents()
    assert [each.text for each in variables["predictions"]] == answers[:2]
    if "scores" in variables:
        values = np.reshape(view_data(page, ".target-map canvas")["values"], (3, -1))
        probabilities = [[each.probability for each in side] for side in variables["scores"]]
        np.testing.assert_allclose(probabilities, values[:2], **TOLERANCE)
    maps = run_code(page, "Attention")["weights"]
    for index, weights in enumerate(maps):
        assert_close(page, f"[data-map='{index}'] canvas", weights)
    root = run_view("architecture", run, "Architecture")["root"]
    data = view_data(page, ".blocks")[0]
    assert (root.parameters, root.macs) == (data["parameters"], data["macs"])


def test_two_runs_are_compared(run_view, page):
    variables = run_view("compare", "recurrent", "Attention", second="transformer", head=1, layer=1)
    assert_close(page, "[data-map='2'] canvas", variables["difference"])


@pytest.mark.parametrize("run", FAMILIES)
def test_the_files_of_a_run_and_its_tokens(run_view, page, run):
    variables = run_view("runs", run, "Runs", smoothing=10)
    faint, bold, valid = view_data(page, "[data-metric=loss]")["lines"]
    name = variables["names"][0]
    assert [list(each) for each in variables["curves"][name, "loss"]] == [
        list(each) for each in zip(faint["x"], faint["y"], strict=True)
    ]
    np.testing.assert_allclose(variables["smoothed"], bold["y"], **TOLERANCE)
    assert [loss for _, loss in variables["curves"][name, "valid_loss"]] == valid["y"]
    rows = run_code(page, "Sample outputs")["rows"]
    assert [row[2] for row in rows] == [
        row.locator("td").nth(2).text_content() for row in page.locator(".samples tr").all()[1:]
    ]
    rows = run_view("mistakes", run, "Mistakes", sort="most-confident")["rows"]
    data = view_data(page, "section.view-mistakes > div:last-child")
    assert [row.number for row in rows] == [row["number"] for row in data]
    np.testing.assert_allclose([row.quality for row in rows], [row["score"] for row in data], **TOLERANCE)
    if run == "vit":
        return assert_close(
            page, ".heat-canvas", run_code(page, "Confusion matrix: rows are references, columns predictions")["counts"]
        )
    variables = run_view("tokenize", run, "Tokenize", text=HOSTILE)
    ids = [int(each) for each in page.locator(".token-entry > span").all_text_contents()]
    assert [each for side in variables["ids"].values() for each in side] == ids
    assert_close(page, "canvas.scatter", run_view("embeddings", run, "Embeddings")["word_map"].points)
    return None


def test_words_and_source_code(run_view, page):
    state = {
        "word": "猫",
        "neighbors": 4,
        "first": "红",
        "second_word": "黑",
        "third": "猫",
        "common": "猫",
        "sentences": "红猫\n大猫",
    }
    neighbors = run_view("embeddings", "transformer", "neighbors", **state)["neighbors"]
    np.testing.assert_allclose(
        [each.cosine for each in neighbors], view_data(page, ".neighbors .bars")["values"], **TOLERANCE
    )
    wait_until(page, "document.querySelector('.analogy .bars') && document.querySelector('.contexts .chart')")
    nearest = run_code(page, "Analogy: first − second + third")["everything"]
    np.testing.assert_allclose(
        [each.cosine for each in nearest], view_data(page, ".analogy .bars")["values"], **TOLERANCE
    )
    cosines = run_code(page, "One word in several sentences")["cosines"]
    line = view_data(page, ".contexts .chart")["lines"][0]["y"]
    np.testing.assert_allclose([layer[0] for layer in cosines.values()], line, **TOLERANCE)
    source = run_view("architecture", "gpt", "module", block="decoder.blocks.0.self_attention")["source"]
    assert source == page.locator(".block-details pre").first.text_content()
    rows = run_view("mistakes", "vit", "Mistakes", truth="红", answer="红", search="1")["rows"]
    assert [row.number for row in rows] == [
        row["number"] for row in view_data(page, "section.view-mistakes > div:last-child")
    ]


def test_it_is_folded_copied_by_keyboard_and_in_both_languages(open_view, page):
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
    )  # it follows the input
    page.get_by_role("button", name="Switch to Chinese").click()
    wait_until(page, "document.querySelector('details.code summary').textContent === '对应的 Python 代码'")
    assert page.locator("details.code").get_attribute("open") is not None
    open_view("attention", lang="zh", text="红猫", head=1)
    assert "# 第 2 头" in code_of(page, "注意力")


def test_the_code_is_in_saved_pages_and_in_notebooks(page, runs, tmp_path):
    path = tmp_path / "page.html"
    text = "the cat sat"
    path.write_text(saved_page(runs.workspace, text, views=("tokenize",)), encoding="utf-8")
    page.goto(f"{path.as_uri()}#{urlencode({'view': 'tokenize', 'run': runs.id('gpt'), 'text': text})}")
    assert run_code(page, "Tokenize")["ids"]["both"] == runs.model("gpt").tokenizers.source.encode(text)
    notebook = tmp_path / "notebook.html"
    model = seq2see.load(runs.workspace.run(runs.id("gpt")).name)
    html = '<!DOCTYPE html><meta charset="utf-8"><textarea></textarea>'
    notebook.write_text(f"{html}{model(text).attention._repr_html_()}", encoding="utf-8")
    page.goto(notebook.as_uri())
    frame = page.frame_locator("iframe")
    frame.locator("details.code summary").click()
    frame.get_by_role("button", name="copy: Attention").click()
    page.locator("textarea").focus()
    page.keyboard.press("Control+V")
    code = page.locator("textarea").input_value()
    assert code == frame.locator("pre[data-code=Attention]").text_content()
    assert f'seq2see.load("{model.name}")' in code


def test_all_snippets_pass_ruff(run_view, page, runs, tmp_path):
    for view, name in (("tokenize", "Tokenize"), ("attention", "Attention"), ("compare", "Compare")):
        run_view(view, "gpt", name, text=HOSTILE)
    for number, code in enumerate(SNIPPETS):
        (tmp_path / f"snippet_{number}.py").write_text(code, encoding="utf-8")
        assert str(runs_folder(runs)) not in code
        assert max(map(len, code.splitlines())) <= MAX_LINE_LENGTH
        assert len(code.splitlines()) <= 30
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", str(tmp_path)]
    result = subprocess.run(ruff, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
