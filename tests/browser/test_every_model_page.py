"""Models that look at images and videos, and models of numbers, in views that were made for texts."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from page_code import code_of, runs_folder
from page_data import link_state, shown, views_of, wait_until
from PIL import Image

from seq2see.explorer.offline import saved_page
from seq2see.explorer.workspace import Workspace
from seq2see.runs.generation_context import generation_context
from seq2see.sequences.series_dataset import parse_numbers
from seq2see.sources.video_decoding import load_video

STRIP = "div.frames"
MATRIX = ".attention-image canvas"


def as_png(image: Image.Image) -> bytes:
    content = io.BytesIO()
    image.save(content, "PNG")
    return content.getvalue()


def given(runs, name: str, number: int = 0):
    """The image or video that the page means by a number."""
    return runs.workspace.run(runs.id(name)).test_examples.pixels[number]


def test_a_video_is_a_row_of_frames_and_each_word_says_which_it_looked_at(open_view, runs):
    page = open_view("attention", run="video", number=1)
    video = given(runs, "video", 1)
    wait_until(page, f"document.querySelectorAll('{STRIP} canvas').length === {len(video)}")
    whole = [value for row in zip(*video, strict=True) for frame in row for pixel in frame for value in pixel]
    assert shown(page, STRIP)["pixels"] == whole
    (look,) = runs.model("video").trace(video).of("attention")
    assert shown(page, MATRIX)["values"] == pytest.approx(look.values[0].flatten(), abs=1e-6)
    assert shown(page, ".attention-patches canvas")["values"] == pytest.approx(look.values[0, 0], abs=1e-6)


def test_covered_frames_change_what_is_said_of_a_video(open_view, runs):
    page = open_view("vit", run="video", number=0, cover="0.1", order="4.3.2.1.0")
    video = given(runs, "video")[::-1].copy()
    video[:2] = 128
    said = runs.model("video").predict([given(runs, "video"), video])
    assert page.locator("[data-already_generated=as_it_is]").inner_text() == said[0].text
    assert page.locator("[data-already_generated=changed]").inner_text() == said[1].text
    page.locator(".image-answers .token").first.hover()
    (look,) = runs.model("video").trace(video, said[1].text).of("attention")
    wait_until(
        page, f"Math.abs(document.querySelector('.image-canvas').shown.values[0] - {look.values[0, 0, 0]}) < 1e-5"
    )
    assert shown(page, ".image-canvas")["values"] == pytest.approx(look.values[0, 0], abs=1e-5)


@pytest.mark.parametrize("name", ["caption", "video"])
def test_what_is_said_of_a_image_is_searched_and_forced(open_view, runs, name):
    page = open_view("decode", run=name, num_beams=3, number=1)
    image, model = given(runs, name, 1), runs.model(name)
    found = model.predict([image], num_beams=3)[0]
    assert shown(page, ".answer")["text"] == found.text
    assert shown(page, ".answer")["score"] == pytest.approx(found.score, abs=1e-4)
    truth = runs.workspace.run(runs.id(name)).test_examples[1].target
    wait_until(page, "document.querySelector('.exposure > div:last-child').shown !== undefined")
    exposed = shown(page, ".exposure > div:last-child")
    assert -sum(exposed["forced_loss"]) == pytest.approx(model.score(image, truth), abs=1e-3)
    page.locator("#control-number").fill("0")
    wait_until(page, "location.hash.includes('number') === false")
    other = model.predict([given(runs, name, 0)], num_beams=3)[0]
    wait_until(page, f"document.querySelector('.answer').shown.text === {other.text!r}")


def test_a_caption_is_written_token_by_token(open_view, runs):
    page = open_view("next-token", run="caption", target="blue above")
    model = runs.model("caption")
    assert shown(page, ".surprisal")["tokens"][:2] == ["blue", "above"]
    before = generation_context(model, given(runs, "caption"), "blue above")
    notes = [float(each) for each in page.locator(".strip .token small").all_inner_texts()[:2]]
    bits = [-float(row[token]) / math.log(2) for row, token in zip(before.scores()[:-1], before.ids, strict=True)]
    assert notes == pytest.approx(bits, rel=0.06)
    final = shown(page, ".lens")
    assert final["probability"][-1] == pytest.approx(float(before.scores()[-1].exp().max()), abs=1e-5)
    page.locator(".bar, [role=button]", has_text="blue").first.click()
    wait_until(page, "location.hash.includes('taken=')")
    assert int(link_state(page)["forced"]) == model.tokenizers.target.encode("blue")[0]


def test_states_over_frames_and_what_is_left_of_one(open_view, runs):
    page = open_view("recurrent", run="video")
    states = shown(page, "canvas[data-signals=states]")
    assert states["columns"] == [str(frame + 1) for frame in range(len(given(runs, "video")))]
    record = runs.model("video").trace(given(runs, "video"), kinds=("hidden",))
    first = next(each for each in record.of("hidden") if each.side == "source")
    assert states["values"] == pytest.approx(first.values.T.flatten(), abs=1e-5)
    assert page.get_by_role("heading", name="What is left of a frame").is_visible()


def test_a_series_is_drawn_with_what_the_model_says(open_view, runs):
    text = "16 17.5 19 20.5 22 23 24 24.5"
    page = open_view("recurrent", run="series", text=text)
    wait_until(page, "document.querySelector('.given svg') !== null")
    values, guesses, ahead = shown(page, ".given svg")["lines"]
    assert values["y"] == parse_numbers(text)
    said = parse_numbers(runs.model("series")(text, max_new_tokens=16).text)
    assert ahead["y"] == pytest.approx(said)
    assert (ahead["x"][0], guesses["x"][-1]) == (9, 9)
    assert guesses["y"][-1] == pytest.approx(said[0], abs=1e-3)
    page = open_view("mistakes", run="series")
    truth, forecast = shown(page, ".chart")["lines"]
    assert len(truth["y"]) == len(forecast["y"]) > 10
    worst = shown(page, ".view-mistakes > div:last-child")[0]
    furthest = max(abs(value - said) for value, said in zip(truth["y"], forecast["y"], strict=True))
    assert -worst["score"] == pytest.approx(furthest, abs=1e-3)


def test_a_video_of_ones_own_is_watched_in_every_view(open_view, page, runs, tmp_path, monkeypatch):
    lots, model = np.random.default_rng(5), runs.model("video")
    stills = [Image.fromarray(lots.integers(0, 256, (12, 12, 3), dtype=np.uint8)) for _ in range(5)]
    open_view("decode", run="video")
    files = [
        {"name": f"f{position}.png", "mimeType": "image/png", "buffer": as_png(each)}
        for place, each in enumerate(stills)
    ]
    page.locator("input[type=file]").set_input_files(
        [files[place] for place in (3, 1, 4, 0, 2)]
    )  # names say their order
    video = np.stack([np.array(each) for each in stills])
    wait_until(page, "document.querySelector('.given').textContent.includes('Nobody has said')")
    said = model.predict([video], num_beams=3)[0]
    wait_until(page, f"Math.abs(document.querySelector('.answer').shown.score - {said.score}) < 1e-4")
    page.locator("nav a[data-view=vit]").click()
    page.wait_for_selector("section.view-vit:not([aria-busy])")
    assert shown(page, ".image-canvas")["pixels"] == np.concatenate(list(video), axis=1).flatten().tolist()
    stills[0].save(tmp_path / "video.gif", save_all=True, append_images=stills[1:])
    page.locator("input[type=file]").set_input_files(tmp_path / "video.gif")
    wait_until(page, "was => !location.hash.includes(was)", link_state(page)["pixels"][:40])
    seen = load_video(tmp_path / "video.gif", 12, 3, 5)[0]
    wait_until(page, f"document.querySelector('.image-canvas').shown.pixels[1] === {seen[0, 0, 0, 1]}")
    monkeypatch.chdir(tmp_path)
    code = code_of(page, "What the model says").replace(
        f"{runs.workspace.run(runs.id('video')).loads}", str(runs_folder(runs) / "video <i>&")
    )
    left = {}
    exec(code, left)
    assert (left["image"] == seen).all()
    wait_until(
        page,
        "text => document.querySelector('[data-said=as_it_is]').textContent === text",
        left["already_generated"].text,
    )
    page.monitor.allowed.add(422)
    page.locator("input[type=file]").set_input_files(
        {"name": "x.gif", "mimeType": "image/gif", "buffer": b"<svg></svg>"}
    )
    page.wait_for_selector(".error")
    assert "SVG drawing" in page.locator(".error").inner_text()
    too_large = {"name": "x.gif", "mimeType": "image/gif", "buffer": bytes(11 << 20)}
    page.locator("input[type=file]").set_input_files(too_large)
    wait_until(page, "document.querySelector('.complaint').textContent === 'All files together may have 10 MB.'")


@pytest.mark.parametrize("name", ["video", "caption", "series"])
def test_what_is_saved_of_it_needs_no_server(page, runs, tmp_path, name):
    run = runs.workspace.run(runs.id(name))
    path = tmp_path / "theme.html"
    path.write_text(saved_page(Workspace({run.id: run})), encoding="utf-8")
    page.goto(path.as_uri())
    page.wait_for_selector("nav a")
    for view in views_of(page):
        page.locator(f"nav a[data-view={view}]").click()
        page.wait_for_selector(f"section.view-{view}:not([aria-busy])")
        page.wait_for_timeout(100)
        assert page.locator(".error").count() == 0, (view, page.locator(".error").first.inner_text())
