"""Log-mel features: a recording as a sequence of vectors, with one number for each band of frequencies.

A vowel is a pattern of frequencies that lasts for about a tenth of a second, so the sound is cut into overlapping
frames of 25 ms, one every 10 ms, and each frame becomes the power of its frequencies (the short-time Fourier
transform). The ear distinguishes low frequencies better than high ones: the mel scale is linear up to 1,000 Hz and
logarithmic above. The powers are averaged over bands of equal width on this scale, and the logarithm turns loudness,
which is perceived as ratios, into differences (Davis & Mermelstein 1980).

    P[t, k] = |Σ_n w[n] x[t·hop + n] e^(-2πi kn/N)|² / Σ_n w[n]²        w: Hann window of N samples
    M[t, b] = Σ_k P[t, k] F[k, b]                                       F: `mel_bank`
    L[t, b] = log(M[t, b] + ε max M)

With this scale white noise of variance σ² has M = σ² in every band on average. The last step subtracts the mean of each
band over the recording, which removes the microphone's frequency response, and divides by the standard deviation of
all values. Both are weighted by the loudness of the frames: with equal weights, the features of a word would depend on
the length of the pause after it. A louder copy of a recording has equal features: ε max M, 60 dB below the loudest
band, is relative, and hides the difference between a quiet background and digital silence.
"""

from __future__ import annotations

from functools import lru_cache
from math import log

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from seq2see.core.errors import UserError

WINDOW_SECONDS, HOP_SECONDS = 0.025, 0.01
"""The length of a frame, and the time from one frame to the next."""
FRAMES_PER_VECTOR = 4
"""Frames for each vector of the encoder, which begins with two convolutions of stride 2."""
FLOOR = 1e-6
"""ε: the floor of the power relative to the loudest band, -60 dB."""
SILENCE = 1e-14
"""The floor of the power of a recording of digital silence."""
WARP_BOUNDARY = 0.3
"""The frequency up to which a warp is linear, as a share of the sampling rate (4.8 kHz of 16 kHz in the paper)."""


class LogMel:
    """Computes the log-mel features of recordings with this sampling rate."""

    window_seconds, hop_seconds = WINDOW_SECONDS, HOP_SECONDS

    def __init__(self, rate: int, bands: int):
        self.rate, self.bands = rate, bands
        self.window_length, self.hop = window_and_hop(rate)
        self.window = torch.hann_window(self.window_length)
        empty = np.flatnonzero(mel_bank(rate, bands, self.window_length).sum(0).numpy() == 0)
        if len(empty):
            message = f"Of {bands} bands at {rate:,} Hz, band {empty[0] + 1} contains no frequency of the spectrum."
            raise UserError(message, hint="Set source.bands to a smaller number, such as 40.")

    @property
    def fingerprint(self) -> str:
        """All numbers that determine the features of a recording."""
        lengths = f"{self.rate} {self.window_length} {self.hop} {self.bands}"
        return f"{lengths} {FLOOR} {SILENCE} {WARP_BOUNDARY}"

    @property
    def frequencies(self) -> list[float]:
        """The peak of each band in Hz."""
        top = mel(self.rate / 2)
        return [mel_frequency(top * number / (self.bands + 1)) for number in range(1, self.bands + 1)]

    def frames(self, samples: int) -> int:
        """The number of frames of a recording of this many samples: only whole frames count."""
        return frame_count(samples, self.rate)

    def frame_time(self, frame: int) -> float:
        """The middle of a frame, in seconds."""
        return (frame * self.hop + self.window_length / 2) / self.rate

    def features(self, samples: NDArray[np.float32] | Tensor, warp: float = 1.0) -> Float[Tensor, "frame band"]:
        """The normalized log-mel features of one recording; `warp` ≠ 1 shifts its formants (see `warped`)."""
        return normalize(self.log_powers(samples, warp))

    def log_powers(self, samples: NDArray[np.float32] | Tensor, warp: float = 1.0) -> Float[Tensor, "frame band"]:
        """L: the features before normalization."""
        powers = self.spectrum(samples) @ mel_bank(self.rate, self.bands, self.window_length, warp)
        return (powers + FLOOR * powers.max() + SILENCE).log()

    def spectrum(self, samples: NDArray[np.float32] | Tensor) -> Float[Tensor, "frame frequency"]:
        """P: the power of each frequency in each frame."""
        wave = torch.as_tensor(samples)
        if len(wave) < self.window_length:
            message = f"The recording has {len(wave)} samples, and one frame needs {self.window_length}."
            raise UserError(message, hint=f"Record at least {WINDOW_SECONDS * 1000:.0f} ms.")
        spectrum = torch.stft(wave, self.window_length, self.hop, window=self.window, center=False, return_complex=True)
        return spectrum.abs().square().T / self.window.square().sum()


