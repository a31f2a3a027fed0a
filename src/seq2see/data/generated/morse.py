"""Morse code: generated recordings of a keyed tone in noise, with the time of every letter.

A text is a few groups of random letters and digits, so no model of the language helps. Half of the training texts have
one or two letters only, because a model that must find both the letters and their times in long texts learns neither.

The unit of time is the dot; a dash has three units, the gaps within a letter, between letters and between groups have
one, three and seven (ITU-R M.1677-1). At w words per minute ("PARIS " has 50 units) a dot lasts 1.2 / w seconds.

Each recording has its own speed (12 to 35 words per minute), pitch (300 to 1,000 Hz), length of dashes, timing jitter,
slow fading, noise between white and pink, and loudness. The noise begins before the first letter and ends after the
last, and there is no digital silence.
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
from seq2see.data.recordings import CharacterTimes, RecordingExamples, RenderedSamples, Samples, colored_noise

SEED = 1
"""The seed of the recordings, which does not depend on the seed of the training."""
HELD_OUT = 500
"""The number of recordings in each of valid and test."""

MORSE_CODE = {
    "a": ".-", "b": "-...", "c": "-.-.", "d": "-..", "e": ".", "f": "..-.", "g": "--.", "h": "....", "i": "..",
    "j": ".---", "k": "-.-", "l": ".-..", "m": "--", "n": "-.", "o": "---", "p": ".--.", "q": "--.-", "r": ".-.",
    "s": "...", "t": "-", "u": "..-", "v": "...-", "w": ".--", "x": "-..-", "y": "-.--", "z": "--..",
    "0": "-----", "1": ".----", "2": "..---", "3": "...--", "4": "....-", "5": ".....", "6": "-....", "7": "--...",
    "8": "---..", "9": "----.",
}  # fmt: skip
"""The international Morse code (ITU-R M.1677-1)."""

SHORT_SHARE, SHORT_LENGTHS = 0.5, (1, 2)
"""The share of training texts that have one or two letters: from them a model learns the letters, then to align."""
GROUPS, GROUP_LENGTHS = (1, 3), (1, 4)
"""The smallest and largest number of groups in a text, and of letters in a group."""
WORDS_PER_MINUTE, PITCHES = (12.0, 35.0), (300.0, 1000.0)
DASH_UNITS, JITTER = (2.6, 3.4), 0.08
"""The length of a dash in dots, which is an operator's habit, and the standard deviation of every duration."""
MARGIN_SECONDS, RAMP_SECONDS = (0.1, 0.4), 0.005
"""The noise before and after the text, and the attack and decay of a tone, which keep it free of clicks."""
FADING_DEPTH, FADING_HERTZ = 0.5, (0.05, 0.5)
PEAKS = (0.1, 0.9)
"""The largest sample of a recording."""
TRAIN_DB = (-3.0, 24.0)
"""The signal-to-noise ratios of training, relative to that of valid and test: a few recordings are harder.

From the clear ones a model learns the letters. Without them, CTC may predict the blank alone for most of a training.
"""


class MorseCorpus(Settings):
    """Generated Morse code: random letters and digits as a keyed tone in noise."""

    kind: Literal["morse"] = "morse"
    size: int = Field(default=12_000, ge=1, le=1_000_000)
    """The number of training recordings; the other splits do not depend on it."""
    snr_db: float = Field(default=0.0, ge=-30, le=60)
    """The signal-to-noise ratio of valid and test in dB; in training it is uniform from 3 dB less to 24 dB more."""

    def recordings(self, rate: int) -> tuple[dict[str, RecordingExamples], list[DataReport]]:
        """Train, valid and test at this sampling rate, and no data reports."""
        relative_db = {"train": TRAIN_DB, "valid": (0.0, 0.0), "test": (0.0, 0.0)}
        counts = {"train": self.size, "valid": HELD_OUT, "test": HELD_OUT}
        return {name: self._split(name, count, rate, relative_db[name]) for name, count in counts.items()}, []

    def _split(self, name: str, count: int, rate: int, relative_db: tuple[float, float]) -> RecordingExamples:
        short_share = SHORT_SHARE if name == "train" else 0.0
        keyings = [Keying.sample(generator(SEED, f"morse/{name}", number), short_share) for number in range(count)]

        def render(number: int) -> Samples:
            rng = generator(SEED, f"morse/{name}/sound", number)
            return keyings[number].render(rate, self.snr_db + rng.uniform(*relative_db), rng)

        lengths = [keying.samples(rate) for keying in keyings]
        return RecordingExamples(
            RenderedSamples.of(render, lengths, f"morse {name} {rate} {self.snr_db}"),
            rate,
            tuple(keying.text for keying in keyings),
            tuple(f"morse {name} {number}" for number in range(count)),
            times=tuple(keying.times for keying in keyings),
        )


