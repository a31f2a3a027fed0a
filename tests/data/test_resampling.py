"""Resampling: tones stay where they are, and frequencies that the new rate cannot represent are removed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from sound_stubs import sine

from seq2see.data.resampling import resample

RATIOS = [Fraction(1, 6), Fraction(8000, 22050), Fraction(16000, 44100), Fraction(2), Fraction(100, 93), Fraction(3, 2)]


@pytest.mark.parametrize("ratio", RATIOS, ids=str)
def test_a_tone_stays_a_tone(ratio):
    rate = 48_000 if ratio < 1 else 8_000
    old, new = sine(0.5, 440, rate), resample(sine(0.5, 440, rate), ratio)
    assert len(new) == np.ceil(len(old) * ratio)
    middle = slice(len(new) // 5, -len(new) // 5)
    expected = 0.5 * np.sin(2 * np.pi * 440 * np.arange(len(new)) / (rate * float(ratio)))
    np.testing.assert_allclose(new[middle], expected[middle], atol=2e-3)


def test_a_frequency_above_half_of_the_new_rate_is_removed():
    """6,000 Hz sampled 8,000 times a second without a low-pass filter would be heard as 2,000 Hz."""
    old = sine(0.5, 6000, 48_000)
    assert np.abs(old[::6]).max() > 0.49
    assert np.abs(resample(old, Fraction(1, 6))[100:-100]).max() < 1e-3


@pytest.mark.parametrize("ratio", RATIOS, ids=str)
def test_a_constant_stays_constant(ratio):
    new = resample(np.full(4000, 0.25, np.float32), ratio)
    middle = slice(len(new) // 4, -len(new) // 4)
    np.testing.assert_allclose(new[middle], 0.25, atol=1e-5)


def test_an_equal_rate_changes_nothing():
    samples = sine(0.1)
    assert resample(samples, Fraction(1)) is samples


def test_a_ratio_of_two_primes_is_approximated():
    samples = sine(0.1, 440, 44_101)
    assert len(resample(samples, Fraction(7993, 44101))) == pytest.approx(len(samples) * 7993 / 44101, abs=1)


def test_an_impulse_keeps_its_time():
    samples = np.zeros(4800, np.float32)
    samples[2400] = 1
    assert int(resample(samples, Fraction(1, 6)).argmax()) == 400
    assert int(resample(samples, Fraction(3)).argmax()) == 7200
