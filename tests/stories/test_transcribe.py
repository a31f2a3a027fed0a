"""From recordings to a speech recognizer: train, stop, resume, evaluate, predict, transcribe, report, explore."""

from __future__ import annotations

import io
import json
import sys
import wave
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_recipes import stop_and_resume, tiny_recipe

import seq2see
from seq2see.cli.app import run as command
from seq2see.cli.transcribe import _live
from seq2see.core.errors import UserError
from seq2see.data.generated import morse
from seq2see.data.sound_augmentation import SoundAugmentation
from seq2see.decoding.speech_settings import SpeechDecoding
from seq2see.explorer.routes import describe_run
from seq2see.explorer.workspace import Workspace
from seq2see.metrics.speech_errors import error_rates
from seq2see.runs.evaluate import evaluate, evaluated_rows
from seq2see.runs.make_ensemble import make_ensemble
from seq2see.runs.report import write_report
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.train import NullListener, train_recipe
from seq2see.tasks.live_transcript import LiveTranscript
from seq2see.tasks.model_folder import Recipe
from seq2see.tasks.speech_figures import recording_data
from seq2see.tasks.task import task_of
from seq2see.tasks.transcriber import Transcriber, batches_of

OUTPUTS = (
    "transcribe", "transcribe-attention", "transcribe-joint", "transcribe-transducer", "transcribe-transducer-attention"
)  # fmt: skip
SMALL = {
    "corpus.size": 24,
    "source.bands": 16,
    "source.sampling_rate": 4000,
    "source.embedding.channels": 4,
    "training.batch_tokens": 3000,
    "decoding.max_new_tokens": 12,
}


