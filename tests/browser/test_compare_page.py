"""The view "Compare": the figures are those of the two models."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from page_data import view_data

from seq2see.explorer import inputs
from seq2see.tasks.model import Model


def weights(model: Model, text: str, target: str, layer: str) -> np.ndarray:
    """The mean of all heads of one attention layer."""
    return model.trace(text, target).find(layer, "attention").values.mean(0)


def test_two_runs_on_one_text(open_view, runs):
    page = open_view("compare", run="transformer", second="recurrent", text="红猫")
    models = [runs.model("transformer"), runs.model("recurrent")]
    for index, model in enumerate(models):
        strip = page.locator(".side .strip").nth(index)
        answer = model("红猫").outputs[0]
        assert strip.evaluate("each => each.viewData.tokens") == [each.text for each in answer.tokens]
        assert strip.evaluate("each => each.viewData.values") == pytest.approx(
            [each.probability for each in answer.tokens], abs=1e-5
        )
    target = models[0]("红猫").text
    first = weights(models[0], "红猫", target, "decoder.blocks.1.cross_attention")
    second = weights(models[1], "红猫", target, "decoder.cross_attention.attention")
    for index, expected in enumerate((first, second, second - first)):
        found = view_data(page, f"[data-map='{index}'] canvas")
        assert found["columns"] == ["红", "猫", "<eos>"]
        assert found["values"] == pytest.approx(expected.flatten().tolist(), abs=1e-5)
    scores = view_data(page, ".target-map canvas")
    columns = len(scores["columns"])
    for index, model in enumerate(models):
        probabilities = np.array(scores["values"][index * columns : (index + 1) * columns])
        assert np.log(probabilities).sum() == pytest.approx(model.score("红猫", target), abs=1e-3)


def test_two_texts_of_different_lengths_have_no_difference(open_view):
    page = open_view("compare", run="transformer", text="红猫", other="红猫猫猫", lang="zh")
    assert page.locator("[data-map]").count() == 2
    assert "没有差值" in page.locator(".maps").text_content()


def test_images_can_be_compared(open_view, runs):
    page = open_view("compare", run="vit", other_number=1)
    model, images = runs.model("vit"), inputs.test_images(runs.workspace.run(runs.id("vit"))).pixels
    answers = [each.text_content() for each in page.locator(".side > .side-answer").all()]
    assert answers == [model.predict([images[number]])[0].text for number in (0, 1)]
    second = model.trace(images[1]).of("attention")[-1].values.mean(0)
    assert view_data(page, "[data-map='1'] canvas")["values"] == pytest.approx(second.flatten().tolist(), abs=1e-5)
    assert page.locator("[name=number]").get_attribute("max") == str(len(images) - 1)
    flipped = images[0][::-1].copy()
    page = open_view("compare", run="vit", other_number=1, pixels=base64.b64encode(flipped.tobytes()).decode())
    answers = [each.text_content() for each in page.locator(".side > .side-answer").all()]
    assert answers == [model.predict([pixels])[0].text for pixels in (flipped, images[1])]
    assert view_data(page, ".side:first-child .frame")["pixels"] == flipped.flatten().tolist()
    first = model.trace(flipped).of("attention")[-1].values.mean(0)
    assert view_data(page, "[data-map='0'] canvas")["values"] == pytest.approx(first.flatten().tolist(), abs=1e-5)
