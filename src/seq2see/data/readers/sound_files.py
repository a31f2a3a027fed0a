"""Sound files to samples: one channel, at a requested sampling rate, or an error with the file and the reason.

The format of a file is detected from its first bytes, never from its name. WAV is read by `wav_files.py`; FLAC, Ogg
(Vorbis, Opus) and MP3 need the package soundfile. Several channels are averaged. Another sampling rate is converted by
`resampling.py`, which removes the frequencies that the new rate cannot represent.

The length is checked before and while samples are decoded: a file of a few kilobytes can contain hours of silence.
"""

from __future__ import annotations

import importlib.util
import stat
from dataclasses import dataclass
from fractions import Fraction
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seq2see.core.errors import UserError
from seq2see.data.readers.data_report import ISSUE_KINDS
from seq2see.data.readers.wav_files import WavError, read_wav
from seq2see.data.recordings import Samples
from seq2see.data.resampling import resample

MAX_BYTES = 1 << 28
"""The largest size of a file (256 MiB)."""
MAX_SAMPLES = 1 << 26
"""The largest number of samples of all channels together: 11 minutes of stereo at 48,000 Hz."""
RATES = (4_000, 384_000)
"""The lowest and highest supported sampling rate."""
MIN_SECONDS = 0.025
"""A recording must have at least one frame."""
MAX_PEAK = 8.0
"""Floating-point samples may exceed 1 a little (by 18 dB), and are then clipped."""
SILENT_PEAK = 1e-4
"""A recording whose largest deviation from its mean is smaller (-80 dB) is silent."""
CLIPPED, CLIPPED_RUN = 0.999, 3
"""Samples are clipped if so many in sequence have at least this absolute value."""
CLIPPED_SHARE = 1e-3
"""A recording is clipped if more than this share of its samples are."""
QUIET_PEAK = 0.01
"""A recording whose largest sample is smaller (-40 dB) is quiet."""
BLOCK = 1 << 16
"""The number of moments decoded at a time; a moment has one sample of each channel."""

FORMAT_MAGIC_BYTES: dict[bytes, str] = {
    b"RIFF": "WAV", b"fLaC": "FLAC", b"OggS": "Ogg", b"ID3": "MP3",
}  # fmt: skip
"""The first bytes of the supported formats; an MP3 may also begin with a frame of sound."""
SUFFIX_FORMATS: dict[str, str] = {
    ".wav": "WAV", ".wave": "WAV", ".flac": "FLAC", ".ogg": "Ogg", ".oga": "Ogg", ".opus": "Ogg", ".mp3": "MP3",
}  # fmt: skip
"""The format of each suffix, in lower case."""
UNSUPPORTED_SUFFIXES = {".aac", ".aif", ".aiff", ".amr", ".au", ".m4a", ".mka", ".mp2", ".mp4", ".webm", ".wma"}
"""Suffixes of sounds that are not decoded: such a file is an error, and not an ignored file."""
OTHER_FORMATS: dict[bytes, str] = {
    b"FORM": "an AIFF file",
    b".snd": "an AU file",
    b"RF64": "a WAV file of more than 4 GiB (RF64)",
    b"RIFX": "a WAV file with the other byte order (RIFX)",
    b"\x1aE\xdf\xa3": "a WebM or Matroska file",
    b"#!AMR": "an AMR file",
    b"0&\xb2u": "a WMA file",
    b"PK\3\4": "a zip archive",
    b"\x1f\x8b": "packed by gzip",
    b"%PDF": "a PDF document",
    b"\x89PNG": "an image",
    b"\xff\xd8\xff": "an image",
    b"version https://git-lfs": "a pointer of Git LFS",
}
"""The first bytes of other formats that often have the suffix of a sound."""


class SoundError(UserError):
    """The error for a recording that cannot be used; `kind` is the kind of the issue."""

    def __init__(self, kind: str, message: str, location: str, hint: str = ""):
        super().__init__(message, location=location, hint=hint or ISSUE_KINDS[kind].hint)
        self.kind = kind


@dataclass(frozen=True)
class DecodedSound:
    """The samples of a file, its properties, and its issues."""

    samples: Samples
    """One channel at the requested rate."""
    issues: tuple[str, ...]
    """The kinds of the issues: repairs and warnings."""
    rate: int
    """The sampling rate of the file."""
    channels: int
    format: str
    peak: float
    """The largest absolute sample in the file."""
    loudness: float
    """The root mean square of the samples, in dB relative to 1."""

    @property
    def messages(self) -> tuple[str, ...]:
        """The warnings for a user who transcribes this recording."""
        warnings = [kind for kind in self.issues if ISSUE_KINDS[kind].severity == "warning"]
        return tuple(f"{kind}: {ISSUE_KINDS[kind].hint.rstrip('.')}" for kind in warnings)


def read_sound(source: str | Path | bytes, rate: int) -> Samples:
    """The samples of a recording at this rate, between -1 and 1: one channel."""
    return decode_sound(source, rate).samples


def decode_sound(source: str | Path | bytes, rate: int, location: str = "") -> DecodedSound:
    """The samples of a recording at this rate, with its issues; every fault of the file is a `SoundError`."""
    path = None if isinstance(source, bytes) else Path(source)
    location = location or ("this recording" if path is None else str(path))
    content = source if isinstance(source, bytes) else read_bytes(Path(source), location)
    form = detect_format(content, location)
    try:
        channels, file_rate = read_wav(content, MAX_SAMPLES) if form == "WAV" else _read_compressed(content, location)
    except WavError as error:
        raise SoundError(error.kind, error.message, location) from None
    return _checked(channels, file_rate, form, rate, location)


