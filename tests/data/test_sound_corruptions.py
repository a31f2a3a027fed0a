"""A generator of damaged and hostile sound files: each is read or named, and none causes a traceback."""

from __future__ import annotations

import io
import os
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sound_stubs import RATE, noise, sine, wav

from seq2see.core import seeds
from seq2see.core.errors import UserError
from seq2see.data.readers.data_report import ISSUE_KINDS
from seq2see.data.readers.sound_files import SoundError, decode_sound
from seq2see.data.readers.user_recordings import UserRecordings

Rng = np.random.Generator
COUNT = 2000
"""The number of damaged files."""
SHORT = noise(0.06) + sine(0.06)


def compressed(kind: str) -> bytes:
    """A short recording in another format, or in WAV where soundfile is not installed."""
    try:
        import soundfile
    except ImportError:
        return wav(SHORT)
    file = io.BytesIO()
    soundfile.write(file, SHORT, RATE, format=kind)
    return file.getvalue()


CONTENTS = {".wav": wav(SHORT), ".flac": compressed("FLAC"), ".ogg": compressed("OGG"), ".mp3": compressed("MP3")}


def cut(content: bytes, rng: Rng) -> bytes:
    """Lose the end."""
    return content[: int(rng.integers(0, len(content)))]


def flip(content: bytes, rng: Rng) -> bytes:
    """Change some bytes."""
    changed = bytearray(content)
    for position in rng.integers(0, len(content), rng.integers(1, 40)):
        changed[position] = rng.integers(256)
    return bytes(changed)


def flip_header(content: bytes, rng: Rng) -> bytes:
    """Change some of the first 60 bytes, but not the first four."""
    changed = bytearray(content)
    for position in rng.integers(4, min(60, len(content)), rng.integers(1, 8)):
        changed[position] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
    return bytes(changed)


def insert(content: bytes, rng: Rng) -> bytes:
    """Insert random bytes."""
    position = int(rng.integers(0, len(content)))
    return content[:position] + rng.bytes(int(rng.integers(1, 100))) + content[position:]


def repeat(content: bytes, rng: Rng) -> bytes:
    """Concatenate the file with itself, or with a part of itself."""
    return content + content[int(rng.integers(0, len(content))) :]


def random_bytes(content: bytes, rng: Rng) -> bytes:
    """Keep the first bytes, and continue with noise."""
    return content[: int(rng.integers(0, 45))] + rng.bytes(int(rng.integers(0, 500)))


def other_content(content: bytes, rng: Rng) -> bytes:
    """Another kind of file."""
    choices = [
        b"", b"\0" * 100, b"text\n" * 9, "文字".encode("utf-16"), b"<html>404</html>", b"PK\3\4" + rng.bytes(60),
        b"%PDF-1.4", b"\x1f\x8b" + rng.bytes(50), b"OggS" + bytes(200), b"fLaC" + bytes(200), b"ID3" + bytes(200),
        b"\xff\xfb" * 100, b"RIFF", b"RIFF\xff\xff\xff\xffWAVE", b"RIFX" + bytes(50), b"RF64" + bytes(50),
    ]  # fmt: skip
    return choices[rng.integers(len(choices))]


def wrong_header(content: bytes, rng: Rng) -> bytes:
    """A WAV file whose header has extreme numbers: zero channels, huge rates, sizes beyond the file."""
    extremes = [0, 1, 2, 7, 8, 16, 24, 32, 255, 0x7FFF, 0xFFFE, 0xFFFF]
    form, channels, bits = (int(rng.choice(extremes)) for _ in range(3))
    rate = int(rng.choice([0, 1, 100, RATE, 48_000, 400_000, 2**31, 2**32 - 1]))
    sizes = [int(rng.choice([0, 3, 16, 40, 2000, 2**31, 2**32 - 1])) for _ in range(3)]
    fmt = struct.pack("<HHIIHH", form, channels, rate, 0, 0, bits)
    body = rng.bytes(int(rng.integers(0, 2000)))
    return (
        struct.pack("<4sI4s4sI", b"RIFF", sizes[0], b"WAVE", b"fmt ", rng.choice([16, sizes[1]])) + fmt
        + struct.pack("<4sI", b"data", sizes[2]) + body
    )  # fmt: skip


