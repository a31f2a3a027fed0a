"""Recordings of single spoken digits: FSDD and AudioMNIST, each digit several times by each speaker.

The recordings differ in more than the voice. Those of FSDD are cut close to the digit, those of AudioMNIST have half a
second of background around it; some are a hundred times as loud as others. A model could recognize the corpus by these
differences, so all recordings are trimmed and scaled by one function.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from seq2see.core.errors import UserError
from seq2see.data.catalogue.corpus_files import get_corpus
from seq2see.data.catalogue.download import read_tar_members
from seq2see.data.readers.data_report import DataReport, Location
from seq2see.data.readers.image_files import parallel_map
from seq2see.data.readers.sound_files import SUFFIX_FORMATS, SoundError, decode_sound
from seq2see.data.recordings import Samples

DigitCorpus = Literal["fsdd", "audiomnist"]
RECORDING_NAME = re.compile(r"(\d)_(\w+?)_(\d+)")
"""The file name of a recording: digit, speaker, take."""

FRAME_SECONDS = 0.01
SPEECH_SHARE = 0.25
"""A frame belongs to speech if its level is above the background by this share of the range, in dB."""
MARGINS = (0.04, 0.08)
"""Seconds that are kept before and after the speech: digits begin and end softly."""
SPEECH_LEVEL = 0.1
"""The root mean square of the loudest quarter of a recording, after scaling."""


@dataclass(frozen=True, eq=False)
class SpokenDigit:
    """One recording of one digit, trimmed and scaled."""

    digit: str
    speaker: str
    """The corpus and the name of the speaker, such as fsdd/george."""
    name: str
    samples: Samples
    background: float
    """The root mean square of the quietest frames."""


def read_spoken_digits(corpus: DigitCorpus, rate: int, report: DataReport) -> list[SpokenDigit]:
    """All recordings of a corpus; one that cannot be used is rejected, with an issue in the report."""
    archive = get_corpus(corpus).paths[0]
    contents = {name: content for name, content in read_tar_members(archive).items() if _is_recording(name)}
    report.files.append(str(archive))

    def decode(name: str) -> Samples | SoundError:
        try:
            return decode_sound(contents[name], rate, f"{archive}/{name}").samples
        except SoundError as error:
            return error

    digits = []
    for name, samples in zip(contents, parallel_map(decode, list(contents), "reading recordings"), strict=True):
        report.read += 1
        match = RECORDING_NAME.fullmatch(Path(name).stem)
        if isinstance(samples, SoundError) or match is None:
            report.rejected += 1
            kind, message = "not a recording", "Its name is not DIGIT_SPEAKER_TAKE."
            if isinstance(samples, SoundError):
                kind, message = samples.kind, samples.message
            report.add_issue(kind, Location(f"{archive}/{name}"), message)
            continue
        report.kept += 1
        trimmed, background = trim_and_scale(samples, rate)
        digits.append(SpokenDigit(match[1], f"{corpus}/{match[2]}", f"{corpus}/{Path(name).name}", trimmed, background))
    if not digits:
        raise UserError("There is no recording of a digit in this archive.", location=str(archive))
    return digits


def _is_recording(name: str) -> bool:
    return Path(name).suffix.lower() in SUFFIX_FORMATS and not Path(name).name.startswith(".")


def trim_and_scale(samples: Samples, rate: int) -> tuple[Samples, float]:
    """The part of a recording with speech, scaled to `SPEECH_LEVEL`; and the level of its background, scaled alike."""
    levels = frame_levels(samples, rate)
    background, loud = np.quantile(levels, [0.05, 0.95])
    speech = np.flatnonzero(levels > background + SPEECH_SHARE * (loud - background))
    hop = round(FRAME_SECONDS * rate)
    if len(speech):
        start = max(0, int(speech[0]) * hop - round(MARGINS[0] * rate))
        end = int(speech[-1] + 1) * hop + round(MARGINS[1] * rate)
        samples = samples[start:end]
    powers = np.square(samples, dtype=np.float64)
    count = len(samples) // 4
    scale = SPEECH_LEVEL / max(float(np.sqrt(np.partition(powers, -count)[-count:].mean())), 1e-9)
    return (samples * scale).astype(np.float32), float(10 ** (background / 20) * scale)


def frame_levels(samples: Samples, rate: int) -> NDArray[np.float64]:
    """The level of each frame of 10 ms in dB relative to 1; digital silence has -96 dB."""
    hop = round(FRAME_SECONDS * rate)
    frames = samples[: len(samples) // hop * hop].reshape(-1, hop)
    return 10 * np.log10(np.square(frames, dtype=np.float64).mean(1) + 10**-9.6)
