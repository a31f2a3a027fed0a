"""The view "Speech": letters, spectrogram, probabilities and attention are those of the model; files and live sound."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from sound_models import OUTPUTS, RATE, recordings, sound_model, wav_base64
from text_models import text_model
from tiny_workspace import Client, make_app, opened_run

from seq2see.core.errors import UserError
from seq2see.data.readers.sound_files import read_sound
from seq2see.explorer.offline import VIEW_RECORDERS, ResponseRecorder
from seq2see.explorer.routes import ROUTES, describe_run
from seq2see.explorer.views import speech
from seq2see.explorer.workspace import Workspace
from seq2see.tasks.live_transcript import LiveTranscript
from tiny_runs import tones, wav_bytes

TEXTS = ("abca", "dc", "bbad")
EXACT = {"rtol": 0, "atol": 1e-5}
NAME = "0123456789abcdef"


def workspace(name: str) -> Workspace:
    """The model of one output as run r1 with three test recordings, and a language model as run r2."""
    run = opened_run("r1", name, sound_model(name))
    run.__dict__["test_examples"] = recordings(*TEXTS)
    return Workspace({"r1": run, "r2": opened_run("r2", "gpt", text_model("gpt"))})


def poster(opened: Workspace) -> Callable[..., Any]:
    """A function that posts requests to a route, as the page does."""

    def post(route: str, **body: Any) -> Any:
        request = ROUTES[route].request_model.model_validate_json(json.dumps({"run": "r1", **body}))
        return ROUTES[route].handler(opened, request)

    return post


@pytest.mark.parametrize("name", OUTPUTS)
class TestEveryOutput:
    def test_all_numbers_are_those_of_the_model_in_python(self, name):
        model, post = sound_model(name), poster(workspace(name))
        samples = recordings(*TEXTS).samples[2]
        found = post("speech/transcript", number=2)
        prediction = model(samples)
        assert found["text"] == prediction.text
        parts = {part: post("speech/part", number=2, part=part).array for part in found["parts"]}
        np.testing.assert_array_equal(parts.pop("samples"), samples)
        features = model.encode_sound(samples).features.numpy()
        np.testing.assert_allclose(parts.pop("spectrogram"), features, **EXACT)
        if name.startswith("ctc") or name == "joint":
            head = model.module.head.ctc if name == "joint" else model.module.head
            encoded = model.module.encode(model.named_batch(samples, "a").batch.source)
            expected = head(encoded.values)[0].softmax(-1).detach().numpy()
            np.testing.assert_allclose(parts.pop("probabilities"), expected, **EXACT)
            assert len(found["vocabulary"]) == expected.shape[1]
        if name.endswith("attention") or name == "joint":
            record = model.trace(samples, prediction.text)
            weights = [each.values for each in record.of("attention") if each.is_cross_attention][-1].mean(0)
            np.testing.assert_allclose(parts.pop("attention"), weights, **EXACT)
            assert len(found["queries"]) == len(weights)
        assert not parts

    def test_letters_lie_within_the_recording_and_spell_the_text(self, name):
        found = poster(workspace(name))("speech/transcript", number=0)
        assert "".join(each["text"] for each in found["letters"]) == found["text"] != ""
        for each in found["letters"]:
            assert 0 <= each["start"] < each["end"] <= found["seconds"]
            assert 0 < each["probability"] <= 1
        assert (found["count"], found["name"], found["truth"]) == (3, "recordings/<b>0.wav", "abca")
        assert found["reference"][1] == {"text": "b", "start": 0.35, "end": 0.45}
        assert found["seconds"] == pytest.approx(len(tones("abca")) / RATE)

    def test_a_file_is_read_resampled_and_transcribed_as_in_python(self, name):
        post, file = poster(workspace(name)), wav_base64("cab", rate=11_025)
        found = post("speech/transcript", sound=file)
        samples = read_sound(base64.b64decode(file), RATE)
        assert found["text"] == sound_model(name)(samples).text
        np.testing.assert_array_equal(post("speech/part", sound=file, part="samples").array, samples)
        assert (found["name"], found["truth"], found["reference"]) == ("", "", [])
        (prediction,) = post("predict", sounds=[file]).predictions
        assert prediction.outputs[0].text == found["text"]

    def test_a_saved_page_has_the_first_recordings(self, name):
        opened = workspace(name)
        recorder = ResponseRecorder(opened, describe_run(opened.run("r1")), "")
        VIEW_RECORDERS["speech"](recorder)
        transcripts = [key for key in recorder.responses if key.startswith("speech/transcript")]
        assert transcripts == [f'speech/transcript {{"number":{number},"run":"r1"}}' for number in range(3)]
        # An empty transcript has no attention, so the recordings may have different parts.
        parts = [poster(opened)("speech/transcript", number=number)["parts"] for number in range(3)]
        assert len(recorder.responses) == sum(1 + len(each) for each in parts)


def test_the_probability_of_a_letter_of_a_decoder_is_not_its_attention_weight():
    found = poster(workspace("attention"))("speech/transcript", number=0)
    tokens = sound_model("attention")(recordings(*TEXTS).samples[0]).outputs[0].tokens
    probabilities = [each["probability"] for each in found["letters"]]
    assert probabilities == pytest.approx([each.probability for each in tokens[: len(probabilities)]], abs=1e-6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<svg></svg>", "text"),
        (wav_bytes(tones("ab"))[:30], "header has 10 bytes"),
        (wav_bytes(np.zeros(RATE, np.float32)), "silent"),
        (wav_bytes(tones("a")[:30]), "ms"),
        (b"RIFF" + bytes(400), "not of WAVE"),
        (bytes(range(256)) * 9, "unknown format"),
    ],
)
def test_a_damaged_file_is_a_named_error(content, message):
    client = Client(make_app(workspace("ctc")))
    response = client.post("speech/transcript", run="r1", sound=base64.b64encode(content).decode())
    assert response.status_code == 422
    assert response.json()["location"] == "this recording"
    assert message in response.json()["message"]
    assert response.json()["hint"]


def test_other_faults_are_named():
    post = poster(workspace("ctc"))
    with pytest.raises(UserError, match="base64"):
        post("speech/transcript", sound="no!")
    with pytest.raises(UserError, match="3 test recordings, and no recording 3"):
        post("speech/transcript", number=3)
    with pytest.raises(UserError, match="does not accept sounds"):
        post("speech/transcript", run="r2")
    with pytest.raises(UserError, match="has no attention"):
        post("speech/part", part="attention")
    with pytest.raises(UserError, match="both texts and sounds"):
        post("predict", texts=["a"], sounds=[wav_base64("a")])
    with pytest.raises(UserError, match="needs a sound as input"):
        post("predict", texts=["/etc/passwd"])
    with pytest.raises(UserError, match="at most 30 seconds"):
        post("speech/transcript", sound=wav_base64("ab" * 80))


def chunks(samples: np.ndarray, rate: int, recording: str = NAME) -> list[dict[str, Any]]:
    """The requests of a microphone: 200 ms each."""
    integers, size = (samples * 32767).round().astype("<i2"), rate // 5
    return [
        {
            "recording": recording,
            "rate": rate,
            "start": start,
            "samples": base64.b64encode(integers[start : start + size].tobytes()).decode(),
        }
        for start in range(0, len(integers), size)
    ]


class TestLive:
    @pytest.mark.parametrize(("name", "rate"), [("ctc", RATE), ("ctc", 16_000), ("transducer", 11_000)])
    def test_text_grows_as_in_python(self, name, rate):
        post, expected = poster(workspace(name)), LiveTranscript(sound_model(name), rate)
        samples = tones("abcdabcd", rate=rate)
        texts = []
        for each in chunks(samples, rate):
            expected.feed(np.frombuffer(base64.b64decode(each["samples"]), "<i2"))
            found = post("speech/live", **each)
            texts.append(found["text"])
            assert (found["text"], found["samples"]) == (expected.text, min(each["start"] + rate // 5, len(samples)))
        assert texts[-1]
        assert all(later.startswith(before) for before, later in pairwise(texts))

    def test_two_recordings_do_not_mix(self):
        post, both = poster(workspace("ctc")), [chunks(tones("ab"), RATE), chunks(tones("dc"), RATE, NAME[::-1])]
        for one, other in zip(*both, strict=False):
            mixed = post("speech/live", **one), post("speech/live", **other)
        count = min(map(len, both))
        for requests, found in zip(both, mixed, strict=True):
            alone = poster(workspace("ctc"))
            assert [alone("speech/live", **each) for each in requests[:count]][-1] == found

    def test_a_missing_part_and_a_long_recording_are_errors(self):
        post = poster(workspace("ctc"))
        first, second, third, *_ = chunks(tones("abcd"), RATE)
        post("speech/live", **first)
        with pytest.raises(UserError, match="has 800 samples, and these begin at 1,600"):
            post("speech/live", **third)
        post("speech/live", **second)
        with pytest.raises(UserError, match="has 0 samples"):
            post("speech/live", **{**second, "recording": NAME[::-1]})
        with pytest.raises(UserError, match="Half of a sample"):
            post("speech/live", **{**third, "samples": base64.b64encode(b"abc").decode()})
        opened = workspace("ctc")
        almost = speech.LiveRecording(LiveTranscript(sound_model("ctc"), RATE), samples=30 * RATE)
        opened.cached(("live", "r1", NAME), lambda: almost)
        with pytest.raises(UserError, match="at most 30 seconds"):
            poster(opened)("speech/live", **{**first, "start": 30 * RATE})

    @pytest.mark.parametrize("name", ["attention", "joint"])
    def test_a_decoder_with_attention_is_not_live(self, name):
        post = poster(workspace(name))
        assert not post("speech/transcript")["live"]
        with pytest.raises(UserError, match="whole recording"):
            post("speech/live", **chunks(tones("ab"), RATE)[0])


def test_without_test_recordings_the_view_shows_a_tone():
    opened = Workspace({"r1": opened_run("r1", "ctc", sound_model("ctc"))})
    found = poster(opened)("speech/transcript")
    assert (found["count"], found["seconds"], found["name"]) == (0, 1, "440 Hz")  # and not "Your recording"


def test_bodies_are_limited():
    limit = make_app(workspace("ctc")).max_body_bytes
    assert [limit(f"/api/speech/{name}") >> 20 for name in ("transcript", "part", "live")] == [20, 20, 1]


def test_the_warnings_of_an_uploaded_file_are_shown():
    post, loud = poster(workspace("ctc")), (30 * tones("ab")).clip(-1, 1)
    file = base64.b64encode(wav_bytes(loud)).decode()
    (warning,) = post("speech/transcript", sound=file)["warnings"]
    assert warning.startswith("clipped recording: ")
    assert post("predict", sounds=[file]).predictions[0].warnings == [warning]
    assert post("speech/transcript", sound=wav_base64("ab"))["warnings"] == []
    assert post("speech/transcript", number=1)["warnings"] == []
