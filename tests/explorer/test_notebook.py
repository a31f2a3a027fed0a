"""A model in a notebook: what is shown of an answer is the explorer's page, with the answers of this very model."""

from __future__ import annotations

import base64
import html
import json
import re

import numpy as np
import pytest
from text_models import text_model
from tiny_workspace import image_classifier

import seq2see
from seq2see.explorer import notebook
from seq2see.explorer.notebook import attention_page
from seq2see.explorer.saved_responses import request_key
from seq2see.explorer.workspace import OpenRun
from seq2see.runs import model


def stored(frame: str) -> dict:
    page = html.unescape(re.search(r'srcdoc="([^"]*)"', frame)[1])
    return json.loads(page.split('id="answers">')[1].split("</script>")[0])


@pytest.fixture
def model(monkeypatch):
    model = text_model("transformer")
    monkeypatch.setattr(model, "signals", attention_page)
    return model


def test_what_is_loaded_to_be_used_shows_pages(monkeypatch):
    asked = []
    monkeypatch.setattr(model, "load", lambda name, engine: asked.append((name, engine)) or text_model("gpt"))
    assert seq2see.load is notebook.load
    assert seq2see.load("latest").shows is attention_page
    seq2see.load("latest", "ct2")
    assert asked == [("latest", "own"), ("latest", "ct2")]


def test_a_model_that_is_open_is_a_run_by_its_own_name(monkeypatch):
    monkeypatch.setattr(text_model("gpt"), "name", "/somewhere/runs/mine")
    run = OpenRun.from_model(text_model("gpt"))
    assert (run.id, run.name, run.loads, run.ready) == ("r1", text_model("gpt").config.name, "mine", True)


def test_an_answers_attention_is_a_page_about_this_text_and_this_answer(model):
    prediction = model("我有笔")
    page = stored(prediction._repr_html_())
    assert page["link"] == {"view": "attention", "text": "我有笔", "target": prediction.text}
    about = {"run": "r1", "text": "我有笔", "target": prediction.text or None}
    layers = page["responses"][request_key("attention/lens", about)]["response"]["lens"]
    last = max(number for number, layer in enumerate(layers) if layer["cross"])
    kept = page["responses"][request_key("attention/head", {**about, "layer": last, "head": 0, "heads": "mean"})]
    weights = np.frombuffer(base64.b64decode(kept["base64"]), "<f4").reshape(kept["shape"])
    np.testing.assert_allclose(weights, prediction.attention.matrix, atol=1e-6)


def test_where_frames_are_taken_out_a_table_is_left(model, monkeypatch):
    prediction = model("我有笔")
    frame, _, left = prediction._repr_html_().partition("</iframe>")
    assert frame.startswith("<iframe")
    assert "信任" in left
    assert prediction.attention.html() in left
    monkeypatch.setattr(notebook, "MOST_CELLS", prediction.attention.matrix.size)
    assert "<table>" in model("我有笔")._repr_html_().partition("</iframe>")[2]
    monkeypatch.setattr(notebook, "MOST_CELLS", prediction.attention.matrix.size - 1)
    assert "<table>" not in model("我有笔")._repr_html_().partition("</iframe>")[2]


def test_a_notebook_keeps_no_more_than_it_shows(model):
    page = html.unescape(re.search(r'srcdoc="([^"]*)"', model("我有笔")._repr_html_())[1])
    assert "views/attention.js" in page
    assert "views/decode.js" not in page


def test_what_is_too_much_for_a_page_is_a_table(model, monkeypatch):
    monkeypatch.setattr(notebook, "MAX_PAGE_BYTES", 100)
    assert model("我有笔")._repr_html_().startswith("<table>")


def test_images_and_models_that_nobody_shows_are_tables(monkeypatch):
    assert text_model("transformer")("我有笔")._repr_html_().startswith("<table>")
    image = image_classifier()
    monkeypatch.setattr(image, "signals", attention_page)
    (seen,) = image.predict([np.zeros((8, 8, 3), np.uint8)])
    assert seen._repr_html_().startswith("<table>")


def test_a_complaint_of_a_view_is_kept_and_others_are_saved_all_the_same():
    answers = stored(attention_page(text_model("transformer"), "", None))["responses"]
    assert answers[request_key("tokenize", {"run": "r1", "text": ""})]["response"]["sides"][0]["groups"] == []
    told = answers[request_key("attention/lens", {"run": "r1", "target": None, "text": ""})]
    assert "empty text" in told["error"]["message"]
