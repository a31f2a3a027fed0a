"""Strings of spoken digits: recordings of one speaker's single digits, joined, with the time of every digit.

The voices are real, the number of strings is free, and the boundaries are exact. A join must not be audible, because it
would mark the start of a digit: neighbors are cross-faded, pauses are random, and one background noise, louder than
that of each recording, is added to the whole string. No recording of a test speaker is used in training.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field

from seq2see.core.errors import UserError, unknown_name
from seq2see.core.seeds import derive_seed, generator
from seq2see.core.settings import Settings
from seq2see.data.catalogue.spoken_digits import SPEECH_LEVEL, DigitCorpus, SpokenDigit, read_spoken_digits
from seq2see.data.readers.data_report import DataReport, ErrorPolicy
from seq2see.data.recordings import CharacterTimes, RecordingExamples, RenderedSamples, Samples, colored_noise

SEED = 1
"""The seed of the strings, which does not depend on the seed of the training."""
HELD_OUT = 500
"""The number of strings in each of valid and test."""
SPEAKER_SHARE = 0.15
"""The share of the speakers that are held out for test, and of the others for validation; at least one."""
MIN_SPEAKERS = 6
"""With fewer training speakers, validation has other recordings of the same speakers instead."""
RECORDING_SHARE = 0.1
"""The share of their recordings that are then held out for validation."""

MAX_PAUSE, MARGIN_SECONDS, FADE_SECONDS = 0.3, (0.1, 0.3), 0.02
"""The longest pause, the noise before and after the string, and the length of a cross-fade."""
NOISE_DB, ABOVE_BACKGROUND_DB, LOUDEST_NOISE_DB = (-40.0, -25.0), 3.0, -10.0
"""The level of the noise relative to speech: in this range, at least 3 dB above the recordings' background."""
PEAKS = (0.1, 0.9)
"""The largest sample of a recording."""


class DigitStrings(Settings):
    """Strings of spoken English digits, joined from recordings of one speaker; test speakers are never trained on."""

    kind: Literal["digit-strings"] = "digit-strings"
    corpora: tuple[DigitCorpus, ...] = Field(("fsdd",), min_length=1)
    """The corpora of single digits: fsdd (5 speakers), audiomnist (46 speakers), or both."""
    size: int = Field(default=4000, ge=1, le=1_000_000)
    """The number of training strings; the other splits do not depend on it."""
    max_digits: int = Field(default=8, ge=1, le=20)
    """The largest number of digits in a string."""
    test_speakers: tuple[str, ...] = ()
    """Speakers such as fsdd/george that are left out of training and are the test; by default 15 % of all."""

    def recordings(self, rate: int) -> tuple[dict[str, RecordingExamples], list[DataReport]]:
        """Train, valid and test at this sampling rate, and the data report of the single recordings."""
        report = DataReport(unit="recordings")
        digits = [digit for corpus in dict.fromkeys(self.corpora) for digit in read_spoken_digits(corpus, rate, report)]
        report.raise_for_errors(ErrorPolicy("skip"))
        parts = split_by_speaker(digits, self.test_speakers)
        counts = {"train": self.size, "valid": HELD_OUT, "test": HELD_OUT}
        return {
            name: join_strings(f"{name} of {','.join(self.corpora)}", parts[name], counts[name], self.max_digits, rate)
            for name in counts
        }, [report]


def split_by_speaker(digits: Sequence[SpokenDigit], test_speakers: Sequence[str]) -> dict[str, list[SpokenDigit]]:
    """The recordings of each split; the speakers of a split do not depend on the order of the recordings."""
    speakers = sorted({digit.speaker for digit in digits}, key=lambda name: derive_seed(SEED, f"speaker {name}"))
    for name in test_speakers:
        if name not in speakers:
            raise unknown_name("speaker", name, speakers)
    test = set(test_speakers) or set(speakers[: max(1, round(SPEAKER_SHARE * len(speakers)))])
    others = [name for name in speakers if name not in test]
    if not others:
        message = f"All {len(speakers)} speakers are test speakers, so there are none to train on."
        raise UserError(message, hint="Set corpus.test_speakers to fewer speakers, or add a corpus.")
    valid = set(others[: round(SPEAKER_SHARE * len(others))] if len(others) >= MIN_SPEAKERS else [])

    def split_of(digit: SpokenDigit) -> str:
        if digit.speaker in test:
            return "test"
        held_out = derive_seed(SEED, f"recording {digit.name}") % 1000 < 1000 * RECORDING_SHARE
        return "valid" if digit.speaker in valid or (not valid and held_out) else "train"

    splits: dict[str, list[SpokenDigit]] = {"train": [], "valid": [], "test": []}
    for digit in digits:
        splits[split_of(digit)].append(digit)
    return splits


