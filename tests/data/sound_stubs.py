"""Small sounds for tests, and WAV files that the standard library writes."""

from __future__ import annotations

import io
import wave

import numpy as np
from numpy.typing import NDArray

RATE = 8000


def sine(seconds: float, hertz: float = 440.0, rate: int = RATE, peak: float = 0.5) -> NDArray[np.float32]:
    return (peak * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def noise(seconds: float, seed: int = 0, rate: int = RATE, scale: float = 0.1) -> NDArray[np.float32]:
    return (scale * np.random.default_rng(seed).standard_normal(round(seconds * rate))).astype(np.float32)


def wav(samples: NDArray[np.float32], rate: int = RATE, bits: int = 16, channels: int = 1) -> bytes:
    """A WAV file of these samples, in every channel."""
    scaled = np.repeat(np.round(np.clip(samples, -1, 1) * (2 ** (bits - 1) - 1)).astype(np.int64), channels)
    if bits == 8:
        content = (scaled + 128).astype(np.uint8).tobytes()
    else:
        content = scaled.astype("<i8").view(np.uint8).reshape(-1, 8)[:, : bits // 8].tobytes()
    file = io.BytesIO()
    with wave.open(file, "wb") as opened:
        opened.setnchannels(channels)
        opened.setsampwidth(bits // 8)
        opened.setframerate(rate)
        opened.writeframes(content)
    return file.getvalue()
