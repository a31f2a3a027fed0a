"""Models in a notebook: the attention of a prediction is a page of the explorer with the responses of this model."""

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
from seq2see.explorer.offline import request_key
from seq2see.explorer.workspace import OpenRun


def stored_in(frame: str) -> dict:
    page = html.unescape(re.search(r'srcdoc="([^"]*)"', frame)[1])
    return json.loads(page.split('id="responses">')[1].split("</script>")[0])


@pytest.fixture
def model(monkeypatch):
    model = text_model("transformer")
    monkeypatch.setattr(model, "render_attention", attention_page)
    return model


def test_loaded_models_render_attention_as_pages(monkeypatch):
    calls = []
    monkeypatch.setattr(notebook, "load_model", lambda name, engine: calls.append((name, engine)) or text_model("gpt"))
    assert seq2see.load is notebook.load
    assert seq2see.load("latest").render_attention is attention_page
    seq2see.load("latest", "ct2")
    assert calls == [("latest", "torch"), ("latest", "ct2")]


def test_a_loaded_model_is_a_run_with_its_own_name(monkeypatch):
    monkeypatch.setattr(text_model("gpt"), "name", "/somewhere/runs/mine")
    run = OpenRun.from_model(text_model("gpt"))
    assert (run.id, run.name, run.load_name, run.ready) == ("r1", text_model("gpt").config.name, "mine", True)


def test_the_attention_of_a_prediction_is_a_page_about_its_text_and_output(model):
    prediction = model("我有笔")
    page = stored_in(prediction._repr_html_())
    assert page["link"] == {"view": "attention", "text": "我有笔", "target": prediction.text}
    fields = {"run": "r1", "text": "我有笔", "target": prediction.text or None}
    layers = page["responses"][request_key("attention/layers", fields)]["response"]["layers"]
    last = max(index for index, layer in enumerate(layers) if layer["is_cross_attention"])
    entry = page["responses"][request_key("attention/head", {**fields, "layer": last, "head": 0, "heads": "mean"})]
    weights = np.frombuffer(base64.b64decode(entry["base64"]), "<f4").reshape(entry["shape"])
    np.testing.assert_allclose(weights, prediction.attention.matrix, atol=1e-6)


def test_without_iframes_there_is_a_table(model, monkeypatch):
    prediction = model("我有笔")
    frame, _, fallback = prediction._repr_html_().partition("</iframe>")
    assert frame.startswith("<iframe")
    assert "信任" in fallback
    assert prediction.attention.html() in fallback
    monkeypatch.setattr(notebook, "MAX_TABLE_CELLS", prediction.attention.matrix.size)
    assert "<table>" in model("我有笔")._repr_html_().partition("</iframe>")[2]
    monkeypatch.setattr(notebook, "MAX_TABLE_CELLS", prediction.attention.matrix.size - 1)
    assert "<table>" not in model("我有笔")._repr_html_().partition("</iframe>")[2]


def test_a_page_in_a_notebook_contains_only_its_views(model):
    page = html.unescape(re.search(r'srcdoc="([^"]*)"', model("我有笔")._repr_html_())[1])
    assert "views/attention.js" in page
    assert "views/decode.js" not in page


def test_a_page_above_the_maximum_size_becomes_a_table(model, monkeypatch):
    monkeypatch.setattr(notebook, "MAX_PAGE_BYTES", 100)
    assert model("我有笔")._repr_html_().startswith("<table>")


def test_image_models_and_models_without_a_renderer_have_tables(monkeypatch):
    assert text_model("transformer")("我有笔")._repr_html_().startswith("<table>")
    image = image_classifier()
    monkeypatch.setattr(image, "render_attention", attention_page)
    (prediction,) = image.predict([np.zeros((8, 8, 3), np.uint8)])
    assert prediction._repr_html_().startswith("<table>")


def test_the_error_of_a_view_is_stored_and_other_views_are_saved():
    responses = stored_in(attention_page(text_model("transformer"), "", None))["responses"]
    assert responses[request_key("tokenize", {"run": "r1", "text": ""})]["response"]["sides"][0]["groups"] == []
    entry = responses[request_key("attention/layers", {"run": "r1", "target": None, "text": ""})]
    assert "empty" in entry["error"]["message"]