@dataclass(frozen=True)
class Keying:
    """The times at which the key goes down and up for one text."""

    text: str
    marks: NDArray[np.float64]  # (mark, 2): start and end in seconds
    times: CharacterTimes
    seconds: float

    @staticmethod
    def sample(rng: np.random.Generator, short_share: float = 0.0) -> Keying:
        """A random text, keyed by a random operator; this share of the texts is short."""
        letters = list(MORSE_CODE)
        groups = rng.integers(*GROUP_LENGTHS, size=rng.integers(*GROUPS, endpoint=True), endpoint=True)
        if rng.random() < short_share:
            groups = rng.integers(*SHORT_LENGTHS, size=1, endpoint=True)
        text = " ".join("".join(rng.choice(letters, size)) for size in groups)
        return Keying.of(text, 1.2 / rng.uniform(*WORDS_PER_MINUTE), rng)

    @staticmethod
    def of(text: str, dot_seconds: float, rng: np.random.Generator) -> Keying:
        """The keying of a text with dots of this length; other durations and the jitter are sampled."""
        dash_units, time = rng.uniform(*DASH_UNITS), rng.uniform(*MARGIN_SECONDS)
        marks: list[tuple[float, float]] = []
        times: list[tuple[float, float]] = []

        def duration(units: float) -> float:
            return units * dot_seconds * float(np.clip(1 + JITTER * rng.standard_normal(), 0.7, 1.3))

        for letter in text:
            start = time
            for symbol in MORSE_CODE.get(letter, ""):
                marks.append((time, time + duration(1 if symbol == "." else dash_units)))
                time = marks[-1][1] + duration(1)
            if letter == " ":  # three of its seven units follow the letter before
                start, time = times[-1][1], time + duration(4)
                times.append((start, time))
            else:  # one of the three units follows the last mark
                times.append((start, marks[-1][1]))
                time += duration(2)
        return Keying(text, np.array(marks), tuple(times), marks[-1][1] + rng.uniform(*MARGIN_SECONDS))

    def samples(self, rate: int) -> int:
        """The number of samples at this rate."""
        return round(self.seconds * rate)

    def envelope(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """1 while the key is down and 0 while it is up, with ramps in the form of sin²."""
        half = RAMP_SECONDS / 2
        corners = (self.marks[:, :, None] + np.array([-half, half])).ravel()
        ramps = np.interp(times, corners, np.tile([0.0, 1.0, 1.0, 0.0], len(self.marks)))
        return np.sin(np.pi / 2 * ramps) ** 2

    def render(self, rate: int, snr_db: float, rng: np.random.Generator) -> Samples:
        """The recording; the noise has the power of the unfaded tone divided by 10^(snr_db / 10)."""
        times = np.arange(self.samples(rate)) / rate
        pitch, fading_hertz = rng.uniform(*PITCHES), rng.uniform(*FADING_HERTZ)
        fading = rng.uniform(0, FADING_DEPTH) * np.sin(np.pi * fading_hertz * times + rng.uniform(0, np.pi)) ** 2
        tone = self.envelope(times) * (1 - fading) * np.sin(2 * np.pi * pitch * times + rng.uniform(0, 2 * np.pi))
        sound = tone + np.sqrt(0.5 / 10 ** (snr_db / 10)) * colored_noise(len(times), rng.random(), rng)
        return (sound * (rng.uniform(*PEAKS) / np.abs(sound).max())).astype(np.float32)