def join_strings(name: str, digits: Sequence[SpokenDigit], count: int, max_digits: int, rate: int) -> RecordingExamples:
    """`count` strings of 1 to `max_digits` of these recordings, each string by one speaker."""
    by_speaker: dict[str, list[SpokenDigit]] = defaultdict(list)
    for digit in digits:
        by_speaker[digit.speaker].append(digit)
    speakers = sorted(by_speaker)
    plans = []
    for number in range(count):
        rng = generator(SEED, f"digit string {name}", number)
        plans.append(StringPlan.sample(by_speaker[speakers[rng.integers(len(speakers))]], max_digits, rate, rng))
    return RecordingExamples(
        RenderedSamples.of(
            lambda number: plans[number].render(generator(SEED, f"digit string {name} noise", number)),
            [plan.length for plan in plans],
            f"digit strings {name} {max_digits} {rate}",
        ),
        rate,
        tuple(plan.text for plan in plans),
        tuple(f"{plan.digits[0].speaker} {number}" for number, plan in enumerate(plans)),
        tuple(plan.digits[0].speaker for plan in plans),
        tuple(plan.times for plan in plans),
    )


@dataclass(frozen=True, eq=False)
class StringPlan:
    """The recordings of a string, and where each begins."""

    digits: tuple[SpokenDigit, ...]
    starts: tuple[int, ...]
    """The first sample of each digit."""
    length: int
    """The number of samples of the string."""
    rate: int

    @staticmethod
    def sample(digits: Sequence[SpokenDigit], max_digits: int, rate: int, rng: np.random.Generator) -> StringPlan:
        """A string of random recordings with random pauses."""
        fade = round(FADE_SECONDS * rate)
        chosen = tuple(digits[index] for index in rng.integers(len(digits), size=rng.integers(1, max_digits + 1)))
        position, starts = round(rng.uniform(*MARGIN_SECONDS) * rate), []
        for digit in chosen:
            starts.append(position)
            position += len(digit.samples) - fade + round(rng.uniform(0, MAX_PAUSE) * rate)
        end = starts[-1] + len(chosen[-1].samples)
        return StringPlan(chosen, tuple(starts), end + round(rng.uniform(*MARGIN_SECONDS) * rate), rate)

    @property
    def text(self) -> str:
        """The digits, without spaces."""
        return "".join(digit.digit for digit in self.digits)

    @property
    def times(self) -> CharacterTimes:
        """Start and end of each digit in seconds."""
        return tuple(
            (start / self.rate, (start + len(digit.samples)) / self.rate)
            for start, digit in zip(self.starts, self.digits, strict=True)
        )

    def render(self, rng: np.random.Generator) -> Samples:
        """The digits, faded in and out, with one background noise."""
        fade = np.sin(np.pi / 2 * np.arange(1, round(FADE_SECONDS * self.rate)) / round(FADE_SECONDS * self.rate)) ** 2
        background = max(digit.background for digit in self.digits)
        level = max(SPEECH_LEVEL * 10 ** (rng.uniform(*NOISE_DB) / 20), background * 10 ** (ABOVE_BACKGROUND_DB / 20))
        level = min(level, SPEECH_LEVEL * 10 ** (LOUDEST_NOISE_DB / 20))
        sound = level * colored_noise(self.length, rng.random(), rng)
        for start, digit in zip(self.starts, self.digits, strict=True):
            samples = digit.samples.astype(np.float64)
            samples[: len(fade)] *= fade
            samples[-len(fade) :] *= fade[::-1]
            sound[start : start + len(samples)] += samples
        return (sound * (rng.uniform(*PEAKS) / np.abs(sound).max())).astype(np.float32)
