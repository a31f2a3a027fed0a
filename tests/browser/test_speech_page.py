"""Speech: all rows show the numbers of the model under one cursor; files, the microphone, sound, and a saved page."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from legibility import readability
from page_code import run_code, runs_folder
from page_data import link_state, press, view_data, wait_until
from page_downloads import page_downloads
from tabs import PageMonitor

from seq2see.data.readers.sound_files import read_sound
from seq2see.explorer.offline import saved_page
from seq2see.explorer.workspace import Workspace
from tiny_runs import SOUND_RATE, tones, wav_bytes

DRAWN = "section.view:not([aria-busy])"
CANVAS, TEXT, READOUT = ".sound-canvas", ".sound-text", ".sound-readout"
MODELS = ("speech", "speech-joint")
EXACT = {"rtol": 0, "atol": 1e-5}


def samples_of(runs: Any, name: str, number: int) -> np.ndarray:
    """The samples of a test recording."""
    return runs.workspace.run(runs.id(name)).test_examples.samples[number]


def wav(content: bytes, name: str = "own.wav") -> dict[str, Any]:
    """A file for the file input."""
    return {"name": name, "mimeType": "audio/wav", "buffer": content}


@pytest.mark.parametrize("name", MODELS)
def test_all_rows_have_the_numbers_of_the_model(open_view, runs, name):
    page = open_view("speech", run=name, number=2)
    model, samples = runs.model(name), samples_of(runs, name, 2)
    shown, prediction = view_data(page, CANVAS), model(samples)
    assert page.locator(TEXT).inner_text() == prediction.text != ""
    np.testing.assert_allclose(shown["samples"], samples, **EXACT)
    features = model.encode_sound(samples).features
    assert shown["spectrogram"]["shape"] == list(features.shape)
    np.testing.assert_allclose(shown["spectrogram"]["values"], features.flatten(), **EXACT)
    np.testing.assert_allclose(shown["probabilities"]["values"], np.exp(model.frame_scores(samples)).flatten(), **EXACT)
    if name == "speech-joint":
        np.testing.assert_allclose(shown["attention"]["values"], prediction.attention.matrix.flatten(), **EXACT)
    letters = model.align(samples, prediction.text) if name == "speech-joint" else prediction.letters
    for each, letter in zip(shown["letters"], letters, strict=True):
        assert each["text"] == letter.text
        times = (each["start"], each["end"], each["probability"])
        assert times == pytest.approx((letter.start, letter.end, letter.probability), abs=1e-5)
    truth = runs.workspace.run(runs.id(name)).test_examples[2].target
    assert f"Reference: {truth}" in page.locator(".sound-text + .note").inner_text()


def test_one_cursor_crosses_all_rows_and_follows_pointer_keys_and_letters(open_view, page, runs):
    open_view("speech", run="speech")
    cursor, canvas = page.locator(".sound-cursor"), page.locator(CANVAS)
    box, rows = canvas.bounding_box(), view_data(page, CANVAS)
    assert cursor.bounding_box()["height"] > 0.9 * box["height"]
    letter = rows["letters"][1]
    middle = (letter["start"] + letter["end"]) / 2
    page.locator(".strip .token").nth(1).hover()
    assert view_data(page, CANVAS)["time"] == pytest.approx(middle)
    assert f"“{letter['text']}”" in page.locator(READOUT).inner_text()
    at = cursor.bounding_box()["x"] + 1 - box["x"]
    canvas.hover(position={"x": at, "y": 20})  # the same moment in the row of the wave
    assert view_data(page, CANVAS)["time"] == pytest.approx(middle, abs=0.01)
    canvas.click(position={"x": at, "y": 200})
    wait_until(page, "location.hash.includes('at=')")
    sought = float(link_state(page)["at"])
    assert sought == pytest.approx(middle, abs=0.02)
    canvas.focus()
    press(page, "ArrowRight", "ArrowRight", "ArrowLeft")
    assert view_data(page, CANVAS)["time"] == pytest.approx(middle + 0.04, abs=0.02)
    probabilities = np.exp(runs.model("speech").frame_scores(samples_of(runs, "speech", 0)))
    vector = round((view_data(page, CANVAS)["time"] - 0.0125) / 0.04)
    best = runs.model("speech").tokenizers.target.tokens([int(probabilities[vector].argmax())])[0]
    assert f"CTC: {best if best != '<pad>' else 'blank'} " in page.locator(READOUT).inner_text()
    press(page, "Home")
    assert view_data(page, CANVAS)["time"] == 0


def test_the_sound_is_played_with_the_moving_cursor(open_view, page):
    open_view("speech", run="speech")
    page.get_by_role("button", name="play", exact=True).click()
    wait_until(page, f"document.querySelector('{CANVAS}').viewData.time > 0.2")
    page.get_by_role("button", name="pause").click()
    page.get_by_role("button", name="play", exact=True).wait_for()
    assert view_data(page, CANVAS)["time"] == 0  # back where it began
    letter = view_data(page, CANVAS)["letters"][1]
    page.locator(".strip .token").nth(1).click()
    page.get_by_role("button", name="pause").wait_for()
    page.get_by_role("button", name="play", exact=True).wait_for()  # at the end of the letter
    assert letter["end"] < len(view_data(page, CANVAS)["samples"]) / SOUND_RATE


@pytest.mark.parametrize("name", MODELS)
def test_an_uploaded_file_is_transcribed_and_stays_when_the_language_changes(open_view, page, runs, name):
    open_view("speech", run=name)
    content = wav_bytes(tones("cabd", 9, rate=11_025), 11_025)
    page.locator("input[type=file]").set_input_files(wav(content))
    samples = read_sound(content, SOUND_RATE)
    wait_until(page, f"document.querySelector('{CANVAS}').viewData.samples.length === {len(samples)}")
    text = runs.model(name)(samples).text
    assert page.locator(TEXT).inner_text() == text
    if name == "speech":
        assert text == "cabd"
    page.get_by_role("button", name="Switch to Chinese").click()
    wait_until(page, "document.title.startsWith('语音')")
    page.wait_for_selector(f"{DRAWN} .sound-text")
    assert page.locator(TEXT).inner_text() == text
    assert "你的录音" in page.locator(".sound-text + .note").inner_text()
    page.locator("input[name=number]").fill("1")
    expected = runs.model(name)(samples_of(runs, name, 1)).text
    wait_until(page, f"text => document.querySelector('{TEXT}').textContent === text", expected)
    assert "own" not in link_state(page)


@pytest.mark.parametrize(("lang", "too_large"), [("en", "limited to 10 MB"), ("zh", "不能超过 10 MB")])
def test_a_damaged_file_is_an_error_and_the_figure_stays(open_view, page, lang, too_large):
    open_view("speech", run="speech", lang=lang)
    before = page.locator(TEXT).inner_text()
    page.monitor.allowed.add(422)
    for content, message in ((b"<svg></svg>", "This is text"), (wav_bytes(tones("ab"))[:30], "header has 10 bytes")):
        page.locator("input[type=file]").set_input_files(wav(content))
        page.wait_for_selector(".error")
        wait_until(page, "text => document.querySelector('.error').textContent.includes(text)", message)
        assert page.locator(TEXT).inner_text() == before
    page.locator("input[type=file]").set_input_files(wav(bytes((10 << 20) + 1)))
    wait_until(page, "text => document.querySelector('.error').textContent.includes(text)", too_large)


def test_a_dropped_file_is_transcribed(open_view, page):
    open_view("speech", run="speech")
    content = base64.b64encode(wav_bytes(tones("dad", 3))).decode()
    page.evaluate(
        """(content) => {
          const transfer = new DataTransfer();
          const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
          transfer.items.add(new File([bytes], "own.wav"));
          const target = document.querySelector(".sound-canvas");
          for (const type of ["dragover", "drop"])
            target.dispatchEvent(new DragEvent(type, { dataTransfer: transfer, bubbles: true, cancelable: true }));
        }""",
        content,
    )
    wait_until(page, f"document.querySelector('{TEXT}').textContent === 'dad'")


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(
    ("cause", "english", "chinese"),
    [
        ("NotAllowedError", "The microphone is not allowed.", "麦克风没有得到许可。"),
        ("NotFoundError", "There is no microphone.", "没有麦克风。"),
        ("NotReadableError", "perhaps another program uses it", "也许另一个程序正在使用它"),
        ("insecure", "only to secure pages", "只允许安全的页面使用麦克风"),
    ],
)
def test_without_a_microphone_the_reason_is_shown(open_view, page, cause, english, chinese):
    for lang, name, message in (("en", "record", english), ("zh", "录音", chinese)):
        open_view("speech", run="speech", lang=lang)
        page.evaluate(
            """(cause) => {
              Object.defineProperty(window, "isSecureContext", { value: cause !== "insecure", configurable: true });
              navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException("", cause));
            }""",
            cause,
        )
        page.get_by_role("button", name=name, exact=True).click()
        page.wait_for_selector(".error")
        assert message in page.locator(".error").inner_text()
        assert page.get_by_role("button", name=name, exact=True).is_enabled()


@pytest.fixture
def microphone_page(launch: Callable[..., Any], runs: Any, tmp_path: Path) -> Iterator[Any]:
    """A page of a browser whose microphone repeats a recording of the letters c, a, b, d."""
    path = tmp_path / "microphone.wav"
    path.write_bytes(wav_bytes(tones("cabd", 5, rate=16_000), 16_000))
    flags = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    browser = launch(*flags, f"--use-file-for-fake-audio-capture={path}")
    page = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB").new_page()
    page.set_default_timeout(10_000)
    page.monitor = PageMonitor(page)
    yield page
    faults = page.monitor.report()
    browser.close()
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("name", "lang", "record", "stop"),
    [("speech", "en", "record", "stop recording"), ("speech-joint", "zh", "录音", "停止录音")],
)
def test_the_microphone_is_transcribed(microphone_page, runs, name, lang, record, stop):
    page, bodies = microphone_page, []
    page.on("request", lambda request: "/speech/" in request.url and bodies.append((request.url, request.post_data)))
    page.goto(f"{runs.link}&{urlencode({'view': 'speech', 'run': runs.id(name), 'lang': lang})}")
    page.wait_for_selector(f"{DRAWN}, .error")
    page.get_by_role("button", name=record, exact=True).click()
    if name == "speech":
        wait_until(page, f"/cabd/.test(document.querySelector('{TEXT}').textContent)", milliseconds=20_000)
    else:
        page.wait_for_timeout(3_000)
        assert page.locator(TEXT).inner_text() == ""  # a decoder with attention needs the whole recording
    live = page.locator(TEXT).inner_text()
    page.get_by_role("button", name=stop).click()
    page.wait_for_selector(".strip .token")
    assert page.locator(".error").count() == 0
    final = page.locator(TEXT).inner_text()
    assert len(final) >= len(live)
    parts = [json.loads(body) for url, body in bodies if url.endswith("/live")]
    assert len(parts) == 0 if name == "speech-joint" else len(parts) > 5
    sent = b"".join(base64.b64decode(each["samples"]) for each in parts)
    sound = next(json.loads(body)["sound"] for url, body in bodies if '"sound"' in (body or ""))
    assert base64.b64decode(sound)[44:].startswith(sent)
    samples = read_sound(base64.b64decode(sound), SOUND_RATE)
    assert runs.model(name)(samples).text == final
    assert view_data(page, CANVAS)["samples"] == pytest.approx(samples, abs=1e-5)
    if name == "speech":
        assert "cabd" in final


def test_the_worklet_sends_chunks_and_the_rest_at_the_end(open_view, page):
    open_view("speech", run="speech")
    messages = page.evaluate(
        """async () => {
          const sent = [];
          globalThis.sampleRate = 1000;
          globalThis.AudioWorkletProcessor = class {
            port = { postMessage: (message) => sent.push(message && Array.from(message)) };
          };
          globalThis.registerProcessor = (name, kind) => (globalThis.Recorder = kind);
          await import("/page/parts/recorder_worklet.js");
          const recorder = new Recorder();
          const going = [recorder.process([[]])];
          going.push(recorder.process([[new Float32Array(150).fill(0.5)]]));
          going.push(recorder.process([[new Float32Array(150).fill(-2)]]));
          recorder.port.onmessage();
          return [...sent, ...going, recorder.process([[]])];
        }"""
    )
    assert messages == [[16384] * 150 + [-32767] * 50, [-32767] * 100, None, True, True, True, False]


def test_leaving_the_view_ends_the_recording(microphone_page, runs):
    page = microphone_page
    page.goto(f"{runs.link}&{urlencode({'view': 'speech', 'run': runs.id('speech')})}")
    page.wait_for_selector(f"{DRAWN}, .error")
    page.evaluate(
        """() => {
          const getUserMedia = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
          navigator.mediaDevices.getUserMedia = async (wanted) => (window.stream = await getUserMedia(wanted));
        }"""
    )
    page.get_by_role("button", name="record", exact=True).click()
    page.get_by_role("button", name="stop recording").wait_for()
    page.locator("nav a[data-view=runs]").click()
    wait_until(page, "window.stream.getTracks().every((track) => track.readyState === 'ended')")


def test_a_saved_page_has_recordings_and_no_microphone(page, runs, tmp_path):
    path = tmp_path / "page.html"
    opened = {runs.id(name): runs.workspace.run(runs.id(name)) for name in MODELS}
    path.write_text(saved_page(Workspace(opened)), encoding="utf-8")
    for name in MODELS:
        page.goto("about:blank")
        page.goto(f"{path.as_uri()}#{urlencode({'view': 'speech', 'run': runs.id(name), 'number': 1})}")
        page.wait_for_selector(f"{DRAWN}, .error")
        prediction = runs.model(name)(samples_of(runs, name, 1))
        assert page.locator(TEXT).inner_text() == prediction.text
        assert len(view_data(page, CANVAS)["letters"]) == len(prediction.text)
        assert page.get_by_role("button", name="record").count() == page.locator("input[type=file]").count() == 0
        assert "the microphone and your own files need" in page.locator("main").inner_text()
        page.get_by_role("button", name="play", exact=True).click()
        wait_until(page, f"document.querySelector('{CANVAS}').viewData.time > 0.1")
    page.goto("about:blank")
    page.goto(path.as_uri())
    page.wait_for_selector(f"{DRAWN}.view-speech {TEXT}")
    assert [each.url for each in page.monitor.requests if each.url.startswith("http")] == []


@pytest.mark.parametrize("name", MODELS)
def test_the_python_code_computes_what_is_shown(open_view, page, runs, monkeypatch, name):
    monkeypatch.chdir(runs_folder(runs))
    open_view("speech", run=name, number=1)
    shown = view_data(page, CANVAS)
    data = run_code(page, "Letters")["data"]
    assert [each.text for each in data.letters] == [each["text"] for each in shown["letters"]]
    np.testing.assert_allclose(
        [(each.start, each.end, each.probability) for each in data.letters],
        [(each["start"], each["end"], each["probability"]) for each in shown["letters"]],
        **EXACT,
    )
    spectrogram = run_code(page, "log-mel spectrogram")["spectrogram"]
    np.testing.assert_allclose(spectrogram.flatten(), shown["spectrogram"]["values"], **EXACT)
    probabilities = run_code(page, "probabilities of the tokens (dashed: blank)")["probabilities"]
    np.testing.assert_allclose(probabilities.flatten(), shown["probabilities"]["values"], **EXACT)
    if name == "speech-joint":
        attention = run_code(page, "attention of each letter over the sound")["attention"]
        np.testing.assert_allclose(attention.matrix.flatten(), shown["attention"]["values"], **EXACT)


def test_downloads_have_the_numbers_and_names_of_the_rows(open_view, page):
    open_view("speech", run="speech-joint", theme="dark")
    shown, downloads = view_data(page, CANVAS), page_downloads(page)
    titles = ["Speech", "log-mel spectrogram", "probabilities of the tokens (dashed: blank)"]
    assert list(downloads) == [*titles, "attention of each letter over the sound"]
    rows = downloads["Speech"].table
    assert rows[0] == ["letter", "start (s)", "end (s)", "probability"]
    assert [row[0] for row in rows[1:]] == [each["text"] for each in shown["letters"]]
    for name, part in zip(list(downloads)[1:], ("spectrogram", "probabilities", "attention"), strict=True):
        numbers = [float(cell) for row in downloads[name].table[1:] for cell in row[1:]]
        np.testing.assert_allclose(numbers, shown[part]["values"], **EXACT)
    for download in downloads.values():
        assert download.image[0, 0] == 255
        assert download.image.std() > 3
        assert "seconds" in download.texts
    assert {"wave", "recognized letters", *(each["text"] for each in shown["letters"])} <= set(
        downloads["Speech"].texts
    )


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(("width", "lang"), [(1280, "en"), (800, "zh"), (683, "en")])
def test_it_is_legible(open_view, page, width, lang):
    page.set_viewport_size({"width": width, "height": 900})
    for theme in ("light", "dark"):
        open_view("speech", run="speech-joint", lang=lang, theme=theme)
        assert readability(page) == {"small": [], "pale": [], "over": [], "wide": []}
