"""Speech recognizers in Python: times, warnings, and scores, of tiny models with random weights."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sound_models import RATE, recordings, sound_model

from seq2see.core.errors import UserError
from seq2see.data.recordings import RecordingExamples, StoredSamples
from seq2see.decoding.ctc import CTCPrefixModel, TimedToken
from seq2see.tasks.speech_scores import score_recordings, speech_sections
from seq2see.tasks.transcriber import Letter
from tiny_runs import tones

SOUND = recordings("abca").samples[0]


def test_a_vector_has_the_time_around_its_middle_and_none_is_after_the_last_frame():
    """At 4,000 Hz a frame has 25 ms, one every 10 ms; vector n is around the frame 4 n."""
    model = sound_model("ctc")
    assert model.seconds(TimedToken(5, 2, 4, 0.0), frames=16) == pytest.approx((0.0725, 0.1525))
    assert model.seconds(TimedToken(5, 0, 1, 0.0), frames=16) == pytest.approx((0.0, 0.0325))
    assert model.seconds(TimedToken(5, 2, 4, 0.0), frames=13) == pytest.approx((0.0725, 0.12 + 0.025))


def test_a_long_recording_has_a_warning_and_several_channels_are_refused():
    model, minute = sound_model("ctc"), np.resize(tones("ab"), 60 * RATE)
    assert model.warnings(minute) == ()
    (warning,) = model.warnings(np.append(minute, minute[:2000]))
    assert warning.startswith("the recording has 60 s, much more")
    with pytest.raises(UserError, match=r"the shape \(2, 2000\)"):
        model(minute[:4000].reshape(2, 2000))


@torch.no_grad()
@pytest.mark.parametrize("weight", [0.0, 0.2, 0.7])
def test_the_score_of_joint_decoding_is_the_weighted_sum_of_both_models(weight):
    model = sound_model("joint")
    best = model(SOUND, ctc_weight=weight, num_beams=1, max_new_tokens=40).outputs[0]
    batch = model.named_batch(SOUND, best.text).batch
    decoder = model.module(batch)[0].log_softmax(-1)
    labels = batch.labels[0, : best.length + best.finished]
    frames = CTCPrefixModel(model.module, model.module.head.ctc)
    ctc = frames.step(batch.target.values, frames.start(batch.source, 1, 41))[0][0].log_softmax(-1)
    scores = (1 - weight) * decoder + weight * ctc
    expected = scores[range(len(labels)), labels].sum()
    assert best.log_probability == pytest.approx(float(expected), abs=1e-3)


@torch.no_grad()
def test_the_score_of_a_best_path_is_the_sum_over_its_frames_and_its_tokens_have_their_own():
    model = sound_model("ctc")
    best, scores = model(SOUND, num_beams=1).outputs[0], model.frame_scores(SOUND)
    assert best.score == pytest.approx(float(scores.max(1).sum()), abs=1e-4)
    assert len(model(SOUND, num_beams=5, num_return_sequences=3).outputs) == 3
    assert len(model(SOUND, num_beams=5).outputs) == 1


class Aligner:
    """A model that finds a letter 20 ms after its true time, a space anywhere, and no time for "dd"."""

    log_mel = SimpleNamespace(hop_seconds=0.01)

    def output(self) -> Any:
        return SimpleNamespace(aligns=True)

    def align(self, sound: Any, text: str) -> tuple[Letter, ...]:
        return () if text == "dd" else tuple(
            Letter(letter, 5.0, 7.0, 1.0) if letter == " " else Letter(letter, index + 0.12, index + 0.12, 1.0)
            for index, letter in enumerate(text)
        )  # fmt: skip


def test_scores_group_speakers_and_leave_out_spaces_and_texts_without_times():
    texts = ("a b", "c", "dd")
    times = tuple(tuple((float(index), index + 0.1) for index, _ in enumerate(text)) for text in texts)
    samples = StoredSamples.of([np.zeros(3, np.float32)] * 3)
    examples = RecordingExamples(samples, RATE, texts, ("1", "2", "3"), ("ann", "ann", "bob"), times)
    scores = score_recordings(["a b", "x", "dd"], examples, Aligner())
    assert (scores["word_error_rate"]["value"], scores["word_error_rate"]["groups"]) == (25, 2)
    assert scores["timing"] == {"letters": 3, "within": 100.0, "seconds": pytest.approx(0.02)}


def test_the_report_begins_with_the_worst_transcripts():
    rows = [[str(number), "ab", "b", f"{number % 7 / 7:.4f}", "-1.0"] for number in range(13)]
    results: Any = SimpleNamespace(scores={}, figures=(), rows=lambda split, count: rows)
    (table,) = speech_sections(results)[-1].parts
    assert [row[0] for row in table.rows] == ["6", "5", "12", "4", "11", "3", "10", "2", "9", "1"]
    assert [row[3] for row in table.rows][:2] == ["86", "71"]