@pytest.fixture(autouse=True)
def few_recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten recordings in valid and test."""
    monkeypatch.setattr(morse, "HELD_OUT", 10)


def tiny(name: str = "transcribe", **changes) -> Recipe:
    return tiny_recipe(None, name, **(SMALL | changes))


@pytest.fixture(scope="module", params=OUTPUTS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A finished and evaluated run with each output."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(morse, "HELD_OUT", 10)
        folder = train_recipe(tiny(request.param), tmp_path_factory.mktemp("runs") / request.param, NullListener())
        evaluate(folder)
        write_report(folder)
    return folder


def write_wav(path: Path, samples: np.ndarray, rate: int = 4000) -> Path:
    path.parent.mkdir(exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((samples * 32767).astype("<i2").tobytes())
    return path


def keyed(seconds: float = 1.5) -> np.ndarray:
    """A tone that is switched on and off."""
    times = np.arange(round(4000 * seconds)) / 4000
    return (np.sin(2 * np.pi * 600 * times) * (times % 0.3 < 0.15) * 0.3).astype(np.float32)


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_stopped_run_resumes_to_the_same_bytes(name, tmp_path):
    stop_and_resume(tiny(name), tmp_path)


def test_augmentation_resumes_to_the_same_bytes_too(tmp_path):
    augmentation = SoundAugmentation(speed=0.1, noise_db=5.0, time_masks=1)
    stop_and_resume(tiny(augmentation=augmentation), tmp_path)


def test_an_evaluation_has_error_rates_with_intervals(run: RunFolder):
    scores = json.loads((run.evaluation / "scores.json").read_text())["test"]
    assert scores["recordings"] == 10
    for unit in ("character", "word"):
        rate = scores[f"{unit}_error_rate"]
        assert 0 <= rate["low"] <= rate["value"] <= rate["high"]
        assert rate["groups"] == 10
    rows = (run.evaluation / "test.tsv").read_text().splitlines()
    assert rows[0] == "recording\treference\toutput\tcharacter_errors\tscore"
    assert len(rows) == 11
    assert (run.evaluation / "recordings.png").stat().st_size > 5000


def test_letters_are_aligned_where_the_output_has_times(run: RunFolder):
    scores = json.loads((run.evaluation / "scores.json").read_text())["test"]
    has_times = run.recipe().target.kind != "text"
    assert ("timing" in scores) == has_times
    model = seq2see.load(run.path)
    assert isinstance(model, Transcriber)
    letters = model.align(keyed(), "e e")
    assert [each.text for each in letters] == (["e", "▁", "e"] if has_times else [])
    for first, second in pairwise(letters):
        assert 0 <= first.start < first.end <= 1.6
        assert first.start <= second.start
        assert 0 < first.probability <= 1


def test_a_prediction_is_equal_for_samples_a_file_and_a_batch(run: RunFolder, tmp_path: Path):
    model = seq2see.load(run.path)
    long = keyed(2.3)
    file = write_wav(tmp_path / "long.wav", long)
    samples = np.round(long * 32767).astype(np.float32) / 32767
    together = [each.text for each in model.predict([keyed(0.7), samples, keyed(1.1)])]
    assert together[1] == model(str(file)).text
    assert together == [model(each).text for each in (keyed(0.7), samples, keyed(1.1))]


def test_beam_search_has_several_outputs_best_first(run: RunFolder):
    model = seq2see.load(run.path)
    outputs = model(keyed(), num_beams=4, num_return_sequences=3).outputs
    scores = [each.score for each in outputs]
    assert scores == sorted(scores, reverse=True)
    assert len({each.text for each in outputs}) == len(outputs) > 1


def test_the_probability_of_a_text_is_below_one(run: RunFolder):
    model = seq2see.load(run.path)
    assert model.score(keyed(), "et") < 0
    sound = keyed(0.205)  # 19 frames, 5 vectors
    needs_vectors = run.recipe().target.kind.startswith("ctc")
    for text, possible in (("etete", True), ("etetet", False), ("ete", True), ("eee", True), ("eeee", False)):
        assert (
            -np.inf < model.score(sound, text) < 0
            if possible or not needs_vectors
            else model.score(sound, text) == -np.inf
        )


def test_the_report_shows_rates_recordings_and_the_worst_transcripts(run: RunFolder):
    page = (run.path / "report.html").read_text(encoding="utf-8")
    for text in ("word error rate %", "词错误率 %", "95 % interval", "Recordings", "wrong characters %"):
        assert text in page
    assert page.count("data:image/png") == 3  # the first batch, curves, and recordings


def test_the_explorer_opens_it_and_shows_its_mistakes(run: RunFolder):
    workspace = Workspace.open([str(run.path)])
    described = describe_run(workspace.run("r1"))
    assert described["views"] == ["runs", "speech", "mistakes", "architecture"]
    assert described["family"] in ("ctc", "attention", "ctc-attention", "transducer", "transducer-attention")
    rows = evaluated_rows(run, workspace.run("r1").model, "test")
    assert len(rows) == 10
    assert all(row.quality <= 0 for row in rows)


def test_a_recording_is_plain_data_for_a_page(run: RunFolder):
    model = seq2see.load(run.path)
    data = recording_data(model, keyed(), "et")
    np.testing.assert_array_equal(data.samples, keyed())
    np.testing.assert_array_equal(data.spectrogram, model.encode_sound(keyed()).features)
    assert data.spectrogram.shape[1] == 16
    assert [each.text for each in data.letters] == ["e", "t"]
    attends = run.recipe().decoder is not None and run.recipe().decoder.attention != "none"
    assert (data.attention is not None) == attends
    vectors = -(-len(data.spectrogram) // 4)
    if attends:
        assert data.attention.shape == (len(data.queries), vectors)
        assert data.attention[0].sum() == pytest.approx(1, abs=0.01)
    assert (data.probabilities is not None) == run.recipe().target.kind.startswith("ctc")
    if data.probabilities is not None:
        assert data.probabilities.shape == (vectors, len(data.vocabulary))


def test_the_verb_transcribe_prints_files_folders_times_and_json(run: RunFolder, tmp_path: Path, capsys):
    first, second = write_wav(tmp_path / "a" / "one.wav", keyed()), write_wav(tmp_path / "a" / "two.wav", keyed(0.9))
    model = seq2see.load(run.path)
    text = model(str(first)).text
    assert command(["transcribe", str(run.path), str(first)]) == 0
    assert capsys.readouterr().out == f"{text}\n"
    assert command(["transcribe", str(run.path), str(tmp_path / "a")]) == 0
    assert capsys.readouterr().out == f"{first}\t{text}\n{second}\t{model(str(second)).text}\n"
    assert command(["transcribe", str(run.path), str(first), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["text"] == text
    assert command(["predict", str(run.path), str(first)]) == 0
    assert capsys.readouterr().out.rstrip("\n") == text
    assert command(["transcribe", str(run.path), str(first), "--rate", "8000"]) == 2
    assert "--rate is for a pipe" in capsys.readouterr().err
    assert command(["transcribe", str(run.path), str(tmp_path / "missing.wav")]) == 2
    assert "missing.wav" in capsys.readouterr().err


def test_a_bad_file_of_a_folder_and_an_empty_folder_are_named(run: RunFolder, tmp_path: Path, capsys):
    good = write_wav(tmp_path / "a" / "good.wav", keyed(0.7))
    (tmp_path / "a" / "bad.wav").write_bytes(b"RIFF")
    assert command(["transcribe", str(run.path), str(tmp_path / "a")]) == 2
    output = capsys.readouterr()
    assert output.out.startswith(f"{good}\t")
    assert "bad.wav" in output.err
    (tmp_path / "b").mkdir()
    assert command(["transcribe", str(run.path), str(tmp_path / "b")]) == 2
    assert "There is no sound file in this folder" in capsys.readouterr().err


def test_the_validation_has_the_mean_loss_of_a_token_and_the_share_of_wrong_characters(run: RunFolder):
    recipe, model = run.recipe(), seq2see.load(run.path)
    task, valid = task_of(recipe), recipe.corpus.recordings(4000)[0]["valid"][:7]
    loss, metrics = task.validate(model.module, task.dataset(recipe, model.tokenizers, valid), lambda: None)
    samples = [valid.samples[index] for index in range(7)]
    total = -sum(model.score(each, text) for each, text in zip(samples, valid.texts, strict=True))
    assert loss == pytest.approx(total / sum(len(text) + 1 for text in valid.texts), rel=1e-2)
    settings = SpeechDecoding(ctc_weight=0).model_dump()
    outputs = [each.text for each in model.predict(samples, **settings)]
    rate = error_rates(outputs, valid.texts)["character"].value / 100
    assert metrics == {"valid_character_error_rate": pytest.approx(rate, abs=0.05)}


def test_a_recording_that_is_too_loud_has_a_warning(run: RunFolder, tmp_path: Path, capsys):
    loud = write_wav(tmp_path / "loud.wav", (30 * keyed()).clip(-1, 1))
    model = seq2see.load(run.path)
    assert ["clipped recording" in each for each in model(str(loud)).warnings] == [True]
    assert model(str(write_wav(tmp_path / "fine.wav", keyed()))).warnings == ()
    assert command(["transcribe", str(run.path), str(loud)]) == 0
    assert "loud.wav: clipped recording" in capsys.readouterr().err


def test_from_a_pipe_letters_are_committed_as_they_come(run: RunFolder, capsys, monkeypatch):
    content = (keyed(3.0) * 32767).astype("<i2").tobytes()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    code = command(["transcribe", str(run.path), "-"])
    if run.recipe().decoder is not None and run.recipe().target.kind != "transducer":
        assert code == 2
        assert "needs the whole recording" in capsys.readouterr().err
    else:
        assert code == 0
        assert capsys.readouterr().out.endswith("\n")
    for rate in ("-1", "0", "3999", "384001"):
        assert command(["transcribe", str(run.path), "-", "--rate", rate]) == 2
        if code == 0:
            assert f"Sound with {int(rate):,} samples per second is not supported" in capsys.readouterr().err
    for option in (["--times"], ["--json"], ["--set", "decoding.num_beams=2"]):
        assert command(["transcribe", str(run.path), "-", *option]) == 2
        assert "have no effect on a pipe" in capsys.readouterr().err


class Ruler:
    """A model whose tokens are known: number n from n to n + 0.5 s of the whole sound, whatever the window."""

    def __init__(self):
        self.rate, self.heard = 100, 0.0
        self.tokenizers = SimpleNamespace(target=SimpleNamespace(decode=lambda ids: "".join(map(str, ids))))

    def output(self):
        return SimpleNamespace(live=True)

    def timed_tokens(self, samples):
        start, end = samples[0], samples[-1]  # the samples are their own times
        return [(n, n - start, n + 0.5 - start) for n in range(20) if start <= n and n + 0.5 <= end]


def test_live_letters_are_committed_once_and_in_order():
    live = LiveTranscript(Ruler())  # type: ignore[arg-type]
    times, pieces = np.arange(0, 19.9, 0.01, np.float32), []
    for start in range(0, len(times), 20):
        pieces.append(live.feed(times[start : start + 20]))
        horizon = times[min(start + 20, len(times)) - 1] - 0.6
        assert live.text == "".join(str(n) for n in range(20) if n + 0.25 <= horizon + 0.011)
    pieces.append(live.finish())
    assert "".join(pieces) == live.text == "".join(map(str, range(20)))
    assert len(live.window) <= 800


def test_live_sound_may_be_integers_and_too_little_of_it_has_no_text():
    live = LiveTranscript(Ruler())  # type: ignore[arg-type]
    assert live.finish() == live.feed(np.array([16384, -32768], np.int16)) == live.finish() == ""
    assert live.window.tolist() == [0.5, -1.0]


class OddPipe(io.BytesIO):
    """A pipe that gives an odd number of bytes at a time: the second half of a sample comes later."""

    def read1(self, size=-1):
        return super().read1(7)


def test_half_a_sample_of_a_pipe_waits_for_its_other_half(monkeypatch):
    samples, heard = np.arange(-50, 51, dtype="<i2"), []
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=OddPipe(samples.tobytes())))
    monkeypatch.setattr(LiveTranscript, "feed", lambda live, part: heard.extend(part.tolist()) or "")
    _live(Ruler(), None)  # type: ignore[arg-type]
    assert heard == samples.tolist()


def test_the_frames_of_a_batch_are_counted_with_their_padding():
    """At most 16,000 frames: three rows of 5,334 are too many, as are three of 8,000."""
    assert list(batches_of([3, 8000, 7999, 5333, 5334])) == [[0, 3], [4, 2], [1]]
    assert list(batches_of([8000, 8000])) == [[0, 1]]
    assert list(batches_of([])) == []


def test_recordings_too_short_for_their_text_are_refused_by_name(tmp_path: Path):
    folder = tmp_path / "sounds"
    for index in range(24):
        write_wav(folder / f"{index}.wav", keyed(0.6 + index / 50))
    write_wav(folder / "short.wav", keyed(0.2))
    rows = [f"{index}.wav\tet" for index in range(24)] + ["short.wav\ta much longer text"]
    (folder / "recordings.tsv").write_text("file\ttext\n" + "\n".join(rows) + "\n")
    recipe = tiny_recipe(folder, "transcribe", **{k: v for k, v in SMALL.items() if k != "corpus.size"})
    with pytest.raises(UserError, match=r"too short") as error:
        train_recipe(recipe.with_(**{"corpus.on_error": "error"}), tmp_path / "run", NullListener())
    assert "short.wav" in str(error.value)


def test_a_language_model_changes_the_search(run: RunFolder, tmp_path: Path):
    text = tmp_path / "text.txt"
    text.write_text("eeee ttt eeee\n" * 300)
    language_model = train_recipe(tiny_recipe(text, "ngram"), tmp_path / "ngram", NullListener())
    model = seq2see.load(run.path)
    if run.recipe().target.kind == "transducer":
        with pytest.raises(UserError, match="language model"):
            model(keyed(), num_beams=2, language_model=str(language_model.path))
        return
    alone = model(keyed(), num_beams=3)
    fused = model(keyed(), num_beams=3, language_model=str(language_model.path), language_model_weight=3.0)
    assert set(fused.text) <= set("et ")
    assert fused.score != alone.score
    with pytest.raises(UserError, match="no language model"):
        model(keyed(), language_model=str(run.path))


def test_other_engines_prefixes_and_ensembles_are_refused(run: RunFolder, tmp_path: Path):
    with pytest.raises(UserError, match="no prefix"):
        seq2see.load(run.path)(keyed(), prefix="e")
    with pytest.raises(UserError, match="no ensembles"):
        make_ensemble([run, run], tmp_path / "both")


def test_no_format_holds_a_speech_recognizer(run: RunFolder, tmp_path: Path, capsys):
    for form in ("onnx", "hf", "ct2"):
        assert command(["export", str(run.path), "--to", form, "--out", str(tmp_path / form)]) == 2
        assert "cannot be exported yet" in capsys.readouterr().err


def test_an_impossible_recipe_is_refused():
    with pytest.raises(UserError, match="has no \\[decoder\\]"):
        tiny("transcribe-attention", **{"target.kind": "ctc"})
    with pytest.raises(UserError, match="needs attention to the sound"):
        tiny("transcribe-attention", **{"decoder.attention": "none"})


@pytest.mark.parametrize("name", ["transcribe", "transcribe-transducer"])
def test_label_smoothing_without_an_effect_is_refused(name: str):
    with pytest.raises(UserError, match="leave out"):
        tiny(name, **{"objective.label_smoothing": 0.1})
    smoothed = tiny("transcribe-joint", **{"objective.label_smoothing": 0.1})
    assert task_of(smoothed).objective(smoothed).label_smoothing == 0.1


def test_letters_have_times_even_if_the_model_samples(run: RunFolder):
    model = seq2see.load(run.path)
    timed = model.timed_tokens(keyed())
    sampling = model.config.decoding.with_(do_sample=True)
    model.config = model.config.model_copy(update={"decoding": sampling})
    assert model.timed_tokens(keyed()) == timed
