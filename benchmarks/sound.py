"""The speed of sound on one core, as multiples of real time: reading, log-mel features, resampling, rendering.

    python benchmarks/sound.py      about half a minute; the rows are stored in results/sound.json

A value of 500 means that 500 seconds of sound take one second.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import torch

from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json
from seq2see.core.seeds import generator
from seq2see.data.generated.morse import MorseCorpus
from seq2see.data.generated.tones import ToneCorpus
from seq2see.data.log_mel import LogMel
from seq2see.data.readers.sound_files import read_sound
from seq2see.data.recordings import Samples, to_int16
from seq2see.data.resampling import resample
from seq2see.data.sound_augmentation import SoundAugmentation, augmented_features

COUNT, SECONDS, REPEATS = 100, 4.0, 5
"""The number of recordings, their length, and the number of measurements, of which the median is stored."""
RESULTS = Path(__file__).parent / "results" / "sound.json"
AUGMENTATION = SoundAugmentation(speed=0.1, noise_db=5.0, tract=0.1)


def wav_of(samples: Samples, rate: int) -> bytes:
    """A WAV file with 16 bits."""
    content = to_int16(samples).astype("<i2").tobytes()
    sizes = [np.array(each, "<u4").tobytes() for each in (36 + len(content), 16, rate, 2 * rate, len(content))]
    form, block = np.array([1, 1], "<u2").tobytes(), np.array([2, 16], "<u2").tobytes()
    return (
        b"RIFF" + sizes[0] + b"WAVEfmt " + sizes[1] + form + sizes[2] + sizes[3] + block + b"data" + sizes[4] + content
    )


def cases() -> dict[str, tuple[float, Callable[[int], object]]]:
    """For each row the seconds of sound in one call, and a function of the number of the call."""
    noise = {
        rate: [
            0.1 * generator(0, "sound", rate, n).standard_normal(round(SECONDS * rate), np.float32) for n in range(4)
        ]
        for rate in (8000, 16_000, 48_000)
    }
    files = [wav_of(each, 48_000) for each in noise[48_000]]
    small, large = LogMel(8000, 40), LogMel(16_000, 80)
    morse, tones = (kind(size=COUNT).recordings(8000)[0]["train"] for kind in (MorseCorpus, ToneCorpus))
    return {
        "log-mel, 8,000 Hz, 40 bands": (SECONDS, lambda n: small.features(noise[8000][n % 4])),
        "log-mel, 16,000 Hz, 80 bands": (SECONDS, lambda n: large.features(noise[16_000][n % 4])),
        "augmented log-mel, 8,000 Hz": (
            SECONDS, lambda n: augmented_features(noise[8000][n % 4], small, AUGMENTATION, 0, (0, n)),
        ),
        "resampling, 48,000 to 8,000 Hz": (SECONDS, lambda n: resample(noise[48_000][n % 4], Fraction(1, 6))),
        "reading WAV, 48,000 to 8,000 Hz": (SECONDS, lambda n: read_sound(files[n % 4], 8000)),
        "rendering Morse code, 8,000 Hz": (float(morse.lengths.mean()) / 8000, lambda n: morse.samples[n % COUNT]),
        "rendering tones, 8,000 Hz": (float(tones.lengths.mean()) / 8000, lambda n: tones.samples[n % COUNT]),
    }  # fmt: skip


def measure() -> list[dict[str, object]]:
    """The median of several measurements of each case; the cases alternate, so that drift affects all equally."""
    torch.set_num_threads(1)
    found: dict[str, list[float]] = {}
    chosen = cases()
    for repeat in range(REPEATS + 1):
        for name, (seconds, call) in chosen.items():
            began = time.perf_counter()
            for number in range(COUNT):
                call(number)
            speed = COUNT * seconds / (time.perf_counter() - began)
            if repeat:  # the first fills caches
                found.setdefault(name, []).append(speed)
    return [{"name": name, "real_time": round(statistics.median(each)), "all": each} for name, each in found.items()]


if __name__ == "__main__":
    rows = measure()
    print("\n".join(json.dumps(row | {"all": None}) for row in rows))
    write_json(RESULTS, {"environment": describe_machine(), "command": "python benchmarks/sound.py", "rows": rows})
