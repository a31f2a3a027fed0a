"""Recordings as examples: stored or rendered, by index or by slice."""

from __future__ import annotations

import numpy as np
import pytest

from seq2see.data.examples import Example
from seq2see.data.recordings import RecordingExamples, RenderedSamples, StoredSamples, to_int16

SAMPLES = [np.array(each, np.float32) for each in ([0.5, -0.5, 0.25], [1.0], [-1.0, 0.125])]
STORED = StoredSamples.of(SAMPLES)
RENDERED = RenderedSamples.of(lambda number: SAMPLES[number], [3, 1, 2], "three recordings")
SOURCES = pytest.mark.parametrize("samples", [STORED, RENDERED], ids=["stored", "rendered"])


def recordings(samples) -> RecordingExamples:
    times = (((0.0, 0.1), (0.1, 0.2)), ((0.0, 0.5),), ((0.0, 0.1), (0.1, 0.2)))
    return RecordingExamples(samples, 10, ("ab", "c", "de"), ("1.wav", "2.wav", "3.wav"), ("x", "y", "x"), times)


@SOURCES
def test_a_recording_is_an_example_of_its_name_and_its_text(samples):
    examples = recordings(samples)
    assert len(examples) == 3
    assert examples[1] == Example("2.wav", "c", location="2.wav")
    assert [example.target for example in examples] == ["ab", "c", "de"]
    assert examples.lengths.tolist() == [3, 1, 2]
    for index, expected in enumerate(SAMPLES):
        np.testing.assert_allclose(examples.samples[index], expected, atol=1e-4)


@SOURCES
def test_a_slice_and_a_selection_are_recordings(samples):
    part = recordings(samples)[1:]
    assert (part.texts, part.names, part.speakers) == (("c", "de"), ("2.wav", "3.wav"), ("y", "x"))
    assert part.times[0] == ((0.0, 0.5),)
    np.testing.assert_allclose(part.samples[1], SAMPLES[2], atol=1e-4)
    other = part.select([1, 0])
    assert other.texts == ("de", "c")
    assert other.lengths.tolist() == [2, 1]
    np.testing.assert_allclose(other.samples[0], SAMPLES[2], atol=1e-4)


@SOURCES
def test_the_fingerprint_depends_on_samples_texts_and_order(samples):
    whole = recordings(samples)
    assert whole.fingerprint == recordings(samples).fingerprint
    changed = RecordingExamples(samples, 10, ("ab", "c", "dx"), whole.names)
    others = [whole[1:], whole.select([1, 0, 2]), changed]
    assert len({whole.fingerprint, *(each.fingerprint for each in others)}) == 4
    louder = RecordingExamples(StoredSamples.of([2 * SAMPLES[2], *SAMPLES[:2]]), 10, whole.texts, whole.names)
    assert louder.fingerprint != whole.fingerprint


def test_the_fingerprint_of_rendered_recordings_depends_on_their_settings_numbers_and_lengths():
    def fingerprint(description: str, order: list[int], length: int = 3) -> str:
        samples = RenderedSamples.of(lambda number: SAMPLES[0], [3, length], description)
        return samples.select(np.array(order)).fingerprint

    others = [fingerprint("a", [1, 0]), fingerprint("b", [0, 1]), fingerprint("a", [0, 1], length=5)]
    assert len({fingerprint("a", [0, 1]), *others}) == 4


def test_different_numbers_of_texts_and_recordings_are_an_error():
    with pytest.raises(ValueError, match="differ in number"):
        RecordingExamples(STORED, 10, ("ab", "c"), ("1", "2", "3"))
    with pytest.raises(ValueError, match="differ in number"):
        RecordingExamples(STORED, 10, ("ab", "c", "d"), ("1", "2", "3"), ("x",))


def test_samples_beyond_full_scale_are_clipped():
    assert to_int16(np.array([2.0, 1.0, 0.5, 0.0, -3.0], np.float32)).tolist() == [32767, 32767, 16384, 0, -32767]
