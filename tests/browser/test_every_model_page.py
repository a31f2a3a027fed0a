"""Models that look at pictures and films, and models of numbers, in views that were made for texts."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from looking import link_of, shown, until, views_of
from PIL import Image
from taken import code_of, home_of

from seq2see.explorer.bench import Bench
from seq2see.explorer.offline import saved_page
from seq2see.sequences.series import numbers_of
from seq2see.sources.films import see_film
from seq2see.workbench.writing import writing

STRIP = "div.frames"
MATRIX = ".attention-picture canvas"


def as_png(image: Image.Image) -> bytes:
    content = io.BytesIO()
    image.save(content, "PNG")
    return content.getvalue()


def given(runs, name: str, number: int = 0):
    """The picture or film that the page means by a number."""
    return runs.bench.run(runs.id(name)).tested_on.pixels[number]


def test_a_film_is_a_row_of_frames_and_each_word_says_which_it_looked_at(open_view, runs):
    page = open_view("attention", run="film", number=1)
    film = given(runs, "film", 1)
    until(page, f"document.querySelectorAll('{STRIP} canvas').length === {len(film)}")
    whole = [value for row in zip(*film, strict=True) for frame in row for pixel in frame for value in pixel]
    assert shown(page, STRIP)["pixels"] == whole
    (look,) = runs.model("film").trace(film).of("attention")
    assert shown(page, MATRIX)["values"] == pytest.approx(look.values[0].flatten(), abs=1e-6)
    assert shown(page, ".attention-patches canvas")["values"] == pytest.approx(look.values[0, 0], abs=1e-6)


def test_covered_frames_change_what_is_said_of_a_film(open_view, runs):
    page = open_view("vit", run="film", number=0, cover="0.1", order="4.3.2.1.0")
    film = given(runs, "film")[::-1].copy()
    film[:2] = 128
    said = runs.model("film").predict([given(runs, "film"), film])
    assert page.locator("[data-said=as_it_is]").inner_text() == said[0].text
    assert page.locator("[data-said=changed]").inner_text() == said[1].text
    page.locator(".picture-answers .token").first.hover()
    (look,) = runs.model("film").trace(film, said[1].text).of("attention")
    until(page, f"Math.abs(document.querySelector('.picture-canvas').shown.values[0] - {look.values[0, 0, 0]}) < 1e-5")
    assert shown(page, ".picture-canvas")["values"] == pytest.approx(look.values[0, 0], abs=1e-5)


@pytest.mark.parametrize("name", ["caption", "film"])
def test_what_is_said_of_a_picture_is_searched_and_forced(open_view, runs, name):
    page = open_view("decode", run=name, num_beams=3, number=1)
    picture, model = given(runs, name, 1), runs.model(name)
    found = model.predict([picture], num_beams=3)[0]
    assert shown(page, ".answer")["text"] == found.text
    assert shown(page, ".answer")["score"] == pytest.approx(found.score, abs=1e-4)
    truth = runs.bench.run(runs.id(name)).tested_on[1].target
    until(page, "document.querySelector('.exposure > div:last-child').shown !== undefined")
    exposed = shown(page, ".exposure > div:last-child")
    assert -sum(exposed["forced_loss"]) == pytest.approx(model.score(picture, truth), abs=1e-3)
    page.locator("#control-number").fill("0")
    until(page, "location.hash.includes('number') === false")
    other = model.predict([given(runs, name, 0)], num_beams=3)[0]
    until(page, f"document.querySelector('.answer').shown.text === {other.text!r}")


def test_a_caption_is_written_token_by_token(open_view, runs):
    page = open_view("next-token", run="caption", target="blue above")
    model = runs.model("caption")
    assert shown(page, ".strip")["tokens"][:2] == ["blue", "above"]
    before = writing(model, given(runs, "caption"), "blue above")
    notes = [float(each) for each in page.locator(".strip .token small").all_inner_texts()[:2]]
    bits = [-float(row[token]) / math.log(2) for row, token in zip(before.scores()[:-1], before.ids, strict=True)]
    assert notes == pytest.approx(bits, rel=0.06)
    final = shown(page, ".lens")
    assert final["chance"][-1] == pytest.approx(float(before.scores()[-1].exp().max()), abs=1e-5)
    page.locator(".bar, [role=button]", has_text="blue").first.click()
    until(page, "location.hash.includes('taken=')")
    assert int(link_of(page)["taken"]) == model.tokenisers.target.encode("blue")[0]


def test_states_over_frames_and_what_is_left_of_one(open_view, runs):
    page = open_view("recurrent", run="film")
    states = shown(page, "canvas[data-shows=states]")
    assert states["columns"] == [str(frame + 1) for frame in range(len(given(runs, "film")))]
    record = runs.model("film").trace(given(runs, "film"), kinds=("hidden",))
    first = next(each for each in record.of("hidden") if each.side == "source")
    assert states["values"] == pytest.approx(first.values.T.flatten(), abs=1e-5)
    assert page.get_by_role("heading", name="What is left of a frame").is_visible()


def test_a_series_is_drawn_with_what_the_model_says(open_view, runs):
    text = "16 17.5 19 20.5 22 23 24 24.5"
    page = open_view("recurrent", run="series", text=text)
    until(page, "document.querySelector('.given svg') !== null")
    values, guesses, ahead = shown(page, ".given svg")["lines"]
    assert values["y"] == numbers_of(text)
    said = numbers_of(runs.model("series")(text, max_new_tokens=16).text)
    assert ahead["y"] == pytest.approx(said)
    assert (ahead["x"][0], guesses["x"][-1]) == (9, 9)
    assert guesses["y"][-1] == pytest.approx(said[0], abs=1e-3)
    page = open_view("mistakes", run="series")
    truth, forecast = shown(page, ".chart")["lines"]
    assert len(truth["y"]) == len(forecast["y"]) > 10
    worst = shown(page, ".view-mistakes > div:last-child")[0]
    furthest = max(abs(value - said) for value, said in zip(truth["y"], forecast["y"], strict=True))
    assert -worst["quality"] == pytest.approx(furthest, abs=1e-3)


def test_a_film_of_ones_own_is_watched_in_every_view(open_view, page, runs, tmp_path, monkeypatch):
    lots, model = np.random.default_rng(5), runs.model("film")
    stills = [Image.fromarray(lots.integers(0, 256, (12, 12, 3), dtype=np.uint8)) for _ in range(5)]
    open_view("decode", run="film")
    files = [
        {"name": f"f{place}.png", "mimeType": "image/png", "buffer": as_png(each)} for place, each in enumerate(stills)
    ]
    page.locator("input[type=file]").set_input_files(
        [files[place] for place in (3, 1, 4, 0, 2)]
    )  # names say their order
    film = np.stack([np.array(each) for each in stills])
    until(page, "document.querySelector('.given').textContent.includes('Nobody has said')")
    said = model.predict([film], num_beams=3)[0]
    until(page, f"Math.abs(document.querySelector('.answer').shown.score - {said.score}) < 1e-4")
    page.locator("nav a[data-view=vit]").click()
    page.wait_for_selector("section.view-vit:not([aria-busy])")
    assert shown(page, ".picture-canvas")["pixels"] == np.concatenate(list(film), axis=1).flatten().tolist()
    stills[0].save(tmp_path / "film.gif", save_all=True, append_images=stills[1:])
    page.locator("input[type=file]").set_input_files(tmp_path / "film.gif")
    until(page, "was => !location.hash.includes(was)", link_of(page)["pixels"][:40])
    seen = see_film(tmp_path / "film.gif", 12, 3, 5)[0]
    until(page, f"document.querySelector('.picture-canvas').shown.pixels[1] === {seen[0, 0, 0, 1]}")
    monkeypatch.chdir(tmp_path)
    code = code_of(page, "What the model says").replace(
        f"{runs.bench.run(runs.id('film')).loads}", str(home_of(runs) / "film <i>&")
    )
    left = {}
    exec(code, left)
    assert (left["picture"] == seen).all()
    until(page, "text => document.querySelector('[data-said=as_it_is]').textContent === text", left["said"].text)
    page.watched.allowed.add(422)
    page.locator("input[type=file]").set_input_files(
        {"name": "x.gif", "mimeType": "image/gif", "buffer": b"<svg></svg>"}
    )
    page.wait_for_selector(".complaint")
    assert "SVG drawing" in page.locator(".complaint").inner_text()
    too_large = {"name": "x.gif", "mimeType": "image/gif", "buffer": bytes(11 << 20)}
    page.locator("input[type=file]").set_input_files(too_large)
    until(page, "document.querySelector('.complaint').textContent === 'All files together may have 10 MB.'")


@pytest.mark.parametrize("name", ["film", "caption", "series"])
def test_what_is_saved_of_it_needs_no_server(page, runs, tmp_path, name):
    run = runs.bench.run(runs.id(name))
    path = tmp_path / "look.html"
    path.write_text(saved_page(Bench({run.id: run})), encoding="utf-8")
    page.goto(path.as_uri())
    page.wait_for_selector("nav a")
    for view in views_of(page):
        page.locator(f"nav a[data-view={view}]").click()
        page.wait_for_selector(f"section.view-{view}:not([aria-busy])")
        page.wait_for_timeout(100)
        assert page.locator(".complaint").count() == 0, (view, page.locator(".complaint").first.inner_text())
