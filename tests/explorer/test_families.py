"""Every view that is offered of a model answers all that its page asks, for every family of models there is."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from model_families import FAMILIES, NUMBERS, input_text, workspace
from PIL import Image
from text_models import SOURCE, text_model

from seq2see.core.errors import UserError
from seq2see.explorer import saved_views
from seq2see.explorer.describe import describe_run, views_of
from seq2see.explorer.routes import ROUTES
from seq2see.explorer.saved_responses import VIEW_RECORDERS, ResponseRecorder
from seq2see.inspection.trace import ATTENTION
from seq2see.sequences.series_dataset import parse_numbers
from seq2see.sequences.tokenizers import EOS
from seq2see.sources.video_decoding import spread

INSIDE = {"attention", "single-head"}
READS = {"tokenize", "compare", "architecture", "embeddings"}
WRITES = {*READS, "next-token", "decode"}
SHOWN = {
    "transformer": {*WRITES, *INSIDE, "positions"},
    "rnn": {*WRITES, *INSIDE, "recurrent", "positions"},
    "gpt": {*WRITES, *INSIDE, "positions"},
    "lstm": {*WRITES, "recurrent", "positions"},
    "convolutional": {*WRITES, *INSIDE, "positions"},
    "window": {*WRITES, "positions"},
    "bert": {*READS, *INSIDE, "next-token", "positions"},
    "pairs": {*READS, *INSIDE, "next-token", "positions"},
    "classifier": {*READS, *INSIDE, "positions"},
    "classifier, recurrent": {*READS, "recurrent", "positions"},
    "classifier, windows": {*READS, "positions"},
    "tagger": {*READS, "recurrent"},
    "tagger, n-grams": {*READS, "recurrent"} - {"embeddings"},
    "tagger, transformer": {*READS, *INSIDE, "positions"},
    "embedder": {*READS, *INSIDE, "positions"} - {"compare"},
    "vit": {*INSIDE, "vit", "positions", "compare", "architecture"},
    "vit, headless": {*INSIDE, "vit", "positions", "architecture"},
    "resnet": {"vit", "compare", "architecture"},
    "caption": {*WRITES, *INSIDE, "vit", "positions"},
    "video": {*WRITES, *INSIDE, "vit", "recurrent"},
    "series": {"recurrent", "compare", "architecture"},
    "series, window": {"compare", "architecture"},
    "series, transformer": {*INSIDE, "compare", "architecture"},
    "ensemble": {*WRITES} - {"embeddings"},
    "ensemble, caption": {*WRITES} - {"embeddings"},
}
"""What there is to see of each. What only a run has, its curves and mistakes, is tested with runs."""


def ask(name: str, route: str, **body):
    """Put a question about a family as the page does."""
    asked = ROUTES[route].asked.model_validate_json(json.dumps({"run": "r1", **body}))
    return ROUTES[route].handler(workspace(name), asked)


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_offered_answers_without_a_complaint(name, monkeypatch):
    monkeypatch.setattr(saved_views, "BEAMS", (2,))
    monkeypatch.setattr(saved_views, "SEEDS", 1)
    monkeypatch.setattr(saved_views, "TURNS", 3)
    assert set(views_of(workspace(name).run("r1"))) == SHOWN[name]
    answers = ResponseRecorder(workspace(name), describe_run(workspace(name).run("r1")), input_text(name))
    for view in SHOWN[name]:
        before = len(answers.responses)
        VIEW_RECORDERS[view](answers)
        assert len(answers.responses) > before or view in ("single-head", "next-token", "compare"), view


def given(name: str):
    """What a captioner is given where there are no test images: a gray one, or a gray video."""
    shape = (4, 8, 8, 3) if name == "video" else (8, 8, 3)
    return np.full(shape, 128, np.uint8)


def in_base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


@pytest.mark.parametrize("name", ["caption", "video"])
class TestCaptioners:
    def test_what_comes_next_is_what_the_model_says(self, name):
        model = workspace(name).run("r1").model
        told = ask(name, "next-token/analysis", number=0, target="ab", parts=["surprisal", "candidates"], most=1000)
        assert list(told) == ["surprisal", "candidates"]
        strip, found = told.values()
        batch = model.named_batch(given(name), "ab").batch
        with torch.inference_mode():
            scores = model.module(batch)[0, 2].log_softmax(-1)  # behind <bos>, a and b
        assert found["scores"] == pytest.approx(scores[found["ids"]].tolist(), abs=1e-5)
        assert strip["pieces"] == ["a", "b"]
        surprise = -sum(each * np.log(2) for each in strip["surprisal"])
        assert surprise == pytest.approx(model.score(given(name), "ab") - scores[EOS].item(), abs=1e-4)

    def test_files_of_ones_own_are_seen_as_python_sees_them(self, name, tmp_path):
        model, shades = workspace(name).run("r1").model, (10, 90, 170, 250, 130)
        stills = [Image.new("RGB", (16, 16), (shade, 0, 255 - shade)) for shade in shades]
        stills[0].save(tmp_path / "video.gif", save_all=True, append_images=stills[1:], duration=100)
        whole = ask(name, "vit/upload", files=[in_base64(tmp_path / "video.gif")]).array
        seen, _ = model.tokenizers.source.preprocess(tmp_path / "video.gif")
        (asked,) = ask(name, "predict", images=[in_base64(tmp_path / "video.gif")], max_new_tokens=3).predictions
        assert asked.answers[0].text == model(tmp_path / "video.gif", max_new_tokens=3).text
        if name == "caption":
            np.testing.assert_array_equal(whole, seen.transpose(1, 2, 0))
            return
        np.testing.assert_array_equal(whole, np.concatenate(list(seen.transpose(0, 2, 3, 1)), axis=1))
        for number, still in enumerate(stills):
            still.save(tmp_path / f"{number}.png")
        paths = [tmp_path / f"{number}.png" for number in range(len(stills))]
        apart = ask(name, "vit/upload", files=[in_base64(path) for path in paths]).array
        assert apart[0, ::8, 0].tolist() == [shades[place] for place in spread(5, 4)]
        (tmp_path / "video.gif").write_bytes(b"<svg></svg>")
        with pytest.raises(UserError, match="SVG"):
            ask(name, "vit/upload", files=[in_base64(tmp_path / "video.gif")])
        with pytest.raises(UserError, match="frame 2"):
            ask(name, "vit/upload", files=[in_base64(paths[0]), in_base64(tmp_path / "video.gif")])

    def test_a_search_ends_where_predict_does(self, name):
        model = workspace(name).run("r1").model
        for way in ({"way": "greedy"}, {"way": "beam", "num_beams": 3}):
            found = ask(name, "decode/search-tree", number=0, max_new_tokens=8, **way)
            said = model.predict([given(name)], num_beams=way.get("num_beams", 1), max_new_tokens=8)[0]
            assert found["answer"]["text"] == said.text
            assert found["answer"]["score"] == pytest.approx(said.score, abs=1e-5)

    def test_a_token_that_is_forced_is_gone_on_from(self, name):
        letters = text_model("gpt").tokenizers.target.encode("ba")
        found = ask(name, "decode/search-tree", number=0, forced_ids=letters, max_new_tokens=3)
        assert found["prefix_tokens"] == ["b", "a"]
        assert found["answer"]["text"].startswith("ba")

    def test_the_truth_costs_what_the_model_makes_of_it(self, name):
        model = workspace(name).run("r1").model
        found = ask(name, "decode/exposure-bias", number=0, target="ab")
        assert -sum(found["forced_loss"]) == pytest.approx(model.score(given(name), "ab"), abs=1e-4)
        assert found["truth"] == ["a", "b", "<eos>"]

    def test_attention_on_places_or_frames_is_that_of_a_trace(self, name):
        model = workspace(name).run("r1").model
        listed = ask(name, "attention/lens", number=0, target="ab")
        assert listed["grid"] == ((1, 4) if name == "video" else (2, 2))
        looks = model.trace(given(name), "ab", ATTENTION).of("attention")
        layer = next(place for place, each in enumerate(listed["lens"]) if each["cross"])
        shown = ask(name, "attention/head", number=0, target="ab", layer=layer).array
        assert shown == pytest.approx(looks[layer].values[0], abs=1e-6)
        last = [each.values.mean(0) for each in looks if each.is_cross_attention][-1]
        assert ask(name, "vit/regions", number=0, target="ab").array == pytest.approx(last, abs=1e-6)

    def test_two_sides_are_compared_by_what_each_says(self, name):
        model = workspace(name).run("r1").model
        found = ask(name, "compare/sides", number=0, target="ab")
        assert found["sides"][0]["answer"] == model.predict([given(name)])[0].text
        read = [np.log(each["probability"]) for each in found["read"][1]]
        assert sum(read) == pytest.approx(model.score(given(name), "ab"), abs=1e-4)


class TestVideos:
    def test_frames_lie_side_by_side_and_are_given_one_after_another(self):
        frames = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3), dtype=np.uint8)
        strip = np.concatenate(list(frames), axis=1)
        pixels = base64.b64encode(strip.tobytes()).decode()
        about = ask("video", "vit/image-info", pixels=pixels)
        assert (about["grid"], about["video"], about["patch_size"]) == ([1, 4], True, 8)
        assert ask("video", "vit/image", pixels=pixels).array == pytest.approx(strip)
        turned = ask("video", "vit/predict", pixels=pixels, order=[3, 2, 1, 0], cover=[0])
        changed = frames[::-1].copy()
        changed[0] = 128
        model = workspace("video").run("r1").model
        said = model.predict([changed])[0]
        assert turned["text"] == said.text
        chances = [each.probability for each in said.answers[0].tokens]
        assert [each["probability"] for each in turned["pieces"]] == pytest.approx(chances, abs=1e-6)

    def test_states_over_frames_are_those_of_a_trace(self):
        model = workspace("video").run("r1").model
        read = ask("video", "recurrent/cells", number=0, target="ab")
        assert read["tokens"]["source"] == ["1", "2", "3", "4"]
        cell = read["cells"][0]["name"]
        states = ask("video", "recurrent/states", number=0, target="ab", cell=cell).array
        record = model.trace(given("video"), "ab", ("hidden",))
        assert states == pytest.approx(record.find(cell, "hidden").values, abs=1e-6)
        left = ask("video", "recurrent/influence", number=0, target="ab", cell=cell, word=1).array
        assert left.shape == (3, 4)
        assert left[:, 1] == pytest.approx([1, 1, 1])


class TestSeries:
    @pytest.mark.parametrize("name", ["series", "series, transformer"])
    def test_it_is_told_what_the_model_said_of_each_value_and_how_it_goes_on(self, name):
        model = workspace(name).run("r1").model
        found = ask(name, "series/forecast", text=NUMBERS, ahead=3)
        values = parse_numbers(NUMBERS)
        assert found["values"] == pytest.approx(values)
        for place in (1, 3, 6):  # one value, three, all: the next is said in the same way
            next_one = parse_numbers(model(" ".join(map(str, values[:place])), max_new_tokens=1).text)
            assert found["one_step_predictions"][place - 1] == pytest.approx(next_one[0], abs=1e-4)
        assert found["forecast"] == pytest.approx(parse_numbers(model(NUMBERS, max_new_tokens=3).text))

    def test_a_window_says_what_comes_wherever_it_is_full(self):
        model, values = workspace("series, window").run("r1").model, parse_numbers(NUMBERS)
        found = ask("series, window", "series/forecast", text=NUMBERS, ahead=2)
        assert found["values"] == pytest.approx(values[3:])
        for place, guess in enumerate(found["one_step_predictions"]):
            next_one = parse_numbers(model(" ".join(map(str, values[: 4 + place])), max_new_tokens=1).text)
            assert guess == pytest.approx(next_one[0], abs=1e-4)
        assert len(found["one_step_predictions"]) == 3

    def test_places_are_called_by_their_times(self):
        listed = ask("series, transformer", "attention/lens", text=NUMBERS)
        assert listed["tokens"]["target"] == ["1", "2", "3", "4", "5", "6"]
        assert listed["tokens"]["target_tokens"] == ["2", "3", "4", "5", "6", "7"]
        looks = workspace("series, transformer").run("r1").model.trace(NUMBERS).of("attention")
        shown = ask("series, transformer", "attention/head", text=NUMBERS, layer=1, head=1).array
        assert shown == pytest.approx(looks[1].values[1], abs=1e-6)

    def test_what_is_no_number_is_told(self):
        with pytest.raises(Exception, match="not a number"):
            ask("series", "series/forecast", text=SOURCE)
        with pytest.raises(Exception, match="no numbers"):
            ask("gpt", "series/forecast", text=NUMBERS)


def test_a_tagger_of_n_grams_reads_words():
    read = ask("tagger, n-grams", "recurrent/cells", text="abc de")
    assert read["tokens"]["source"] == ["<bos>", "abc", "de"]
    cell = read["cells"][0]["name"]
    assert ask("tagger, n-grams", "recurrent/states", text="abc de", cell=cell).array.shape[0] == 3


def test_members_of_an_ensemble_are_not_looked_into():
    assert ask("ensemble", "attention/lens", text=SOURCE)["lens"] == []
