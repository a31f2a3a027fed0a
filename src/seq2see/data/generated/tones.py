"""Tones: synthetic Mandarin vowels in the four tones, by random speakers, with the time of each syllable.

The source-filter model of speech (Fant 1960): the vocal folds produce pulses, whose rate is the pitch f0, and the vocal
tract amplifies some frequencies, the formants. A tone is the course of f0, a vowel is the position of the formants, so
what is heard has two independent parts. Here the pulses are a sum of harmonics of equal strength, weakened towards
higher frequencies, and each of the three formants is a resonator with two poles (Klatt 1980, section I).

A speaker has a mean pitch (90 to 260 Hz), a pitch range and a length of the vocal tract (within 20 % of the mean, which
shifts all formants). A noise burst, like a breath, precedes half of the syllables and has no meaning. The target is
pinyin with tone digits: "a1 yi3".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from seq2see.core.seeds import generator
from seq2see.core.settings import Settings
from seq2see.data.readers.data_report import DataReport
from seq2see.data.recordings import RecordingExamples, RenderedSamples, Samples, colored_noise

SEED = 1
"""The seed of the recordings, which does not depend on the seed of the training."""
HELD_OUT = 500
"""The number of recordings in each of valid and test."""

FORMANTS = {
    "a": (850, 1250, 2600), "o": (520, 850, 2500), "e": (480, 1150, 2500), "yi": (290, 2300, 2950),
    "wu": (340, 700, 2450), "yu": (300, 1950, 2400),
}  # fmt: skip
"""The frequencies of the three formants of each vowel in Hz, for a vocal tract of mean length."""
BANDWIDTHS = (80.0, 100.0, 140.0)
TONES = {"1": (5.0, 5.0, 5.0), "2": (3.0, 3.4, 5.0), "3": (2.2, 1.0, 3.6), "4": (5.0, 3.6, 1.0)}
"""The pitch at the start, the middle and the end of each tone, on the scale from 1 to 5 of Chao (1930)."""

SYLLABLES = (1, 4)
PITCHES, SEMITONES_PER_LEVEL, TRACT = (90.0, 260.0), (1.8, 3.0), 0.2
SYLLABLE_SECONDS, PAUSE_SECONDS, BURST_SECONDS = (0.2, 0.4), (0.05, 0.25), (0.02, 0.06)
RAMP_SECONDS, JITTER = 0.02, 0.005
"""Attack and decay of a syllable, and the random variation of f0."""
TILT_HERTZ = 300.0
"""Harmonics above this frequency become weaker by 6 dB per octave."""
SNR_DB = (15.0, 40.0)
PEAKS = (0.1, 0.9)
"""The largest sample of a recording."""


class ToneCorpus(Settings):
    """Generated Mandarin vowels in four tones by random speakers; the target is pinyin with tone digits."""

    kind: Literal["tones"] = "tones"
    size: int = Field(default=3000, ge=1, le=1_000_000)
    """The number of training recordings; the other splits do not depend on it."""

    def recordings(self, rate: int) -> tuple[dict[str, RecordingExamples], list[DataReport]]:
        """Train, valid and test at this sampling rate, and no data reports."""
        counts = {"train": self.size, "valid": HELD_OUT, "test": HELD_OUT}
        return {name: _split(name, count, rate) for name, count in counts.items()}, []


def _split(name: str, count: int, rate: int) -> RecordingExamples:
    utterances = [Utterance.sample(generator(SEED, f"tones/{name}", number)) for number in range(count)]

    def render(number: int) -> Samples:
        return utterances[number].render(rate, generator(SEED, f"tones/{name}/sound", number))

    lengths = [round(each.seconds * rate) for each in utterances]
    return RecordingExamples(
        RenderedSamples.of(render, lengths, f"tones {name} {rate}"),
        rate,
        tuple(each.text for each in utterances),
        tuple(f"tones {name} {number}" for number in range(count)),
        times=tuple(each.times for each in utterances),
    )


@dataclass(frozen=True)
class Utterance:
    """The syllables of one recording, their times, and the speaker."""

    syllables: tuple[str, ...]
    """A vowel with its tone, such as yi3."""
    spans: tuple[tuple[float, float], ...]
    """Start and end of each syllable, in seconds."""
    bursts: tuple[float, ...]
    """The length of the noise burst before each syllable; 0 if there is none."""
    seconds: float
    pitch: float
    semitones_per_level: float
    tract: float
    """The factor of all formants: shorter vocal tracts have higher ones."""

    @staticmethod
    def sample(rng: np.random.Generator) -> Utterance:
        """Random syllables of a random speaker."""
        vowels, tones, count = list(FORMANTS), list(TONES), int(rng.integers(*SYLLABLES, endpoint=True))
        time, spans, bursts = 0.0, [], []
        for _ in range(count):
            bursts.append(rng.uniform(*BURST_SECONDS) if rng.random() < 0.5 else 0.0)
            start = time + rng.uniform(*PAUSE_SECONDS) + bursts[-1]
            time = start + rng.uniform(*SYLLABLE_SECONDS)
            spans.append((start, time))
        pitch = float(np.exp(rng.uniform(*np.log(PITCHES))))
        return Utterance(
            tuple(str(rng.choice(vowels)) + str(rng.choice(tones)) for _ in range(count)),
            tuple(spans),
            tuple(bursts),
            time + rng.uniform(*PAUSE_SECONDS),
            pitch,
            rng.uniform(*SEMITONES_PER_LEVEL),
            1 + TRACT * rng.uniform(-1, 1),
        )

    @property
    def text(self) -> str:
        """The syllables, separated by spaces."""
        return " ".join(self.syllables)

    @property
    def times(self) -> tuple[tuple[float, float], ...]:
        """Start and end of each character: those of its syllable, and for a space those of the pause."""
        times: list[tuple[float, float]] = []
        for syllable, span in zip(self.syllables, self.spans, strict=True):
            if times:
                times.append((times[-1][1], span[0]))
            times += [span] * len(syllable)
        return tuple(times)

    def render(self, rate: int, rng: np.random.Generator) -> Samples:
        """The recording: the syllables and bursts, over a background noise."""
        sound = np.zeros(round(self.seconds * rate))
        for syllable, (start, end), burst in zip(self.syllables, self.spans, self.bursts, strict=True):
            voice = self.syllable(syllable, end - start, rate, rng)
            _add(sound, voice / np.abs(voice).max() * rng.uniform(0.6, 1), start, rate)
            if burst:
                noise = colored_noise(round(burst * rate), 0.0, rng)
                _add(sound, 0.1 * rng.uniform(0.5, 1) * noise * ramps(len(noise), rate), start - burst, rate)
        power = float(np.square(sound).mean())
        sound += np.sqrt(power / 10 ** (rng.uniform(*SNR_DB) / 10)) * colored_noise(len(sound), rng.random(), rng)
        return (sound * (rng.uniform(*PEAKS) / np.abs(sound).max())).astype(np.float32)

    def f0(self, tone: str, count: int) -> NDArray[np.float64]:
        """The pitch of a tone at `count` times, in Hz: a parabola through its three levels."""
        levels = np.polyval(np.polyfit([0, 0.5, 1], TONES[tone], 2), np.linspace(0, 1, count))
        return self.pitch * 2 ** (self.semitones_per_level * (levels - 3) / 12)

    def syllable(self, syllable: str, seconds: float, rate: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """A vowel with its tone."""
        vowel, tone = syllable[:-1], syllable[-1]
        count = round(seconds * rate)
        f0 = self.f0(tone, count) * (1 + JITTER * np.interp(np.arange(count), *_slow_noise(count, rng)))
        formants = [self.tract * formant for formant in FORMANTS[vowel]]
        return resonate(pulses(f0, rate), formants, rate) * ramps(count, rate)


def pulses(f0: NDArray[np.float64], rate: int) -> NDArray[np.float64]:
    """Pulses at the rate f0: the sum of all its harmonics below half the sampling rate, Σ_k cos(kφ), k = 1 .. K.

    The sum is (sin((K + 1/2) φ) / sin(φ / 2) - 1) / 2 (Dirichlet), with the phase φ = 2π Σ f0 / rate.
    """
    phase = 2 * np.pi * np.cumsum(f0) / rate
    harmonics = int(rate / 2 / f0.max())
    half = np.sin(phase / 2)
    half = np.where(np.abs(half) < 1e-6, 1e-6, half)
    return (np.sin((harmonics + 0.5) * phase) / half - 1) / 2


def resonate(source: NDArray[np.float64], formants: list[float], rate: int) -> NDArray[np.float64]:
    """The source after a resonator at each formant, y[n] = A x[n] + B y[n-1] + C y[n-2] (Klatt 1980, equation 2).

    C = -e^(-2π b / rate), B = 2 e^(-π b / rate) cos(2π f / rate), A = 1 - B - C, with formant f and bandwidth b. The
    filter is applied to the spectrum, with z = e^(2πi f / rate); a first-order low-pass filter gives the tilt.
    """
    size = 2 * len(source)  # the resonances continue after the end of the source
    frequencies = np.fft.rfftfreq(size, 1 / rate)
    delay = np.exp(-2j * np.pi * frequencies / rate)
    spectrum = np.fft.rfft(source, size) / (1 + 1j * frequencies / TILT_HERTZ)
    for formant, bandwidth in zip(formants, BANDWIDTHS, strict=True):
        c = -np.exp(-2 * np.pi * bandwidth / rate)
        b = 2 * np.exp(-np.pi * bandwidth / rate) * np.cos(2 * np.pi * formant / rate)
        spectrum *= (1 - b - c) / (1 - b * delay - c * delay**2)
    return np.fft.irfft(spectrum, size)[: len(source)]


def ramps(count: int, rate: int) -> NDArray[np.float64]:
    """1, with a rise at the start and a fall at the end in the form of sin²."""
    edge = min(RAMP_SECONDS * rate, count / 2)
    distance = np.minimum(np.arange(count), np.arange(count)[::-1]) / edge
    return np.sin(np.pi / 2 * np.minimum(distance, 1)) ** 2


def _slow_noise(count: int, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Times, in samples, and a random number for each, to interpolate between."""
    moments = np.linspace(0, count, 8)
    return moments, rng.standard_normal(len(moments))


def _add(sound: NDArray[np.float64], part: NDArray[np.float64], start: float, rate: int) -> None:
    first = round(start * rate)
    part = part[: len(sound) - first]
    sound[first : first + len(part)] += part
