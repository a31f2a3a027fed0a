"""Every supported view of every model family responds to all requests of its page."""

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
from seq2see.data.readers.video_decoding import frame_indices
from seq2see.data.series_dataset import parse_numbers
from seq2see.data.tokenizers.tokenizer import EOS
from seq2see.explorer import offline
from seq2see.explorer.offline import VIEW_RECORDERS, ResponseRecorder
from seq2see.explorer.routes import ROUTES, describe_run, views_of
from seq2see.inspection.trace import ATTENTION

ATTENTION_VIEWS = {"attention", "single-head"}
ENCODER_VIEWS = {"tokenize", "compare", "architecture", "embeddings"}
GENERATIVE_VIEWS = {*ENCODER_VIEWS, "next-token", "decode"}
VIEWS = {
    "transformer": {*GENERATIVE_VIEWS, *ATTENTION_VIEWS, "positions"},
    "rnn": {*GENERATIVE_VIEWS, *ATTENTION_VIEWS, "recurrent", "positions"},
    "gpt": {*GENERATIVE_VIEWS, *ATTENTION_VIEWS, "positions"},
    "lstm": {*GENERATIVE_VIEWS, "recurrent", "positions"},
    "gated cnn": {*GENERATIVE_VIEWS, *ATTENTION_VIEWS, "positions"},
    "mlp": {*GENERATIVE_VIEWS, "positions"},
    "bert": {*ENCODER_VIEWS, *ATTENTION_VIEWS, "next-token", "positions"},
    "next sentence": {*ENCODER_VIEWS, *ATTENTION_VIEWS, "next-token", "positions"},
    "classifier": {*ENCODER_VIEWS, *ATTENTION_VIEWS, "positions"},
    "classifier, recurrent": {*ENCODER_VIEWS, "recurrent", "positions"},
    "classifier, text-cnn": {*ENCODER_VIEWS, "positions"},
    "tagger": {*ENCODER_VIEWS, "recurrent"},
    "tagger, n-grams": {*ENCODER_VIEWS, "recurrent"} - {"embeddings"},
    "tagger, transformer": {*ENCODER_VIEWS, *ATTENTION_VIEWS, "positions"},
    "embedding": {*ENCODER_VIEWS, *ATTENTION_VIEWS, "positions"} - {"compare"},
    "vit": {*ATTENTION_VIEWS, "vit", "positions", "compare", "architecture"},
    "vit, headless": {*ATTENTION_VIEWS, "vit", "positions", "architecture"},
    "resnet": {"vit", "compare", "architecture"},
    "caption": {*GENERATIVE_VIEWS, *ATTENTION_VIEWS, "vit", "positions"},
    "video": {*GENERATIVE_VIEWS, *ATTENTION_VIEWS, "vit", "recurrent"},
    "series": {"recurrent", "compare", "architecture"},
    "series, mlp": {"compare", "architecture"},
    "series, transformer": {*ATTENTION_VIEWS, "compare", "architecture"},
    **{name: {"speech", "architecture"} for name in FAMILIES if name.startswith("speech")},
    "ensemble": {*GENERATIVE_VIEWS} - {"embeddings"},
    "ensemble, caption": {*GENERATIVE_VIEWS} - {"embeddings"},
}
"""The views of each family, without those that need a run folder (training curves and mistakes)."""


def post(name: str, route: str, **body):
    """The response to a request about the model of a family."""
    request = ROUTES[route].request_model.model_validate_json(json.dumps({"run": "r1", **body}))
    return ROUTES[route].handler(workspace(name), request)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_supported_view_responds_without_an_error(name, monkeypatch):
    monkeypatch.setattr(offline, "BEAM_WIDTHS", (2,))
    monkeypatch.setattr(offline, "SEEDS", 1)
    monkeypatch.setattr(offline, "MAX_NEW_TOKENS", 3)
    assert set(views_of(workspace(name).run("r1"))) == VIEWS[name]
    recorder = ResponseRecorder(workspace(name), describe_run(workspace(name).run("r1")), input_text(name))
    for view in VIEWS[name]:
        before = len(recorder.responses)
        VIEW_RECORDERS[view](recorder)
        assert len(recorder.responses) > before or view in ("single-head", "next-token", "compare"), view


def default_input(name: str):
    """The default input of a captioner without test images: a gray image, or a gray video."""
    shape = (4, 8, 8, 3) if name == "video" else (8, 8, 3)
    return np.full(shape, 128, np.uint8)


def in_base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


