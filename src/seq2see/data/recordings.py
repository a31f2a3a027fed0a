"""Recordings as examples: sampled sound with a text and, if known, the speaker and the time of each character.

Compare `examples.py`: a split of images is one array of pixels. Recordings have different lengths, so the samples of
read recordings lie end to end in one array of 16-bit integers, as in a WAV file. Generated recordings are rendered
again at each access, because their settings are much smaller than their samples.

`colored_noise` makes noise between white (equal power in every Hz) and pink (equal power in every octave).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from seq2see.data.examples import Example
from seq2see.data.ngrams import IntArray

Samples: TypeAlias = NDArray[np.float32]
"""Mono samples between -1 and 1."""
CharacterTimes: TypeAlias = tuple[tuple[float, float], ...]
"""Start and end of each character of a text, in seconds."""

FULL_SCALE = 32767
"""The 16-bit integer of a sample of 1."""


class SampleSource(Protocol):
    """The samples of many recordings."""

    @property
    def lengths(self) -> IntArray:
        """The number of samples of each recording."""

    @property
    def fingerprint(self) -> str:
        """A hash of all samples, or of the settings from which they are rendered."""

    def __getitem__(self, index: int) -> Samples:
        """The samples of one recording."""

    def select(self, indices: IntArray) -> SampleSource:
        """The recordings with these indices."""


@dataclass(frozen=True, eq=False)
class StoredSamples:
    """Recordings in memory, as 16-bit integers end to end; recording n begins at `starts[n]`."""

    values: NDArray[np.int16]
    starts: IntArray
    lengths: IntArray

    @staticmethod
    def of(recordings: Sequence[Samples]) -> StoredSamples:
        """Store recordings."""
        lengths = np.array([len(each) for each in recordings], np.int64)
        values = np.empty(int(lengths.sum()), np.int16)
        starts = np.cumsum(lengths) - lengths
        for start, samples in zip(starts, recordings, strict=True):
            values[start : start + len(samples)] = to_int16(samples)
        return StoredSamples(values, starts, lengths)

    def __getitem__(self, index: int) -> Samples:
        start, length = self.starts[index], self.lengths[index]
        return self.values[start : start + length].astype(np.float32) / np.float32(FULL_SCALE)

    def select(self, indices: IntArray) -> StoredSamples:
        """The recordings with these indices; the array of samples is shared."""
        return StoredSamples(self.values, self.starts[indices], self.lengths[indices])

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all samples."""
        digest = hashlib.sha256(self.lengths.astype("<i8").tobytes())
        for start, length in zip(self.starts, self.lengths, strict=True):
            digest.update(np.ascontiguousarray(self.values[start : start + length]).data)
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class RenderedSamples:
    """Generated recordings: `render` is a function from the number of a recording to its samples."""

    render: Callable[[int], Samples]
    lengths: IntArray
    description: str
    """The settings that determine the samples, for the fingerprint."""
    numbers: IntArray
    """The number of each recording."""

    @staticmethod
    def of(render: Callable[[int], Samples], lengths: Sequence[int], description: str) -> RenderedSamples:
        """The recordings 0, 1, ... of these lengths."""
        return RenderedSamples(render, np.array(lengths, np.int64), description, np.arange(len(lengths)))

    def __getitem__(self, index: int) -> Samples:
        return self.render(int(self.numbers[index]))

    def select(self, indices: IntArray) -> RenderedSamples:
        """The recordings with these indices."""
        return RenderedSamples(self.render, self.lengths[indices], self.description, self.numbers[indices])

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the settings, the numbers and the lengths."""
        digest = hashlib.sha256(self.description.encode())
        digest.update(self.numbers.astype("<i8").tobytes() + self.lengths.astype("<i8").tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class RecordingExamples(Sequence[Example]):
    """A split of recordings, all of one sampling rate.

    As an `Example` a recording has its name as source and its text as target.
    """

    samples: SampleSource
    rate: int
    """Samples per second."""
    texts: tuple[str, ...]
    names: tuple[str, ...]
    """The file of each recording, or another name."""
    speakers: tuple[str, ...] = ()
    """The speaker of each recording, an empty name if unknown; empty if all are."""
    times: tuple[CharacterTimes, ...] = ()
    """Start and end of each character, in seconds; a space has the time of the gap. Empty if unknown."""

    def __post_init__(self) -> None:
        sizes = [len(self.samples.lengths), len(self.texts), len(self.names)]
        sizes += [len(each) for each in (self.speakers, self.times) if each]
        if len(set(sizes)) > 1:
            raise ValueError(f"recordings, texts, names, speakers and times differ in number: {sizes}")

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> RecordingExamples: ...
    def __getitem__(self, index: int | slice) -> Example | RecordingExamples:
        if isinstance(index, slice):
            return self.select(range(*index.indices(len(self))))
        return Example(self.names[index], self.texts[index], location=self.names[index])

    def select(self, indices: Sequence[int]) -> RecordingExamples:
        """The recordings with these indices, in this order."""
        texts, names, speakers, times = (
            tuple(each[index] for index in indices) if each else ()
            for each in (self.texts, self.names, self.speakers, self.times)
        )
        samples = self.samples.select(np.array(indices, np.int64))
        return RecordingExamples(samples, self.rate, texts, names, speakers, times)  # type: ignore[arg-type]

    @property
    def lengths(self) -> IntArray:
        """The number of samples of each recording."""
        return self.samples.lengths

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the sampling rate, of all samples and of all texts in their order."""
        return hashlib.sha256(f"{self.rate} {self.samples.fingerprint} {self.texts!r}".encode()).hexdigest()


def to_int16(samples: Samples) -> NDArray[np.int16]:
    """Samples as 16-bit integers; values beyond -1 and 1 are clipped."""
    return (np.clip(samples, -1, 1) * FULL_SCALE).round().astype(np.int16)


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
