"""Error rates of transcripts, with intervals over speakers; tones; times of letters."""

from __future__ import annotations

import pytest

from seq2see.metrics.speech_errors import (
    ToneErrors,
    edit_counts,
    error_rate,
    error_rates,
    is_toned,
    timing_errors,
    tone_errors,
)


def test_one_wrong_word_of_four_and_two_wrong_characters_of_fifteen():
    rates = error_rates(["the cat sat xn"], ["the cat sat on"])
    assert (rates["word"].value, rates["word"].edits, rates["word"].symbols) == (25.0, 1, 4)
    assert rates["character"].value == pytest.approx(100 / 14)


def test_insertions_can_exceed_one_hundred_percent():
    assert error_rate(edit_counts([["a", "b", "c"]], [["d"]])).value == 300


def test_the_rate_is_that_of_all_recordings_together_and_not_the_mean_of_their_rates():
    assert error_rate([(1, 1), (0, 9)]).value == 10


def test_one_speaker_has_no_interval_and_many_equal_ones_have_none_either():
    lonely = error_rate([(1, 2), (0, 2), (2, 2)], ["ann"] * 3)
    assert (lonely.low, lonely.high, lonely.groups) == (50, 50, 1)
    equal = error_rate([(1, 4)] * 20, [str(number) for number in range(20)])
    assert (equal.low, equal.high, equal.groups) == (25, 25, 20)


def test_the_interval_is_wider_over_speakers_than_over_recordings():
    """Two speakers, one always understood and one never: a new speaker could be either."""
    counts, speakers = [(0, 1)] * 50 + [(1, 1)] * 50, ["ann"] * 50 + ["bob"] * 50
    over_speakers, over_recordings = error_rate(counts, speakers), error_rate(counts)
    assert over_speakers.value == over_recordings.value == 50
    assert (over_speakers.low, over_speakers.high) == (0, 100)
    assert 35 < over_recordings.low < over_recordings.high < 65


def test_the_interval_depends_on_the_seed_alone():
    counts = [(number % 3, 5) for number in range(30)]
    assert error_rate(counts, seed=4) == error_rate(counts, seed=4)


def test_tones_are_told_apart_from_letters():
    outputs = ["ni3 hao2 ma5", "wo2", "ta1 men2"]
    references = ["ni3 hao3 ma5", "wo3 ai4", "ta1 de5"]
    assert tone_errors(outputs, references) == ToneErrors(syllables=7, edits=4, tone_edits=2)
    errors = tone_errors(outputs, references)
    assert errors.syllable_error_rate == pytest.approx(400 / 7)
    assert errors.tone_error_rate == pytest.approx(200 / 7)


@pytest.mark.parametrize(
    ("texts", "toned"), [(["ni3 hao3"], True), (["lü4"], True), (["hello"], False), (["a1 b"], False), ([], False)]
)
def test_toned_texts_are_recognized(texts, toned):
    assert is_toned(texts) == toned


def test_the_middle_of_a_letter_is_compared_with_the_letter():
    errors = timing_errors([(0.9, 1.1), (2.0, 2.4), (3.0, 3.0)], [(1.0, 1.5), (2.3, 2.6), (3.5, 4.0)], tolerance=0.15)
    assert errors.letters == 3
    assert errors.within == pytest.approx(200 / 3)
    assert errors.seconds == pytest.approx((0 + 0.1 + 0.5) / 3)
    assert timing_errors([], [], 0.1).letters == 0


def test_recordings_without_a_speaker_are_resampled_each_by_itself():
    counts = [(1, 2), (0, 2), (1, 2), (0, 2), (1, 2)]
    assert error_rate(counts, ["ann", "", "ann", "", ""]).groups == 4
    assert error_rate(counts, [""] * 5) == error_rate(counts)
    assert error_rate(counts).groups == 5


def test_the_interval_is_that_of_a_binomial_distribution_and_of_whole_samples():
    """400 recordings, a half of them wrong: 50 ± 1.96 · 2.5. Of two recordings, one may be drawn twice."""
    rate = error_rate([(number % 2, 1) for number in range(400)])
    assert (rate.low, rate.high) == pytest.approx((45.1, 54.9), abs=0.5)
    assert error_rate([(0, 9), (1, 1)]).high == 100
