"""Models of images, videos and series in the views for texts."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from page_code import code_of, runs_folder
from page_data import link_state, view_data, views_of, wait_until
from PIL import Image

from seq2see.data.readers.video_decoding import load_video
from seq2see.data.series_dataset import parse_numbers
from seq2see.explorer.offline import saved_page
from seq2see.explorer.workspace import Workspace
from seq2see.tasks.token_context import generation_context

STRIP = "div.frames"
MATRIX = ".attention-figure canvas"


def as_png(image: Image.Image) -> bytes:
    content = io.BytesIO()
    image.save(content, "PNG")
    return content.getvalue()


def input_of(runs, name: str, number: int = 0):
    """The image or video with a number on the page."""
    return runs.workspace.run(runs.id(name)).test_examples.pixels[number]


def test_a_video_is_a_row_of_frames_with_attention(open_view, runs):
    page = open_view("attention", run="video", number=1)
    video = input_of(runs, "video", 1)
    wait_until(page, f"document.querySelectorAll('{STRIP} canvas').length === {len(video)}")
    pixels = [value for row in zip(*video, strict=True) for frame in row for pixel in frame for value in pixel]
    assert view_data(page, STRIP)["pixels"] == pixels
    (signal,) = runs.model("video").trace(video).of("attention")
    assert view_data(page, MATRIX)["values"] == pytest.approx(signal.values[0].flatten(), abs=1e-6)
    assert view_data(page, ".attention-patches canvas")["values"] == pytest.approx(signal.values[0, 0], abs=1e-6)


def test_covered_frames_change_the_prediction_for_a_video(open_view, runs):
    page = open_view("vit", run="video", number=0, cover="0.1", order="4.3.2.1.0")
    video = input_of(runs, "video")[::-1].copy()
    video[:2] = 128
    predictions = runs.model("video").predict([input_of(runs, "video"), video])
    assert page.locator("[data-prediction=original]").inner_text() == predictions[0].text
    assert page.locator("[data-prediction=changed]").inner_text() == predictions[1].text
    page.locator(".image-candidates .token").first.hover()
    (signal,) = runs.model("video").trace(video, predictions[1].text).of("attention")
    wait_until(
        page, f"Math.abs(document.querySelector('.image-canvas').viewData.values[0] - {signal.values[0, 0, 0]}) < 1e-5"
    )
    assert view_data(page, ".image-canvas")["values"] == pytest.approx(signal.values[0, 0], abs=1e-5)


@pytest.mark.parametrize("name", ["caption", "video"])
def test_captions_are_searched_and_scored(open_view, runs, name):
    page = open_view("decode", run=name, num_beams=3, number=1)
    image, model = input_of(runs, name, 1), runs.model(name)
    found = model.predict([image], num_beams=3)[0]
    assert view_data(page, ".answer")["text"] == found.text
    assert view_data(page, ".answer")["score"] == pytest.approx(found.score, abs=1e-4)
    truth = runs.workspace.run(runs.id(name)).test_examples[1].target
    wait_until(page, "document.querySelector('.exposure-bias > div:last-child').viewData !== undefined")
    comparison = view_data(page, ".exposure-bias > div:last-child")
    assert -sum(comparison["forced_loss"]) == pytest.approx(model.score(image, truth), abs=1e-3)
    page.locator("#control-number").fill("0")
    wait_until(page, "location.hash.includes('number') === false")
    other = model.predict([input_of(runs, name, 0)], num_beams=3)[0]
    wait_until(page, f"document.querySelector('.answer').viewData.text === {other.text!r}")


def test_a_caption_is_generated_token_by_token(open_view, runs):
    page = open_view("next-token", run="caption", target="blue above")
    model = runs.model("caption")
    assert view_data(page, ".strip")["tokens"][:2] == ["blue", "above"]
    context = generation_context(model, input_of(runs, "caption"), "blue above")
    notes = [float(each) for each in page.locator(".strip .token small").all_inner_texts()[:2]]
    bits = [-float(row[token]) / math.log(2) for row, token in zip(context.scores()[:-1], context.ids, strict=True)]
    assert notes == pytest.approx(bits, rel=0.06)
    lens = view_data(page, ".lens")
    assert lens["probability"][-1] == pytest.approx(float(context.scores()[-1].exp().max()), abs=1e-5)
    page.locator(".bar, [role=button]", has_text="blue").first.click()
    wait_until(page, "location.hash.includes('forced=')")
    assert int(link_state(page)["forced"]) == model.tokenizers.target.encode("blue")[0]


def test_states_over_frames_and_the_influence_of_one(open_view, runs):
    page = open_view("recurrent", run="video")
    states = view_data(page, "canvas[data-plot=states]")
    assert states["columns"] == [str(frame + 1) for frame in range(len(input_of(runs, "video")))]
    record = runs.model("video").trace(input_of(runs, "video"), kinds=("hidden",))
    first = next(each for each in record.of("hidden") if each.side == "source")
    assert states["values"] == pytest.approx(first.values.T.flatten(), abs=1e-5)
    assert page.get_by_role("heading", name="Influence of a frame").is_visible()


def test_a_series_is_drawn_with_predictions_and_forecast(open_view, runs):
    text = "16 17.5 19 20.5 22 23 24 24.5"
    page = open_view("recurrent", run="series", text=text)
    wait_until(page, "document.querySelector('.model-input svg') !== null")
    values, one_step, forecast = view_data(page, ".model-input svg")["lines"]
    assert values["y"] == parse_numbers(text)
    expected = parse_numbers(runs.model("series")(text, max_new_tokens=16).text)
    assert forecast["y"] == pytest.approx(expected)
    assert (forecast["x"][0], one_step["x"][-1]) == (9, 9)
    assert one_step["y"][-1] == pytest.approx(expected[0], abs=1e-3)
    page = open_view("mistakes", run="series")
    truth, forecast = view_data(page, ".chart")["lines"]
    assert len(truth["y"]) == len(forecast["y"]) > 10
    worst = view_data(page, ".view-mistakes > div:last-child")[0]
    furthest = max(abs(value - predicted) for value, predicted in zip(truth["y"], forecast["y"], strict=True))
    assert -worst["score"] == pytest.approx(furthest, abs=1e-3)


def test_an_uploaded_video_is_the_input_of_every_view(open_view, page, runs, tmp_path, monkeypatch):
    rng, model = np.random.default_rng(5), runs.model("video")
    stills = [Image.fromarray(rng.integers(0, 256, (12, 12, 3), dtype=np.uint8)) for _ in range(5)]
    open_view("decode", run="video")
    files = [
        {"name": f"f{number}.png", "mimeType": "image/png", "buffer": as_png(each)}
        for number, each in enumerate(stills)
    ]
    page.locator("input[type=file]").set_input_files([files[number] for number in (3, 1, 4, 0, 2)])  # sorted by name
    video = np.stack([np.array(each) for each in stills])
    wait_until(page, "document.querySelector('.model-input').textContent.includes('no reference')")
    prediction = model.predict([video], num_beams=3)[0]
    wait_until(page, f"Math.abs(document.querySelector('.answer').viewData.score - {prediction.score}) < 1e-4")
    page.locator("nav a[data-view=vit]").click()
    page.wait_for_selector("section.view-vit:not([aria-busy])")
    assert view_data(page, ".image-canvas")["pixels"] == np.concatenate(list(video), axis=1).flatten().tolist()
    stills[0].save(tmp_path / "video.gif", save_all=True, append_images=stills[1:])
    page.locator("input[type=file]").set_input_files(tmp_path / "video.gif")
    wait_until(page, "previous => !location.hash.includes(previous)", link_state(page)["pixels"][:40])
    pixels = load_video(tmp_path / "video.gif", 12, 3, 5)[0]
    wait_until(page, f"document.querySelector('.image-canvas').viewData.pixels[1] === {pixels[0, 0, 0, 1]}")
    monkeypatch.chdir(tmp_path)
    code = code_of(page, "Prediction").replace(
        f"{runs.workspace.run(runs.id('video')).load_name}", str(runs_folder(runs) / "video <i>&")
    )
    variables: dict[str, object] = {}
    exec(code, variables)
    assert (variables["image"] == pixels).all()
    wait_until(
        page,
        "text => document.querySelector('[data-prediction=original]').textContent === text",
        variables["prediction"].text,
    )
    page.monitor.allowed.add(422)
    page.locator("input[type=file]").set_input_files(
        {"name": "x.gif", "mimeType": "image/gif", "buffer": b"<svg></svg>"}
    )
    page.wait_for_selector(".error")
    assert "SVG drawing" in page.locator(".error").inner_text()
    too_large = {"name": "x.gif", "mimeType": "image/gif", "buffer": bytes(11 << 20)}
    page.locator("input[type=file]").set_input_files(too_large)
    wait_until(
        page, "document.querySelector('.error').textContent === 'The total size of all files is limited to 10 MB.'"
    )


@pytest.mark.parametrize("name", ["video", "caption", "series"])
def test_a_saved_page_needs_no_server(page, runs, tmp_path, name):
    run = runs.workspace.run(runs.id(name))
    path = tmp_path / "page.html"
    path.write_text(saved_page(Workspace({run.id: run})), encoding="utf-8")
    page.goto(path.as_uri())
    page.wait_for_selector("nav a")
    for view in views_of(page):
        page.locator(f"nav a[data-view={view}]").click()
        page.wait_for_selector(f"section.view-{view}:not([aria-busy])")
        page.wait_for_timeout(100)
        assert page.locator(".error").count() == 0, (view, page.locator(".error").first.inner_text())
