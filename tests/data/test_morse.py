"""Morse code: the marks can be read back from the keying, and from the sound."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from seq2see.core.seeds import generator
from seq2see.data.generated import morse
from seq2see.data.generated.morse import MORSE_CODE, Keying, MorseCorpus

RATE = 8000


@pytest.fixture
def exact(monkeypatch):
    """Keying without jitter: a dash has three dots."""
    monkeypatch.setattr(morse, "JITTER", 0.0)
    monkeypatch.setattr(morse, "DASH_UNITS", (3.0, 3.0))
    monkeypatch.setattr(morse, "MARGIN_SECONDS", (0.5, 0.5))


def test_paris_has_43_units_and_the_gap_after_it_seven(exact):
    """The 50 units that define the speed: "PARIS" and the gap to the next word."""
    keying = Keying.of("paris e", 0.1, generator(0, "paris"))
    times = dict(zip(range(7), keying.times, strict=True))
    assert times[4][1] - times[0][0] == pytest.approx(4.3)
    assert times[5] == pytest.approx((times[4][1], times[6][0]))
    assert times[6][0] - times[4][1] == pytest.approx(0.7)
    assert keying.seconds == pytest.approx(0.5 + 5.0 + 0.1 + 0.5)


def test_dots_dashes_and_gaps_have_one_three_and_three_units(exact):
    keying = Keying.of("an", 0.1, generator(0, "an"))  # .- -.
    edges = (keying.marks - 0.5) / 0.1
    np.testing.assert_allclose(edges, [[0, 1], [2, 5], [8, 11], [12, 13]], atol=1e-9)
    np.testing.assert_allclose(np.array(keying.times) - 0.5, [[0.0, 0.5], [0.8, 1.3]], atol=1e-9)


def test_every_code_occurs_once():
    assert len(set(MORSE_CODE.values())) == len(MORSE_CODE) == 36
    assert all(set(code) <= {".", "-"} for code in MORSE_CODE.values())
    assert MORSE_CODE["s"] + MORSE_CODE["o"] + MORSE_CODE["s"] == "...---..."


def decode(keying: Keying) -> str:
    """The text, read from the lengths of marks and gaps as an operator would."""
    lengths, gaps = np.diff(keying.marks)[:, 0], keying.marks[1:, 0] - keying.marks[:-1, 1]
    dot = np.median(gaps[gaps < 1.6 * gaps.min()]) if len(gaps) else lengths.min()
    letters = {code: letter for letter, code in MORSE_CODE.items()}
    text, code = "", ""
    for length, gap in zip(lengths, [*gaps, np.inf], strict=True):
        code += "." if length < 1.7 * dot else "-"
        if gap > 1.9 * dot:
            text, code = text + letters[code] + (" " if 4.6 * dot < gap < np.inf else ""), ""
    return text


def test_jittered_keying_is_still_readable():
    keyings = [Keying.sample(generator(1, "readable", number)) for number in range(200)]
    readable = [keying for keying in keyings if len(keying.marks) > 2]
    assert sum(decode(keying) == keying.text for keying in readable) > 0.9 * len(readable)


def test_the_noise_has_the_stated_power_and_the_tone_its_times(exact, monkeypatch):
    monkeypatch.setattr(morse, "FADING_DEPTH", 0.0)
    monkeypatch.setattr(morse, "PEAKS", (0.9, 0.9))
    keying = Keying.of("tttttttt", 0.2, generator(0, "t"))
    for snr_db in (-3.0, 0.0, 10.0):
        sound = keying.render(RATE, snr_db, generator(0, "render"))
        times = np.arange(len(sound)) / RATE
        down = np.zeros(len(sound), bool)
        for start, end in keying.marks:
            down |= (times > start + 0.01) & (times < end - 0.01)
        envelope = keying.envelope(times)
        assert (envelope[down] == 1).all()
        noise = np.square(sound[envelope == 0]).mean()
        tone = np.square(sound[down]).mean() - noise
        assert 10 * np.log10(tone / noise) == pytest.approx(snr_db, abs=0.7)
        assert np.abs(sound).max() == pytest.approx(0.9)


def test_a_recording_depends_on_its_number_alone():
    small, large = (MorseCorpus(size=size).recordings(RATE)[0] for size in (3, 9))
    assert small["train"].texts == large["train"].texts[:3]
    np.testing.assert_array_equal(small["train"].samples[2], large["train"].samples[2])
    assert small["test"].fingerprint == large["test"].fingerprint
    assert small["train"].fingerprint != large["train"].fingerprint
    assert (len(large["train"]), len(large["valid"]), len(large["test"])) == (9, 500, 500)


def test_most_training_texts_are_short_and_no_other_split_depends_on_that(monkeypatch):
    splits = MorseCorpus(size=400).recordings(RATE)[0]
    short = {name: sum(len(text) <= 2 for text in each.texts) / len(each) for name, each in splits.items()}
    # A text of one group, of which half have one or two letters: 1/6 of the others.
    assert short["train"] == pytest.approx(0.5 + 0.5 / 6, abs=0.07)
    assert short["test"] == pytest.approx(1 / 6, abs=0.06)
    monkeypatch.setattr(morse, "SHORT_SHARE", 0.2)
    assert MorseCorpus(size=1).recordings(RATE)[0]["test"].texts == splits["test"].texts


def test_lengths_are_known_before_a_recording_is_rendered():
    part = MorseCorpus(size=5).recordings(RATE)[0]["train"]
    assert [len(part.samples[index]) for index in range(5)] == part.lengths.tolist()
    for text, times, length in zip(part.texts, part.times, part.lengths, strict=True):
        assert len(times) == len(text)
        assert 0 < times[0][0] < times[-1][1] < length / RATE
        assert all(first[1] <= second[0] + 1e-9 for first, second in pairwise(times))


def test_the_ratio_changes_the_noise_and_not_the_texts():
    quiet, loud = (MorseCorpus(size=1, snr_db=snr).recordings(RATE)[0]["test"] for snr in (30.0, -10.0))
    assert quiet.texts == loud.texts
    assert quiet.fingerprint != loud.fingerprint
    assert not np.array_equal(quiet.samples[0], loud.samples[0])


def test_there_is_no_digital_silence():
    part = MorseCorpus(size=4).recordings(RATE)[0]["test"]
    for index in range(4):
        blocks = part.samples[index][: part.lengths[index] // 80 * 80].reshape(-1, 80)
        assert np.abs(blocks).max(1).min() > 0


def test_training_recordings_have_ratios_from_3_db_less_to_24_db_more(monkeypatch):
    ratios: dict[str, list[float]] = {}
    monkeypatch.setattr(Keying, "render", lambda keying, rate, snr_db, rng: ratios[name].append(snr_db))
    splits = MorseCorpus(size=300, snr_db=-5.0).recordings(RATE)[0]
    for name, part in splits.items():
        ratios[name] = []
        for index in range(300):
            part.samples[index]
    assert (min(ratios["train"]), max(ratios["train"])) == pytest.approx((-8, 19), abs=0.3)
    assert set(ratios["valid"] + ratios["test"]) == {-5.0}


def test_a_tone_fades_to_half_of_its_loudness_at_most(exact):
    depths = []
    for seed in range(20):
        keying = Keying.of("t" * 23, 0.2, generator(0, "t"))
        sound = keying.render(RATE, 60.0, generator(seed, "fading"))
        peaks = [np.abs(sound[round(start * RATE) + 80 : round(end * RATE) - 80]).max() for start, end in keying.marks]
        depths.append(min(peaks) / max(peaks))
    assert min(depths) == pytest.approx(0.5, abs=0.06)
    assert max(depths) > 0.9