def strange_floats(content: bytes, rng: Rng) -> bytes:
    """Floating-point samples that are infinite, not numbers, or huge."""
    samples = noise(0.06).astype("<f4")
    samples[rng.integers(0, len(samples), 5)] = rng.choice([np.nan, np.inf, -np.inf, 1e38, -1e30, 1e-40])
    fmt = struct.pack("<HHIIHH", 3, 1, RATE, RATE * 4, 4, 32)
    data = samples.tobytes()
    return struct.pack("<4sI4s4sI", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16) + fmt + struct.pack(
        "<4sI", b"data", len(data)
    ) + data  # fmt: skip


def without_sound(content: bytes, rng: Rng) -> bytes:
    """Silence, a constant, or nearly nothing."""
    return wav(np.full(int(rng.integers(0, 900)), rng.choice([0.0, 0.5, 1e-5, -1.0]), np.float32))


FAULTS: list[Callable[[bytes, Rng], bytes]] = [
    cut, flip, flip_header, insert, repeat, random_bytes, other_content, wrong_header, strange_floats, without_sound,
]  # fmt: skip


def outcome(content: bytes) -> str:
    """The kind of the error of a file, or that it was read; either is checked."""
    error: UserError | None = None
    try:
        samples = decode_sound(content, RATE, "file").samples
    except UserError as caught:
        error = caught
    if error is None:
        assert samples.dtype == np.float32
        assert len(samples) >= 1
        assert np.isfinite(samples).all()
        assert np.abs(samples).max() <= 1
        return "read"
    assert error.message.endswith(".")
    assert error.hint
    if not isinstance(error, SoundError):  # a header of FLAC, Ogg or MP3 where soundfile is not installed
        assert "soundfile" in error.message
        return "no soundfile"
    assert ISSUE_KINDS[error.kind].severity == "error"
    assert error.location == "file"
    return error.kind


def test_every_damaged_file_is_read_or_named():
    kinds, names = Counter[str](), list(CONTENTS)
    for number in range(COUNT):
        rng = seeds.generator(1, "damaged sound", number)
        content = FAULTS[number % len(FAULTS)](CONTENTS[names[number // len(FAULTS) % len(names)]], rng)
        kinds[outcome(content)] += 1
    assert kinds.keys() >= {"read", "corrupt recording", "not a recording", "silent recording", "recording too short"}
    assert kinds["corrupt recording"] > COUNT / 10


def hostile_folder(folder: Path) -> int:
    """A folder of good and bad files, links and folders; the number of files that count as records."""
    (folder / "yes" / "deep").mkdir(parents=True)
    for name in ("yes/1.wav", "yes/deep/2.wav", "no 1.wav", "no 2.wav"):
        (folder / name).write_bytes(wav(noise(0.1, seed=len(name) + ord(name[-5]))))
    (folder / "broken.wav").symlink_to(folder / "nowhere")
    (folder / "self.wav").symlink_to(folder / "self.wav")
    (folder / "yes" / "loop").symlink_to(folder)
    (folder / "folder.wav").mkdir()
    os.mkfifo(folder / "pipe.wav")
    (folder / "read me.txt").write_text("hello")
    (folder / ".hidden.wav").write_bytes(b"")
    (folder / "empty.mp3").write_bytes(b"")
    (folder / "zip.flac").write_bytes(b"PK\3\4" + bytes(50))
    (folder / os.fsdecode(b"\xff\xfe.wav")).write_bytes(b"RIFF")
    return 12


def test_links_pipes_and_folders_with_the_names_of_sounds_are_counted_and_named(tmp_path):
    records = hostile_folder(tmp_path / "set")
    corpus = UserRecordings(paths=(str(tmp_path / "set"),))
    report = corpus.check()[0]
    assert (report.read, report.kept, report.skipped, report.rejected) == (records, 4, 2, 6)
    assert report.counts["symlink loop"] == 1
    assert report.counts["ignored file"] == 2
    rejected = {Path(issue.location.file).name: kind for kind, issues in report.issues.items() for issue in issues}
    assert rejected["broken.wav"] == rejected["self.wav"] == rejected["pipe.wav"] == "unreadable recording"
    assert (rejected["empty.mp3"], rejected["zip.flac"]) == ("corrupt recording", "not a recording")