def read_bytes(path: Path, location: str) -> bytes:
    """The content of a sound file."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # reading from a pipe could block forever
            message = "This is a folder: name the recordings in it." if path.is_dir() else "This is not a regular file."
            raise SoundError("unreadable recording", message, location)
        if status.st_size > MAX_BYTES:
            message = f"The file has {status.st_size:,} bytes, more than {MAX_BYTES:,}."
            raise SoundError("recording too long", message, location)
        return path.read_bytes()
    except (OSError, ValueError) as error:  # a name with a NUL character is a ValueError
        message = f"The recording cannot be read: {getattr(error, 'strerror', '') or error}."
        raise SoundError("unreadable recording", message, location) from None


def detect_format(content: bytes, location: str) -> str:
    """The format of a file by its first bytes."""
    if not content:
        raise SoundError("corrupt recording", "The file is empty.", location)
    found = next((form for magic, form in FORMAT_MAGIC_BYTES.items() if content.startswith(magic)), "")
    # A frame begins with eleven bits of 1; then come two bits of the version and two of the layer: 01 is layer III.
    is_frame = len(content) > 1 and content[0] == 0xFF and content[1] & 0xE6 == 0xE2
    if found or is_frame:
        return found or "MP3"
    name = next((name for magic, name in OTHER_FORMATS.items() if content.startswith(magic)), "")
    if content[4:8] == b"ftyp":
        name = "an MP4 or M4A file"
    start = content[:1000].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype html", b"<html")):
        name = "a web page"
    if not name:
        printable = not any(byte < 9 for byte in content[:1000])
        name = "text" if printable else "an unknown format"
    raise SoundError("not a recording", f"This is {name}, which cannot be read as a recording.", location)


def _read_compressed(content: bytes, location: str) -> tuple[NDArray[np.float32], int]:
    """[moment, channel] of a FLAC, Ogg or MP3 file, and its sampling rate."""
    if importlib.util.find_spec("soundfile") is None:
        hint = 'Install it with `pip install "seq2see[audio]"`, or convert the recordings to WAV.'
        raise UserError("FLAC, Ogg and MP3 need the package soundfile, which is not installed.", hint=hint)
    import soundfile

    try:
        with soundfile.SoundFile(BytesIO(content)) as file:
            blocks, count = list[NDArray[np.float32]](), 0
            # The claimed length is not trusted: samples are decoded in blocks, up to the limit.
            while len(block := file.read(BLOCK, dtype="float32", always_2d=True)):
                blocks.append(block)
                count += block.size
                if count > MAX_SAMPLES:
                    message = f"It has more than {MAX_SAMPLES:,} samples."
                    raise SoundError("recording too long", message, location)
            if file.format == "FLAC" and file.frames > (moments := sum(map(len, blocks))):
                message = f"The header claims {file.frames:,} samples, and {moments:,} are there."
                raise SoundError("corrupt recording", message, location)
            return np.concatenate(blocks) if blocks else np.zeros((0, 1), np.float32), file.samplerate
    except UserError:
        raise
    except Exception as error:  # the decoders raise several types for damaged data
        message = f"The recording is damaged or truncated: {str(error).rstrip('.') or type(error).__name__}."
        raise SoundError("corrupt recording", message, location) from None


def _checked(channels: NDArray[np.float32], file_rate: int, form: str, rate: int, location: str) -> DecodedSound:
    """The recording with one channel at the requested rate, after all checks."""
    if not RATES[0] <= file_rate <= RATES[1]:
        message = f"Its sampling rate is {file_rate:,} Hz; supported are {RATES[0]:,} to {RATES[1]:,} Hz."
        raise SoundError("corrupt recording", message, location)
    if len(channels) < MIN_SECONDS * file_rate:
        message = f"It has {len(channels):,} samples, {1000 * len(channels) / file_rate:.1f} ms."
        raise SoundError("recording too short", message, location)
    if not np.isfinite(channels).all():
        raise SoundError("corrupt recording", "Some samples are not numbers (NaN or infinite).", location)
    peak = float(np.abs(channels).max())
    if peak > MAX_PEAK:
        raise SoundError("corrupt recording", f"Its largest sample is {peak:,.3g} instead of at most 1.", location)
    issues = []
    if channels.shape[1] > 1:
        issues.append("several channels")
    mono = channels.mean(axis=1)
    deviation = float(np.abs(mono - mono.mean()).max())
    if deviation < SILENT_PEAK:
        cancels = np.abs(channels - channels.mean(axis=0)).max() >= SILENT_PEAK
        message = (
            "Its channels cancel each other out." if cancels else "It is silent: all samples are equal, or nearly."
        )
        raise SoundError("silent recording", message, location)
    if is_clipped(channels):
        issues.append("clipped recording")
    elif deviation < QUIET_PEAK:
        issues.append("quiet recording")
    if file_rate != rate:
        issues.append("lower sampling rate" if file_rate < rate else "other sampling rate")
    loudness = 10 * np.log10(float(np.square(mono, dtype=np.float64).mean()) + 1e-12)
    samples = resample(mono, Fraction(rate, file_rate))
    return DecodedSound(
        samples.clip(-1, 1), tuple(issues), file_rate, channels.shape[1], form, peak, round(float(loudness), 1)
    )


def is_clipped(channels: NDArray[np.float32]) -> bool:
    """Whether the recording was too loud for its device: runs of samples at the largest possible value."""
    beyond = np.abs(channels) >= CLIPPED
    runs = beyond[: len(beyond) - CLIPPED_RUN + 1].copy()
    for shift in range(1, CLIPPED_RUN):
        runs &= beyond[shift : len(beyond) - CLIPPED_RUN + 1 + shift]
    return bool(runs.mean() > CLIPPED_SHARE)
