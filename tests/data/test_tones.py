"""Synthetic tones: pitch and formants can be measured in the sound."""

from __future__ import annotations

import numpy as np
import pytest

from seq2see.core.seeds import generator
from seq2see.data.generated import tones
from seq2see.data.generated.tones import FORMANTS, TONES, ToneCorpus, Utterance, pulses, resonate

RATE = 8000
SPEAKER = Utterance(("a1",), ((0.1, 0.5),), (0.0,), 0.6, 120.0, 2.0, 1.0)


def pitch_of(sound: np.ndarray, rate: int = RATE) -> float:
    """The pitch by autocorrelation, between 80 and 170 Hz."""
    sound = sound - sound.mean()
    correlation = np.correlate(sound, sound, "full")[len(sound) - 1 :]
    lags = np.arange(rate // 170, rate // 80)
    return rate / lags[correlation[lags].argmax()]


def test_pulses_are_the_sum_of_their_harmonics():
    f0 = np.linspace(100, 130, 400)
    phase = 2 * np.pi * np.cumsum(f0) / RATE
    expected = sum(np.cos(k * phase) for k in range(1, int(4000 / 130) + 1))
    np.testing.assert_allclose(pulses(f0, RATE), expected, atol=1e-6)


def test_a_resonator_amplifies_its_frequency():
    impulse = np.zeros(8000)
    impulse[0] = 1
    spectrum = np.abs(np.fft.rfft(resonate(impulse, [700.0, 1500.0, 2500.0], RATE)))
    for formant in (700, 1500, 2500):
        around = spectrum[formant - 200 : formant + 200]
        assert abs(int(around.argmax()) - 200) < 20
    assert spectrum[700] > 5 * spectrum[1100]


def test_a_resonator_follows_its_difference_equation(monkeypatch):
    source = np.random.default_rng(0).standard_normal(2000)
    source[1000:] = 0
    c = -np.exp(-2 * np.pi * 80 / RATE)
    b = 2 * np.exp(-np.pi * 80 / RATE) * np.cos(2 * np.pi * 500 / RATE)
    output = np.zeros(2000)
    for n in range(2000):
        output[n] = (1 - b - c) * source[n] + b * output[n - 1] + c * output[n - 2]
    monkeypatch.setattr(tones, "BANDWIDTHS", (80.0,))
    monkeypatch.setattr(tones, "TILT_HERTZ", 1e12)
    np.testing.assert_allclose(resonate(source, [500.0], RATE), output, atol=1e-6)


@pytest.mark.parametrize("tone", TONES)
def test_the_pitch_of_a_tone_follows_its_levels(tone):
    f0 = SPEAKER.f0(tone, 101)
    levels = 3 + 6 * np.log2(f0[[0, 50, 100]] / 120)  # two semitones per level
    np.testing.assert_allclose(levels, TONES[tone], atol=1e-9)


@pytest.mark.parametrize("vowel", FORMANTS)
def test_the_pitch_of_a_syllable_can_be_measured(vowel):
    sound = SPEAKER.syllable(f"{vowel}1", 0.4, RATE, generator(0, "pitch"))
    middle = sound[1200:2000]
    assert pitch_of(middle) == pytest.approx(120 * 2 ** (4 / 12), rel=0.03)  # two levels above the mean, 4 semitones


def test_tones_2_and_4_rise_and_fall_in_the_sound():
    starts, ends = slice(300, 700), slice(2500, 2900)
    for tone, sign in (("2", 1), ("4", -1)):
        sound = SPEAKER.syllable(f"a{tone}", 0.4, RATE, generator(0, "tones"))
        assert sign * (pitch_of(sound[ends]) - pitch_of(sound[starts])) > 15


def test_a_shorter_tract_has_higher_formants():
    def centroid(tract: float) -> float:
        speaker = Utterance(("a1",), ((0.1, 0.5),), (0.0,), 0.6, 120.0, 2.0, tract)
        power = np.abs(np.fft.rfft(speaker.syllable("a1", 0.4, RATE, generator(0, "tract")))) ** 2
        return float((np.fft.rfftfreq(3200, 1 / RATE) * power).sum() / power.sum())

    assert centroid(0.8) < 0.92 * centroid(1.0) < 0.92 * 0.92 * centroid(1.2)


def test_texts_times_and_lengths_belong_together():
    part = ToneCorpus(size=20).recordings(RATE)[0]["train"]
    syllables = {syllable for text in part.texts for syllable in text.split()}
    assert syllables <= {vowel + tone for vowel in FORMANTS for tone in TONES}
    assert len(syllables) > 12
    for index, (text, times) in enumerate(zip(part.texts, part.times, strict=True)):
        sound = part.samples[index]
        assert len(sound) == part.lengths[index]
        assert len(times) == len(text)
        assert text.count(" ") == sum(letter == " " for letter in text)
        inside = np.zeros(len(sound), bool)
        for letter, (start, end) in zip(text, times, strict=True):
            if letter != " ":
                inside[round(start * RATE) : round(end * RATE)] = True
        assert np.square(sound[inside]).mean() > 4 * np.square(sound[~inside]).mean()


def test_a_recording_depends_on_its_number_alone():
    small, large = (ToneCorpus(size=size).recordings(RATE)[0] for size in (2, 7))
    assert small["train"].texts == large["train"].texts[:2]
    np.testing.assert_array_equal(small["train"].samples[1], large["train"].samples[1])
    assert small["valid"].fingerprint == large["valid"].fingerprint


def test_a_space_has_the_time_of_the_pause_and_a_letter_that_of_its_syllable():
    speaker = Utterance(("a1", "yi3"), ((0.2, 0.5), (0.7, 1.0)), (0.0, 0.0), 1.2, 120.0, 2.0, 1.0)
    assert speaker.text == "a1 yi3"
    assert speaker.times == ((0.2, 0.5), (0.2, 0.5), (0.5, 0.7), (0.7, 1.0), (0.7, 1.0), (0.7, 1.0))


def test_a_burst_ends_where_its_syllable_begins(monkeypatch):
    monkeypatch.setattr(tones, "SNR_DB", (300.0, 300.0))
    speaker = Utterance(("a1",), ((0.3, 0.6),), (0.05,), 0.8, 120.0, 2.0, 1.0)
    loud = np.flatnonzero(np.abs(speaker.render(RATE, generator(0, "burst"))) > 1e-4) / RATE
    assert loud.min() == pytest.approx(0.25, abs=0.005)
    assert loud.max() == pytest.approx(0.6, abs=0.005)


@pytest.mark.parametrize("snr_db", [15.0, 31.0])
def test_the_background_has_the_stated_power(snr_db, monkeypatch):
    monkeypatch.setattr(tones, "SNR_DB", (snr_db, snr_db))
    speaker = Utterance(("a1",), ((0.5, 2.5),), (0.0,), 3.0, 120.0, 2.0, 1.0)
    sound = speaker.render(RATE, generator(0, "background")).astype(np.float64)
    noise = np.square(np.concatenate([sound[: RATE // 2], sound[round(2.5 * RATE) :]])).mean()
    assert 10 * np.log10((np.square(sound).mean() - noise) / noise) == pytest.approx(snr_db, abs=0.7)