@pytest.mark.parametrize("name", ["caption", "video"])
class TestCaptioners:
    def test_candidates_and_surprisals_are_those_of_the_model(self, name):
        model = workspace(name).run("r1").model
        result = post(
            name, "next-token/analysis", number=0, target="ab", parts=["surprisal", "candidates"], max_candidates=1000
        )
        assert list(result) == ["surprisal", "candidates"]
        surprisal, candidates = result.values()
        batch = model.named_batch(default_input(name), "ab").batch
        with torch.inference_mode():
            scores = model.module(batch)[0, 2].log_softmax(-1)  # after <bos>, a and b
        assert candidates["scores"] == pytest.approx(scores[candidates["ids"]].tolist(), abs=1e-5)
        assert surprisal["tokens"] == ["a", "b"]
        log_probability = -sum(each * np.log(2) for each in surprisal["surprisal"])
        assert log_probability == pytest.approx(model.score(default_input(name), "ab") - scores[EOS].item(), abs=1e-4)

    def test_uploaded_files_are_preprocessed_as_in_python(self, name, tmp_path):
        model, shades = workspace(name).run("r1").model, (10, 90, 170, 250, 130)
        stills = [Image.new("RGB", (16, 16), (shade, 0, 255 - shade)) for shade in shades]
        stills[0].save(tmp_path / "video.gif", save_all=True, append_images=stills[1:], duration=100)
        uploaded = post(name, "vit/upload", files=[in_base64(tmp_path / "video.gif")]).array
        pixels, _ = model.tokenizers.source.preprocess(tmp_path / "video.gif")
        (prediction,) = post(name, "predict", images=[in_base64(tmp_path / "video.gif")], max_new_tokens=3).predictions
        assert prediction.outputs[0].text == model(tmp_path / "video.gif", max_new_tokens=3).text
        if name == "caption":
            np.testing.assert_array_equal(uploaded, pixels.transpose(1, 2, 0))
            return
        np.testing.assert_array_equal(uploaded, np.concatenate(list(pixels.transpose(0, 2, 3, 1)), axis=1))
        for number, still in enumerate(stills):
            still.save(tmp_path / f"{number}.png")
        paths = [tmp_path / f"{number}.png" for number in range(len(stills))]
        frames = post(name, "vit/upload", files=[in_base64(path) for path in paths]).array
        assert frames[0, ::8, 0].tolist() == [shades[index] for index in frame_indices(5, 4)]
        (tmp_path / "video.gif").write_bytes(b"<svg></svg>")
        with pytest.raises(UserError, match="SVG"):
            post(name, "vit/upload", files=[in_base64(tmp_path / "video.gif")])
        with pytest.raises(UserError, match="frame 2"):
            post(name, "vit/upload", files=[in_base64(paths[0]), in_base64(tmp_path / "video.gif")])

    def test_a_search_has_the_output_of_predict(self, name):
        model = workspace(name).run("r1").model
        for fields in ({"strategy": "greedy"}, {"strategy": "beam", "num_beams": 3}):
            found = post(name, "decode/search-tree", number=0, max_new_tokens=8, **fields)
            prediction = model.predict([default_input(name)], num_beams=fields.get("num_beams", 1), max_new_tokens=8)[0]
            assert found["answer"]["text"] == prediction.text
            assert found["answer"]["score"] == pytest.approx(prediction.score, abs=1e-5)

    def test_forced_tokens_are_continued(self, name):
        ids = text_model("gpt").tokenizers.target.encode("ba")
        found = post(name, "decode/search-tree", number=0, forced_ids=ids, max_new_tokens=3)
        assert found["prefix_tokens"] == ["b", "a"]
        assert found["answer"]["text"].startswith("ba")

    def test_the_forced_loss_is_that_of_the_model(self, name):
        model = workspace(name).run("r1").model
        found = post(name, "decode/exposure-bias", number=0, target="ab")
        assert -sum(found["forced_loss"]) == pytest.approx(model.score(default_input(name), "ab"), abs=1e-4)
        assert found["truth"] == ["a", "b", "<eos>"]

    def test_attention_to_patches_or_frames_is_that_of_a_trace(self, name):
        model = workspace(name).run("r1").model
        info = post(name, "attention/layers", number=0, target="ab")
        assert info["grid"] == ((1, 4) if name == "video" else (2, 2))
        attention = model.trace(default_input(name), "ab", ATTENTION).of("attention")
        layer = next(index for index, each in enumerate(info["layers"]) if each["is_cross_attention"])
        weights = post(name, "attention/head", number=0, target="ab", layer=layer).array
        assert weights == pytest.approx(attention[layer].values[0], abs=1e-6)
        last = [each.values.mean(0) for each in attention if each.is_cross_attention][-1]
        assert post(name, "vit/regions", number=0, target="ab").array == pytest.approx(last, abs=1e-6)

    def test_two_sides_have_the_predictions_of_their_models(self, name):
        model = workspace(name).run("r1").model
        found = post(name, "compare/sides", number=0, target="ab")
        assert found["sides"][0]["answer"] == model.predict([default_input(name)])[0].text
        log_probabilities = [np.log(each["probability"]) for each in found["target_tokens"][1]]
        assert sum(log_probabilities) == pytest.approx(model.score(default_input(name), "ab"), abs=1e-4)


