"""Augmentation of training recordings: changes of speed, vocal tract and background, and masked parts.

Speed and noise change the samples; after that, the tract warp and the masks change the log-mel features. All random
numbers depend on (seed, epoch, index of the recording) alone, so a resumed run computes the same features as an
uninterrupted one.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from seq2see.core.seeds import generator, uniform
from seq2see.core.settings import Settings
from seq2see.data.log_mel import LogMel
from seq2see.data.recordings import Samples, colored_noise
from seq2see.data.resampling import resample

NOISE_RANGE_DB = 30.0
"""The width of the range of signal-to-noise ratios."""
WARP_STEP = 0.02
"""Warps are multiples of this, so that few filter banks are needed."""


class SoundAugmentation(Settings):
    """Augmentation of training recordings, sampled anew in every epoch."""

    time_masks: int = Field(0, ge=0, le=20)
    """SpecAugment: the number of masked spans of time per recording."""
    time_mask_seconds: float = Field(0.2, gt=0)
    """SpecAugment: the longest masked span in seconds; at most a fifth of the recording."""
    frequency_masks: int = Field(0, ge=0, le=20)
    """SpecAugment: the number of masked ranges of bands per recording."""
    frequency_mask_bands: int = Field(8, ge=1)
    """SpecAugment: the largest number of adjacent bands in a mask."""
    speed: float = Field(0.0, ge=0, le=0.5)
    """The largest relative change of speed, which changes the pitch as well; 0: off."""
    tract: float = Field(0.0, ge=0, le=0.3)
    """The largest relative change of the vocal tract's length, which shifts the formants; 0: off."""
    noise_db: float | None = Field(None, ge=-10, le=60)
    """Noise between white and pink is added, with a signal-to-noise ratio from this value in dB to 30 dB more."""

    @property
    def changes_samples(self) -> bool:
        """Whether features must be computed anew, because the samples or the filter bank change."""
        return bool(self.speed or self.tract) or self.noise_db is not None

    def slowest(self, samples: int) -> int:
        """The largest number of samples of a recording after a change of speed."""
        return samples if not self.speed else int(np.ceil(samples * 100 / (100 - round(100 * self.speed)))) + 1


def augmented_features(
    samples: Samples, log_mel: LogMel, augmentation: SoundAugmentation, seed: int, key: tuple[int, int]
) -> Float[Tensor, "frame band"]:
    """The features of a recording with changed speed, noise and vocal tract; `key` is (epoch, index)."""
    if augmentation.speed:
        samples = change_speed(samples, percent(augmentation.speed, seed, "speed", key))
    if augmentation.noise_db is not None:
        snr_db = augmentation.noise_db + NOISE_RANGE_DB * uniform(seed, "snr", *key)
        samples = add_noise(samples, snr_db, generator(seed, "noise", *key))
    warp = 1 + augmentation.tract * (2 * uniform(seed, "tract", *key) - 1)
    return log_mel.features(samples, round(warp / WARP_STEP) * WARP_STEP)


def percent(largest: float, seed: int, purpose: str, key: tuple[int, int]) -> int:
    """A uniformly distributed percentage from 100 - largest to 100 + largest."""
    limit = round(100 * largest)
    return 100 - limit + int(uniform(seed, purpose, *key) * (2 * limit + 1))


def change_speed(samples: Samples, speed: int) -> Samples:
    """The recording at this percentage of its speed, by resampling (Ko et al. 2015)."""
    return resample(samples, Fraction(100, speed))


def add_noise(samples: Samples, snr_db: float, rng: np.random.Generator) -> Samples:
    """The recording with noise between white and pink, at this ratio of the mean powers."""
    power = float(np.square(samples, dtype=np.float64).mean()) / 10 ** (snr_db / 10)
    return samples + (np.sqrt(power) * colored_noise(len(samples), rng.random(), rng)).astype(np.float32)


def masked(
    features: Float[Tensor, "frame band"], augmentation: SoundAugmentation, hop_seconds: float, rng: np.random.Generator
) -> Float[Tensor, "frame band"]:
    """A copy with masked times and bands (SpecAugment, Park et al. 2019, section 2).

    The mask is 0, the mean of normalized features. No mask is longer than a fifth of the recording.
    """
    features = features.clone()
    frames, bands = features.shape
    longest = min(round(augmentation.time_mask_seconds / hop_seconds), frames // 5)
    for _ in range(augmentation.time_masks):
        features[random_span(rng, longest, frames)] = 0
    for _ in range(augmentation.frequency_masks):
        features[:, random_span(rng, min(augmentation.frequency_mask_bands, bands), bands)] = 0
    return features


def random_span(rng: np.random.Generator, longest: int, size: int) -> slice:
    """A random slice of `size` items, of 0 to `longest` of them."""
    length = int(rng.integers(0, longest + 1))
    start = int(rng.integers(0, size - length + 1))
    return slice(start, start + length)
