"""WAV files: from bytes to samples, with every claim of the header checked against the file.

A WAV file is a list of chunks, each with a name of four letters, a size, and its content. The chunk `fmt ` has the
sampling rate and the form of the samples, and `data` the samples themselves: for each moment, one sample of every
channel. The module `wave` of the standard library reads integers only, and not the extensible header that most programs
write for 24 bits; so the header is read here, in a few lines.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

INTEGERS, FLOATS, EXTENSIBLE = 1, 3, 0xFFFE
"""The forms of samples in the chunk `fmt `; with EXTENSIBLE the form is at the end of the chunk."""
OTHER_FORMS = {2: "ADPCM", 6: "A-law", 7: "mu-law", 17: "ADPCM", 49: "GSM", 80: "MPEG", 85: "MP3"}
UNKNOWN_SIZES = (0xFFFFFFFF, 0x7FFFFFFF, 0x7FFFF000)
"""Sizes that programs write if the size is unknown in advance: the samples then reach to the end of the file."""


class WavError(Exception):
    """A WAV file that cannot be read: the kind of the issue, and the reason."""

    def __init__(self, kind: str, message: str):
        super().__init__(kind, message)
        self.kind, self.message = kind, message


@dataclass(frozen=True)
class WavHeader:
    """The content of the chunk `fmt `."""

    form: int
    channels: int
    rate: int
    bits: int

    @staticmethod
    def of(chunk: bytes) -> WavHeader:
        """Read the chunk."""
        if len(chunk) < 16:
            raise WavError("corrupt recording", f"The header has {len(chunk)} bytes instead of 16.")
        form, channels, rate, _, _, bits = struct.unpack("<HHIIHH", chunk[:16])
        if form == EXTENSIBLE and len(chunk) >= 26:
            form = struct.unpack("<H", chunk[24:26])[0]
        if form not in (INTEGERS, FLOATS):
            name = OTHER_FORMS.get(form, f"format {form}")
            raise WavError("not a recording", f"Its samples are compressed ({name}), which is not supported.")
        if bits not in ((8, 16, 24, 32) if form == INTEGERS else (32, 64)):
            raise WavError("corrupt recording", f"The header claims samples of {bits} bits.")
        if channels == 0:
            raise WavError("corrupt recording", "The header claims zero channels.")
        return WavHeader(form, channels, rate, bits)

    @property
    def bytes_per_moment(self) -> int:
        """The size of the samples of all channels at one moment."""
        return self.channels * self.bits // 8


def read_wav(content: bytes, max_samples: int) -> tuple[NDArray[np.float32], int]:
    """[moment, channel] of a WAV file, between -1 and 1, and its sampling rate."""
    header: WavHeader | None = None
    for name, size, chunk in _chunks(content):
        if name == b"fmt ":
            header = WavHeader.of(chunk)
        elif name == b"data":
            if header is None:
                raise WavError("corrupt recording", "The samples come before the header that describes them.")
            if size > len(chunk) and size not in UNKNOWN_SIZES:
                message = f"The header claims {size:,} bytes of samples, and {len(chunk):,} are there."
                raise WavError("corrupt recording", message)
            moments = len(chunk) // header.bytes_per_moment
            if moments * header.channels > max_samples:
                message = f"It has {moments * header.channels:,} samples, more than {max_samples:,}."
                raise WavError("recording too long", message)
            samples = _to_floats(chunk[: moments * header.bytes_per_moment], header)
            return samples.reshape(-1, header.channels), header.rate
    raise WavError("corrupt recording", "There are no samples in it (no chunk named data).")


def _chunks(content: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """The name, the claimed size and the content of each chunk; each begins at an even position."""
    if content[8:12] != b"WAVE":
        raise WavError("corrupt recording", "The first bytes are those of a RIFF file, but not of WAVE.")
    position = 12
    while position + 8 <= len(content):
        name, size = struct.unpack("<4sI", content[position : position + 8])
        yield name, size, content[position + 8 : position + 8 + size]
        position += 8 + size + size % 2


def _to_floats(chunk: bytes, header: WavHeader) -> NDArray[np.float32]:
    if header.form == FLOATS:
        return np.frombuffer(chunk, f"<f{header.bits // 8}").astype(np.float32)
    if header.bits == 8:  # 8-bit samples, and only these, are unsigned
        return (np.frombuffer(chunk, np.uint8).astype(np.float32) - 128) * np.float32(1 / 128)
    if header.bits == 24:
        octets = np.zeros((len(chunk) // 3, 4), np.uint8)
        octets[:, 1:] = np.frombuffer(chunk, np.uint8).reshape(-1, 3)  # as the upper bytes of a 32-bit integer
        return octets.view("<i4")[:, 0].astype(np.float32) * np.float32(2**-31)
    return np.frombuffer(chunk, f"<i{header.bits // 8}").astype(np.float32) * np.float32(2.0 ** (1 - header.bits))
