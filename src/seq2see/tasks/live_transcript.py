"""Transcripts of sound that is still being recorded: a letter is committed when enough sound after it has arrived.

The encoder is bidirectional, so the last letters can still change. The model therefore transcribes a window of the
latest sound again and again; a letter is committed, and never changed, when its middle is `LOOKAHEAD_SECONDS` old.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from seq2see.core.errors import UserError
from seq2see.data.readers.sound_files import RATES
from seq2see.data.resampling import resample
from seq2see.tasks.transcriber import Transcriber

LOOKAHEAD_SECONDS = 0.6
"""The duration of the sound after the middle of a letter that must arrive before the letter is committed."""
WINDOW_SECONDS = 8.0
"""The duration of the window of the latest sound, which is transcribed as one recording."""
SHORTEST_SECONDS = 0.2
"""Less sound than this is not transcribed."""


class LiveTranscript:
    """The transcript of sound that arrives in parts, of int16 or float samples at any rate."""

    def __init__(self, model: Transcriber, rate: int | None = None):
        if not model.output().live:
            raise UserError(
                "A decoder with attention needs the whole recording, so its letters cannot be committed one by one.",
                hint="Choose a run with target.kind=ctc or target.kind=transducer, or give a file.",
            )
        if rate is not None and not RATES[0] <= rate <= RATES[1]:
            raise UserError(
                f"Sound with {rate:,} samples per second is not supported.",
                hint=f"Give a sampling rate from {RATES[0]:,} to {RATES[1]:,} Hz.",
            )
        self.model, self.rate = model, rate or model.rate
        self.window = np.zeros(0, np.float32)
        self.window_start = 0.0  # seconds
        self.committed_until = 0.0
        self.tokens: list[int] = []

    @property
    def text(self) -> str:
        """The whole committed text."""
        return self.model.tokenizers.target.decode(self.tokens)

    def feed(self, samples: NDArray[np.int16] | NDArray[np.float32]) -> str:
        """Add sound; return the newly committed text."""
        scale = 1 / 32768 if samples.dtype == np.int16 else 1.0
        self.window = np.concatenate([self.window, samples.astype(np.float32) * scale])
        committed = self._commit(self._end - LOOKAHEAD_SECONDS)
        surplus = len(self.window) - round(WINDOW_SECONDS * self.rate)
        if surplus > 0:
            self.window, self.window_start = self.window[surplus:], self.window_start + surplus / self.rate
        return committed

    def finish(self) -> str:
        """The end of the sound: commit the rest."""
        return self._commit(np.inf)

    @property
    def _end(self) -> float:
        return self.window_start + len(self.window) / self.rate

    def _commit(self, until: float) -> str:
        """Commit the tokens whose middle is between the last commit and `until`."""
        if until <= self.committed_until or len(self.window) < SHORTEST_SECONDS * self.rate:
            return ""
        samples = self.window
        if self.rate != self.model.rate:
            samples = resample(samples, Fraction(self.model.rate, self.rate))
        before = self.text
        for token, start, end in self.model.timed_tokens(samples):
            if self.committed_until < self.window_start + (start + end) / 2 <= until:
                self.tokens.append(token)
        self.committed_until = until
        return self.text[len(before) :]
