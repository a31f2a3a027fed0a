"""Log-mel features against their formula, computed here by a direct discrete Fourier transform, and by librosa."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
import torch
from sound_stubs import noise, sine

from seq2see.core.errors import UserError
from seq2see.data.log_mel import LogMel, mel, mel_bank, mel_frequency, normalize, warped

SETTINGS = [(8000, 40), (16000, 80), (22050, 64)]


def powers_by_definition(samples: np.ndarray, window_length: int, hop: int) -> np.ndarray:
    """P[t, k] = |sum_n w[n] x[t hop + n] e^(-2 pi i k n / N)|^2 / sum_n w[n]^2, term by term."""
    n = np.arange(window_length)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * n / window_length)
    matrix = np.exp(-2j * np.pi * np.outer(np.arange(window_length // 2 + 1), n) / window_length)
    starts = range(0, len(samples) - window_length + 1, hop)
    frames = np.stack([samples[start : start + window_length] * window for start in starts])
    return np.abs(frames @ matrix.T) ** 2 / (window**2).sum()


@pytest.mark.parametrize("rate, bands", SETTINGS)
def test_the_features_follow_their_formula(rate, bands):
    samples = noise(0.13, rate=rate) + sine(0.13, 700, rate)
    samples[len(samples) // 2 :] *= 0.1
    log_mel = LogMel(rate, bands)
    powers = powers_by_definition(samples.astype(np.float64), round(0.025 * rate), round(0.01 * rate))
    np.testing.assert_allclose(log_mel.spectrum(samples).numpy(), powers, rtol=1e-3, atol=1e-7)
    means = powers @ mel_bank(rate, bands, round(0.025 * rate)).double().numpy()
    expected = np.log(means + 1e-6 * means.max() + 1e-14)
    np.testing.assert_allclose(log_mel.log_powers(samples).numpy(), expected, atol=1e-3)
    weights = np.sqrt(np.exp(expected).sum(1, keepdims=True))
    centered = expected - np.average(expected, 0, weights[:, 0])
    deviation = np.sqrt((weights * centered**2).sum() / weights.sum() / bands)
    np.testing.assert_allclose(log_mel.features(samples).numpy(), centered / deviation, atol=1e-3)


def test_a_long_pause_hardly_changes_the_features_of_the_sound():
    gap = np.zeros(1600, np.float32)
    sound = np.concatenate([sine(0.2, 300), gap, sine(0.2, 900)]) + noise(0.6, scale=0.001)
    log_mel = LogMel(8000, 40)
    longer = np.concatenate([sound, noise(2, 1, scale=0.001)])
    first, second = log_mel.features(sound), log_mel.features(longer)[:58]
    assert (second - first).square().mean() < 0.05 * first.square().mean()
    # Without weights the pause would shift all features.
    assert (log_mel.log_powers(longer).mean(0) - log_mel.log_powers(sound).mean(0)).abs().mean() > 1


@pytest.mark.parametrize("rate, bands", SETTINGS)
def test_librosa_has_equal_bands_and_powers(rate, bands):
    librosa = pytest.importorskip("librosa")
    window_length, hop = round(0.025 * rate), round(0.01 * rate)
    bank = librosa.filters.mel(sr=rate, n_fft=window_length, n_mels=bands, htk=False, norm=1)
    np.testing.assert_allclose(mel_bank(rate, bands, window_length).T.numpy(), bank, atol=1e-5)
    samples = noise(0.2, rate=rate)
    spectrum = librosa.stft(samples, n_fft=window_length, hop_length=hop, window="hann", center=False)
    means = bank @ np.abs(spectrum) ** 2 / (librosa.filters.get_window("hann", window_length) ** 2).sum()
    expected = np.log(means.T + 1e-6 * means.max() + 1e-14)
    np.testing.assert_allclose(LogMel(rate, bands).log_powers(samples).numpy(), expected, atol=1e-3)


def test_the_mel_scale_is_that_of_slaney():
    assert mel(0) == 0
    assert mel(500) == 7.5
    assert mel(1000) == 15
    assert mel(6400) == pytest.approx(42)
    assert [mel_frequency(mel(frequency)) for frequency in (30, 999, 1001, 5000)] == pytest.approx(
        [30, 999, 1001, 5000]
    )


@pytest.mark.parametrize("rate, bands", SETTINGS)
def test_every_band_is_a_weighted_mean_and_its_neighbors_overlap(rate, bands):
    bank = mel_bank(rate, bands, round(0.025 * rate)).numpy()
    assert bank.shape == (round(0.025 * rate) // 2 + 1, bands)
    np.testing.assert_allclose(bank.sum(0), 1, rtol=1e-5)
    assert (bank >= 0).all()
    peaks = bank.argmax(0)
    assert (np.diff(peaks) >= 0).all()
    assert peaks[0] < 3 < peaks[-1]


def test_white_noise_has_its_variance_in_every_band():
    samples = noise(60, scale=0.1)
    powers = LogMel(8000, 40).log_powers(samples).exp().mean(0)
    np.testing.assert_allclose(powers.numpy(), 0.01, rtol=0.1)


def test_a_tone_is_loudest_in_the_band_of_its_frequency():
    log_mel = LogMel(8000, 40)
    for hertz in (300, 1000, 2500):
        loudest = int(log_mel.log_powers(sine(0.2, hertz)).mean(0).argmax())
        assert loudest == round(41 * mel(hertz) / mel(4000)) - 1


def test_a_louder_copy_has_equal_features():
    samples, log_mel = noise(0.3) + sine(0.3), LogMel(8000, 40)
    torch.testing.assert_close(log_mel.features(samples), log_mel.features(samples / 50), atol=2e-3, rtol=0)


def test_digital_silence_and_a_background_60_db_below_the_sound_have_almost_equal_features():
    log_mel, gap = LogMel(8000, 40), slice(30, 60)
    with_silence = np.concatenate([sine(0.3), np.zeros(2400, np.float32), sine(0.3)])
    with_noise = with_silence + noise(0.9, scale=1e-5)
    first, second = log_mel.log_powers(with_silence)[gap], log_mel.log_powers(with_noise)[gap]
    floor = float(log_mel.log_powers(with_silence).exp().max()) * 1e-6
    assert first.min() == pytest.approx(log(floor), abs=0.01)
    assert (first - second).abs().max() < 0.1


def test_frames_are_counted_as_they_are_computed():
    log_mel = LogMel(8000, 40)
    for samples, frames in ((200, 1), (279, 1), (280, 2), (8000, 98)):
        assert log_mel.frames(samples) == frames == len(log_mel.features(noise(samples / 8000)))
    assert log_mel.frames(199) == 0
    assert log_mel.frame_time(0) == 0.0125
    assert log_mel.frame_time(10) == pytest.approx(0.1125)


def test_a_recording_shorter_than_a_frame_is_named():
    with pytest.raises(UserError, match="has 199 samples, and one frame needs 200"):
        LogMel(8000, 40).features(noise(199 / 8000))


def test_too_many_bands_are_named():
    with pytest.raises(UserError, match="Of 128 bands at 8,000 Hz, band 1 contains no frequency"):
        LogMel(8000, 128)


def test_silence_has_features_of_zero():
    assert LogMel(8000, 40).features(np.zeros(800, np.float32)).abs().max() < 0.01
    assert normalize(torch.full((3, 5), 2.0)).abs().max() < 0.01


def test_a_warp_moves_frequencies_and_keeps_both_ends():
    frequencies = np.array([0.0, 1000.0, 2000.0, 3000.0, 4000.0])
    # Linear up to 0.3 * 8000 / 1.2 = 2000 Hz, which becomes 2400 Hz; from there to the fixed point at 4000 Hz.
    np.testing.assert_allclose(warped(frequencies, 1.2, 8000), [0, 1200, 2400, 3200, 4000])
    # Linear up to 0.3 * 8000 = 2400 Hz, which becomes 1920 Hz.
    np.testing.assert_allclose(warped(frequencies, 0.8, 8000), [0, 800, 1600, 2700, 4000])
    np.testing.assert_allclose(warped(frequencies, 1.0, 8000), frequencies)
    shifted = warped(np.linspace(0, 4000, 101), 0.8, 8000)
    assert (np.diff(shifted) > 0).all()
    assert shifted[-1] == 4000


def test_a_warp_shifts_a_tone_to_another_band():
    log_mel, samples = LogMel(8000, 40), sine(0.2, 1000)
    bands = [int(log_mel.log_powers(samples, warp).mean(0).argmax()) for warp in (0.8, 1.0, 1.2)]
    assert bands[0] > bands[1] > bands[2]


def test_the_frequencies_of_the_bands_are_their_peaks():
    assert LogMel(2000, 2).frequencies == pytest.approx([1000 / 3, 2000 / 3])  # a third and two thirds of 15 mel
    log_mel = LogMel(8000, 40)
    for band in (9, 21, 33):
        tone = np.sin(2 * np.pi * log_mel.frequencies[band] * np.arange(4000) / 8000)
        assert log_mel.log_powers(tone.astype(np.float32)).mean(0).argmax() == band
