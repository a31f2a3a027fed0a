"""Noise between white (equal power in every Hz) and pink (equal power in every octave)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BLOCK = 1024
"""The Fourier transform is fast for lengths with small factors, so noise is generated in multiples of this length."""


def colored_noise(count: int, pinkness: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Noise of variance 1 between white (0) and pink (1): the power of a frequency f is proportional to f^-pinkness.

    Pink noise has equal power in every octave, as many natural backgrounds do.
    """
    length = -(-count // BLOCK) * BLOCK
    spectrum = np.fft.rfft(rng.standard_normal(length))
    spectrum *= np.maximum(np.arange(len(spectrum)), 1) ** (-pinkness / 2)
    spectrum[0] = 0
    noise = np.fft.irfft(spectrum, length)[:count]
    return noise / noise.std()