def window_and_hop(rate: int) -> tuple[int, int]:
    """The length of a frame, and the distance from one frame to the next, in samples."""
    return round(WINDOW_SECONDS * rate), round(HOP_SECONDS * rate)


def frame_count(samples: int, rate: int) -> int:
    """The number of frames of a recording of this many samples at this rate.

    >>> [frame_count(samples, 8000) for samples in (199, 200, 279, 280)]
    [0, 1, 1, 2]
    """
    window_length, hop = window_and_hop(rate)
    return max(0, 1 + (samples - window_length) // hop)


def vectors_of(frames: int) -> int:
    """The number of vectors of a spectrogram with this number of frames; the last vector may be of fewer than four.

    >>> [vectors_of(frames) for frames in (1, 4, 5, 8)]
    [1, 1, 2, 2]
    """
    return -(-frames // FRAMES_PER_VECTOR)


def normalize(features: Float[Tensor, "frame band"]) -> Float[Tensor, "frame band"]:
    """Every band with weighted mean 0, and all values with weighted variance 1; constant features become 0.

    The weight of a frame is the root of its power: a frame 40 dB below another one has a hundredth of its weight.
    """
    weights = features.exp().sum(1).sqrt()
    weights = weights / weights.sum()
    centered = features - weights @ features
    return centered / (weights @ centered.square()).mean().sqrt().clamp(min=1e-3)


def mel(frequency: float) -> float:
    """Slaney's mel scale: 3 f / 200 below 1,000 Hz, 15 + 27 ln(f / 1000) / ln 6.4 above.

    >>> mel(400), mel(6400)
    (6.0, 42.0)
    """
    return 3 * frequency / 200 if frequency < 1000 else 15 + 27 * log(frequency / 1000) / log(6.4)


def mel_frequency(number: float) -> float:
    """The inverse of `mel`.

    >>> mel_frequency(6), round(mel_frequency(42), 6)
    (400.0, 6400.0)
    """
    return 200 * number / 3 if number < 15 else 1000 * 6.4 ** ((number - 15) / 27)


@lru_cache(maxsize=64)
def mel_bank(rate: int, bands: int, window_length: int, warp: float = 1.0) -> Float[Tensor, "frequency band"]:
    """F: the weight of each frequency in each band: triangles of equal width on the mel scale.

    The edges f_0 < f_1 < ... < f_(bands + 1) are equally spaced in mel from 0 to half the sampling rate. Band b rises
    from f_b to its peak at f_(b + 1) and falls to f_(b + 2); its weights have sum 1, so that it is a weighted mean.
    """
    top = mel(rate / 2)
    edges = np.array([mel_frequency(top * number / (bands + 1)) for number in range(bands + 2)])
    edges = warped(edges, warp, rate)
    frequencies = np.arange(window_length // 2 + 1)[:, None] * rate / window_length
    left, peak, right = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (frequencies - left) / (peak - left), (right - frequencies) / (right - peak)
    triangles = np.minimum(rising, falling).clip(min=0)
    sums = triangles.sum(0)
    return torch.from_numpy(triangles / np.where(sums > 0, sums, 1)).float()


def warped(frequencies: NDArray[np.float64], warp: float, rate: int) -> NDArray[np.float64]:
    """Vocal tract length perturbation: frequencies multiplied by `warp`, as by a shorter or longer vocal tract.

    Near half the sampling rate, which is a fixed point, the map is linear with another slope (Jaitly & Hinton 2013,
    section 2).
    """
    half, boundary = rate / 2, WARP_BOUNDARY * rate * min(warp, 1)
    upper = half - (half - boundary) / (half - boundary / warp) * (half - frequencies)
    return np.where(frequencies <= boundary / warp, frequencies * warp, upper)
