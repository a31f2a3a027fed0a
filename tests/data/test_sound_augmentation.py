"""Each augmentation of sound by itself: its size can be computed by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sound_stubs import RATE, noise, sine

from seq2see.core.seeds import generator
from seq2see.data.recordings import colored_noise
from seq2see.data.sound_augmentation import (
    SoundAugmentation,
    add_noise,
    augmented_features,
    change_speed,
    masked,
    percent,
    random_span,
)

KEYS = [(epoch, index) for epoch in range(30) for index in range(30)]


def test_masks_are_zero_within_their_limits_and_elsewhere_nothing_changes():
    features = torch.ones(100, 40)
    settings = SoundAugmentation(time_masks=1, time_mask_seconds=0.15, frequency_masks=1, frequency_mask_bands=5)
    longest_time = longest_bands = 0
    for number in range(200):
        masks = masked(features, settings, 0.01, generator(0, "test", number)) == 0
        times, bands = masks.all(1), masks.all(0)
        assert torch.equal(masks, times[:, None] | bands)
        for each in (times, bands):
            marked = each.nonzero()[:, 0]
            assert len(marked) == 0 or marked[-1] - marked[0] + 1 == len(marked)
        longest_time, longest_bands = max(longest_time, int(times.sum())), max(longest_bands, int(bands.sum()))
    assert (longest_time, longest_bands) == (15, 5)
    assert features.all()


def test_no_time_mask_is_longer_than_a_fifth_of_the_recording():
    settings = SoundAugmentation(time_masks=1, time_mask_seconds=1.0)
    counts = [
        int((masked(torch.ones(30, 4), settings, 0.01, generator(0, "", n)) == 0).all(1).sum()) for n in range(99)
    ]
    assert max(counts) == 6


def test_every_span_occurs_and_none_leaves_its_range():
    rng = generator(0, "spans")
    spans = {(each.start, each.stop) for each in (random_span(rng, 2, 3) for _ in range(500))}
    assert spans == {(0, 0), (1, 1), (2, 2), (3, 3), (0, 1), (1, 2), (2, 3), (0, 2), (1, 3)}


def test_a_faster_recording_is_shorter_and_higher():
    faster = change_speed(sine(0.4, 400), 80)
    assert len(faster) == 4000
    spectrum = np.abs(np.fft.rfft(faster))
    assert np.fft.rfftfreq(4000, 1 / RATE)[spectrum.argmax()] == pytest.approx(320, abs=3)


def test_speeds_are_all_percentages_in_the_range_and_equally_frequent():
    found = [percent(0.02, 0, "speed", key) for key in KEYS]
    assert sorted(set(found)) == [98, 99, 100, 101, 102]
    assert min(found.count(each) for each in range(98, 103)) > 120


@pytest.mark.parametrize("snr_db", [-5.0, 0.0, 20.0])
def test_noise_has_the_stated_power(snr_db):
    samples = sine(2.0)
    added = add_noise(samples, snr_db, generator(0, "noise")) - samples
    ratio = 10 * np.log10(np.square(samples).mean() / np.square(added).mean())
    assert ratio == pytest.approx(snr_db, abs=0.05)


@pytest.mark.parametrize("pinkness, slope", [(0.0, 0.0), (1.0, -3.0), (0.5, -1.5)])
def test_noise_falls_by_3_db_per_octave_if_it_is_pink(pinkness, slope):
    power = np.abs(np.fft.rfft(colored_noise(1 << 16, pinkness, generator(0, "pink")))) ** 2
    octaves = [10 * np.log10(power[2**k : 2 ** (k + 1)].mean()) for k in range(6, 15)]
    np.testing.assert_allclose(np.diff(octaves).mean(), slope, atol=0.3)


@pytest.mark.parametrize("count", [1, 1000, 1024, 1025])
def test_noise_of_any_length_has_variance_1(count):
    samples = colored_noise(max(count, 2), 0.7, generator(0, "length"))
    assert samples.std() == pytest.approx(1)


def test_only_speed_tract_and_noise_need_new_features():
    assert not SoundAugmentation(time_masks=2, frequency_masks=2).changes_samples
    for settings in ({"speed": 0.1}, {"tract": 0.1}, {"noise_db": 0.0}):
        assert SoundAugmentation(**settings).changes_samples


def test_the_slowest_speed_gives_the_most_samples():
    augmentation = SoundAugmentation(speed=0.1)
    assert augmentation.slowest(9000) >= len(change_speed(noise(9000 / RATE), 90)) == 10000
    assert SoundAugmentation().slowest(9000) == 9000


class Echo:
    """In place of log-mel features: the samples themselves, and the warps that were requested."""

    def __init__(self):
        self.warps = []

    def features(self, samples, warp):
        self.warps.append(warp)
        return samples


def test_warps_go_both_ways_in_steps_of_two_percent():
    echo = Echo()
    for key in KEYS:
        augmented_features(sine(0.01), echo, SoundAugmentation(tract=0.1), 0, key)
    assert {round(warp, 9) for warp in echo.warps} == {round(0.9 + step / 50, 9) for step in range(11)}


def test_ratios_of_the_noise_span_thirty_decibels_from_the_lowest_one():
    sound, ratios = sine(0.5), []
    for key in KEYS[:200]:
        added = augmented_features(sound, Echo(), SoundAugmentation(noise_db=5.0), 0, key) - sound
        ratios.append(10 * np.log10(np.square(sound).mean() / np.square(added).mean()))
    assert min(ratios) == pytest.approx(5, abs=1)
    assert max(ratios) == pytest.approx(35, abs=1)
    assert np.mean(ratios) == pytest.approx(20, abs=2)