class TestVideos:
    def test_frames_are_side_by_side_in_responses_and_separate_in_the_model_input(self):
        frames = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3), dtype=np.uint8)
        image = np.concatenate(list(frames), axis=1)
        pixels = base64.b64encode(image.tobytes()).decode()
        info = post("video", "vit/image-info", pixels=pixels)
        assert (info["grid"], info["video"], info["patch_size"]) == ([1, 4], True, 8)
        assert post("video", "vit/image", pixels=pixels).array == pytest.approx(image)
        reordered = post("video", "vit/predict", pixels=pixels, order=[3, 2, 1, 0], cover=[0])
        changed = frames[::-1].copy()
        changed[0] = 128
        model = workspace("video").run("r1").model
        prediction = model.predict([changed])[0]
        assert reordered["text"] == prediction.text
        probabilities = [each.probability for each in prediction.outputs[0].tokens]
        assert [each["probability"] for each in reordered["tokens"]] == pytest.approx(probabilities, abs=1e-6)

    def test_states_over_frames_are_those_of_a_trace(self):
        model = workspace("video").run("r1").model
        info = post("video", "recurrent/cells", number=0, target="ab")
        assert info["tokens"]["source"] == ["1", "2", "3", "4"]
        cell = info["cells"][0]["name"]
        states = post("video", "recurrent/states", number=0, target="ab", cell=cell).array
        record = model.trace(default_input("video"), "ab", ("hidden",))
        assert states == pytest.approx(record.find(cell, "hidden").values, abs=1e-6)
        influence = post("video", "recurrent/influence", number=0, target="ab", cell=cell, word=1).array
        assert influence.shape == (3, 4)
        assert influence[:, 1] == pytest.approx([1, 1, 1])


class TestSeries:
    @pytest.mark.parametrize("name", ["series", "series, transformer"])
    def test_the_response_has_one_step_forecasts_and_the_continuation(self, name):
        model = workspace(name).run("r1").model
        found = post(name, "series/forecast", text=NUMBERS, horizon=3)
        values = parse_numbers(NUMBERS)
        assert found["values"] == pytest.approx(values)
        for length in (1, 3, 6):  # the forecast after one value, three, all
            expected = parse_numbers(model(" ".join(map(str, values[:length])), max_new_tokens=1).text)
            assert found["one_step_predictions"][length - 1] == pytest.approx(expected[0], abs=1e-4)
        assert found["forecast"] == pytest.approx(parse_numbers(model(NUMBERS, max_new_tokens=3).text))

    def test_a_window_model_forecasts_wherever_its_context_is_full(self):
        model, values = workspace("series, mlp").run("r1").model, parse_numbers(NUMBERS)
        found = post("series, mlp", "series/forecast", text=NUMBERS, horizon=2)
        assert found["values"] == pytest.approx(values[3:])
        for index, forecast in enumerate(found["one_step_predictions"]):
            expected = parse_numbers(model(" ".join(map(str, values[: 4 + index])), max_new_tokens=1).text)
            assert forecast == pytest.approx(expected[0], abs=1e-4)
        assert len(found["one_step_predictions"]) == 3

    def test_tokens_of_a_series_are_named_by_time(self):
        info = post("series, transformer", "attention/layers", text=NUMBERS)
        assert info["tokens"]["target"] == ["1", "2", "3", "4", "5", "6"]
        assert info["tokens"]["labels"] == ["2", "3", "4", "5", "6", "7"]
        attention = workspace("series, transformer").run("r1").model.trace(NUMBERS).of("attention")
        weights = post("series, transformer", "attention/head", text=NUMBERS, layer=1, head=1).array
        assert weights == pytest.approx(attention[1].values[1], abs=1e-6)

    def test_invalid_numbers_and_other_models_are_errors(self):
        with pytest.raises(Exception, match="not a number"):
            post("series", "series/forecast", text=SOURCE)
        with pytest.raises(Exception, match="does not forecast"):
            post("gpt", "series/forecast", text=NUMBERS)


def test_the_tokens_of_an_n_gram_tagger_are_words():
    info = post("tagger, n-grams", "recurrent/cells", text="abc de")
    assert info["tokens"]["source"] == ["<bos>", "abc", "de"]
    cell = info["cells"][0]["name"]
    assert post("tagger, n-grams", "recurrent/states", text="abc de", cell=cell).array.shape[0] == 3


def test_an_ensemble_has_no_attention_layers():
    assert post("ensemble", "attention/layers", text=SOURCE)["layers"] == []
