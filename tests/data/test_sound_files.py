"""Sound files: every form of samples, conversion to one channel and one rate, and a name for every fault."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from sound_stubs import RATE, noise, sine, wav

from seq2see.core.errors import UserError
from seq2see.data.readers import sound_files
from seq2see.data.readers.sound_files import SoundError, decode_sound, detect_format, is_clipped, read_sound


def chunk(name: bytes, content: bytes, size: int | None = None) -> bytes:
    return struct.pack("<4sI", name, len(content) if size is None else size) + content + b"\0" * (len(content) % 2)


def header(form: int = 1, channels: int = 1, rate: int = RATE, bits: int = 16) -> bytes:
    return struct.pack("<HHIIHH", form, channels, rate, rate * channels * bits // 8, channels * bits // 8, bits)


def riff(*chunks: bytes) -> bytes:
    content = b"WAVE" + b"".join(chunks)
    return struct.pack("<4sI", b"RIFF", len(content)) + content


PCM = (sine(0.1) * 32767).astype("<i2").tobytes()


@pytest.mark.parametrize("bits, tolerance", [(8, 1.5 / 127), (16, 1e-4), (24, 1e-6), (32, 1e-6)])
def test_integers_of_every_size_are_read(bits, tolerance):
    samples = sine(0.2, peak=0.9)
    np.testing.assert_allclose(read_sound(wav(samples, bits=bits), RATE), samples, atol=tolerance)


@pytest.mark.parametrize("kind", ["<f4", "<f8"])
def test_floating_point_samples_are_read(kind):
    samples = sine(0.2)
    content = riff(chunk(b"fmt ", header(3, bits=int(kind[2]) * 8)), chunk(b"data", samples.astype(kind).tobytes()))
    np.testing.assert_allclose(read_sound(content, RATE), samples, atol=1e-7)


def test_the_extensible_header_and_other_chunks_are_read():
    form = header(0xFFFE, bits=16) + struct.pack("<HHIH", 22, 16, 4, 1) + b"\0" * 14
    content = riff(chunk(b"LIST", b"odd"), chunk(b"fmt ", form), chunk(b"fact", b"1234"), chunk(b"data", PCM))
    np.testing.assert_allclose(read_sound(content, RATE), sine(0.1), atol=1e-4)


def test_a_size_that_the_writer_did_not_know_reaches_to_the_end():
    content = riff(chunk(b"fmt ", header()), chunk(b"data", PCM, size=0xFFFFFFFF))
    assert len(read_sound(content, RATE)) == 800


def test_channels_are_averaged():
    left, right = sine(0.1, 300), sine(0.1, 500)
    both = np.stack([left, right], 1).ravel()
    content = riff(chunk(b"fmt ", header(3, 2, bits=32)), chunk(b"data", both.tobytes()))
    decoded = decode_sound(content, RATE)
    np.testing.assert_allclose(decoded.samples, (left + right) / 2, atol=1e-6)
    assert (decoded.issues, decoded.channels) == (("several channels",), 2)


def test_another_rate_is_converted_with_a_low_pass_filter():
    both = sine(0.5, 440, 48_000, 0.4) + sine(0.5, 6000, 48_000, 0.4)
    decoded = decode_sound(wav(both, 48_000), RATE)
    assert len(decoded.samples) == 4000
    np.testing.assert_allclose(decoded.samples[200:-200], sine(0.5, 440, RATE, 0.4)[200:-200], atol=2e-3)
    assert decoded.issues == ("other sampling rate",)
    assert decode_sound(wav(sine(0.1)), 16_000).issues == ("lower sampling rate",)


def test_the_path_may_be_a_text_a_path_or_the_content(tmp_path):
    (tmp_path / "a.wav").write_bytes(wav(sine(0.1)))
    first, second = read_sound(str(tmp_path / "a.wav"), RATE), read_sound(tmp_path / "a.wav", RATE)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, read_sound(wav(sine(0.1)), RATE))
    assert first.dtype == np.float32


@pytest.mark.parametrize("kind", ["FLAC", "OGG", "MP3"])
def test_compressed_files_are_read(kind):
    soundfile = pytest.importorskip("soundfile")
    file = io.BytesIO()
    soundfile.write(file, sine(0.5), RATE, format=kind)
    decoded = decode_sound(file.getvalue(), RATE)
    assert decoded.format == {"OGG": "Ogg"}.get(kind, kind)
    assert len(decoded.samples) == pytest.approx(4000, abs=0 if kind == "FLAC" else 1200)
    spectrum = np.abs(np.fft.rfft(decoded.samples[:4000]))
    assert np.fft.rfftfreq(len(decoded.samples[:4000]), 1 / RATE)[spectrum.argmax()] == pytest.approx(440, abs=5)


def test_without_soundfile_the_command_that_installs_it_is_named(monkeypatch):
    monkeypatch.setattr(sound_files.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r'pip install "seq2see\[audio\]"'):
        read_sound(b"fLaC" + bytes(50), RATE)
    assert len(read_sound(wav(sine(0.1)), RATE)) == 800


def test_loudness_and_peak_are_measured():
    decoded = decode_sound(wav(sine(1.0, peak=0.5)), RATE)
    assert decoded.peak == pytest.approx(0.5, abs=1e-3)
    assert decoded.loudness == pytest.approx(-9.0, abs=0.1)  # 20 log10(0.5 / sqrt 2)
    assert decoded.messages == ()


def test_clipping_needs_runs_at_the_largest_value():
    loud = np.clip(sine(0.2, 200, peak=1.5), -1, 1)
    assert decode_sound(wav(loud), RATE).issues == ("clipped recording",)
    assert "was too loud" in decode_sound(wav(loud), RATE).messages[0]
    peaks = np.zeros((1000, 1), np.float32)
    peaks[::10] = 1  # a tenth of the samples, but no two in a row
    assert not is_clipped(peaks)
    assert not is_clipped(sine(0.2, 200, peak=1.0)[:, None] * 0.998)


def test_a_quiet_recording_is_a_warning():
    assert decode_sound(wav(sine(0.2, peak=0.005)), RATE).issues == ("quiet recording",)
    assert decode_sound(wav(sine(0.2, peak=0.02)), RATE).issues == ()


FAULTS = {
    "empty": (b"", "corrupt recording", "The file is empty."),
    "text": (b"hello, this is text", "not a recording", "This is text"),
    "web page": (b"<!DOCTYPE html><html>404</html>", "not a recording", "This is a web page"),
    "zip": (b"PK\x03\x04" + bytes(40), "not a recording", "This is a zip archive"),
    "webm": (b"\x1aE\xdf\xa3" + bytes(40), "not a recording", "WebM or Matroska"),
    "m4a": (bytes(4) + b"ftypM4A " + bytes(40), "not a recording", "MP4 or M4A"),
    "no wave": (b"RIFF" + bytes(40), "corrupt recording", "not of WAVE"),
    "no data": (riff(chunk(b"fmt ", header())), "corrupt recording", "no chunk named data"),
    "data first": (riff(chunk(b"data", PCM), chunk(b"fmt ", header())), "corrupt recording", "before the header"),
    "short header": (riff(chunk(b"fmt ", b"12")), "corrupt recording", "has 2 bytes instead of 16"),
    "zero channels": (
        riff(chunk(b"fmt ", header(channels=0)), chunk(b"data", PCM)), "corrupt recording", "zero channels",
    ),
    "13 bits": (riff(chunk(b"fmt ", header(bits=13)), chunk(b"data", PCM)), "corrupt recording", "13 bits"),
    "mu-law": (riff(chunk(b"fmt ", header(7, bits=8)), chunk(b"data", PCM)), "not a recording", "mu-law"),
    "truncated": (wav(sine(0.1))[:-700], "corrupt recording", "claims 1,600 bytes of samples, and 900 are there"),
    "no rate": (riff(chunk(b"fmt ", header(rate=0)), chunk(b"data", PCM)), "corrupt recording", "rate is 0 Hz"),
    "no samples": (riff(chunk(b"fmt ", header()), chunk(b"data", b"")), "recording too short", "0 samples, 0.0 ms"),
    "short": (wav(sine(0.02)), "recording too short", "160 samples, 20.0 ms"),
    "silent": (wav(np.zeros(800, np.float32)), "silent recording", "all samples are equal"),
    "constant": (wav(np.full(800, 0.4, np.float32)), "silent recording", "all samples are equal"),
    "NaN": (
        riff(chunk(b"fmt ", header(3, bits=32)), chunk(b"data", np.full(800, np.nan, "<f4").tobytes())),
        "corrupt recording", "are not numbers",
    ),
    "opposite channels": (
        riff(chunk(b"fmt ", header(3, 2, bits=32)),
             chunk(b"data", np.stack([sine(0.1), -sine(0.1)], 1).astype("<f4").tobytes())),
        "silent recording", "cancel each other out",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_has_its_name_and_its_remedy(name, tmp_path):
    content, kind, message = FAULTS[name]
    path = tmp_path / "a.wav"
    path.write_bytes(content)
    with pytest.raises(SoundError) as caught:
        read_sound(path, RATE)
    assert caught.value.kind == kind
    assert message in caught.value.message
    assert caught.value.location == str(path)
    assert caught.value.hint


def test_folders_missing_files_and_impossible_names_are_named(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path, message in (
        (tmp_path, "This is a folder"), (tmp_path / "none.wav", "No such file"), (tmp_path / "loop", "cannot be read"),
        ("a\0b.wav", "null"),
    ):  # fmt: skip
        with pytest.raises(SoundError, match=message) as caught:
            read_sound(path, RATE)
        assert caught.value.kind == "unreadable recording"


def test_a_long_recording_is_refused_before_and_while_it_is_decoded(monkeypatch):
    monkeypatch.setattr(sound_files, "MAX_SAMPLES", 5000)
    content = riff(chunk(b"fmt ", header()), chunk(b"data", bytes(20_000)))
    with pytest.raises(SoundError, match="It has 10,000 samples, more than 5,000"):
        read_sound(content, RATE)
    soundfile = pytest.importorskip("soundfile")
    monkeypatch.setattr(sound_files, "BLOCK", 1000)
    file = io.BytesIO()
    soundfile.write(file, np.zeros(RATE * 60, np.float32), RATE, format="FLAC")
    assert len(file.getvalue()) < 20_000
    with pytest.raises(SoundError, match="It has more than 5,000 samples"):
        read_sound(file.getvalue(), RATE)


def test_a_large_file_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(sound_files, "MAX_BYTES", 100)
    (tmp_path / "a.wav").write_bytes(wav(noise(0.1)))
    with pytest.raises(SoundError, match="1,644 bytes, more than 100"):
        read_sound(tmp_path / "a.wav", RATE)


def test_samples_beyond_one_are_clipped_after_the_conversion_too():
    """A low-pass filter overshoots at the edges of a square wave."""
    square = np.sign(sine(0.2, 300, 48_000)) * np.float32(0.99)
    for samples, rate in ((sine(0.1, peak=1.5), RATE), (square, 48_000)):
        content = riff(chunk(b"fmt ", header(3, rate=rate, bits=32)), chunk(b"data", samples.astype("<f4").tobytes()))
        assert np.abs(read_sound(content, RATE)).max() == 1


def test_a_file_without_its_last_byte_is_truncated():
    content = riff(chunk(b"fmt ", header()), chunk(b"data", PCM))
    with pytest.raises(SoundError, match="claims 1,600 bytes of samples, and 1,599 are there"):
        read_sound(content[:-1], RATE)


def test_only_the_third_layer_of_mpeg_is_mp3():
    """The two bits of the layer are 01 in MP3, 10 in MP2 and 11 in MP1; 00 is AAC."""
    assert detect_format(b"\xff\xfb\x90\x00", "x") == detect_format(b"\xff\xf3\x90\x00", "x") == "MP3"
    for second in (b"\xfd", b"\xff", b"\xf1"):
        with pytest.raises(SoundError, match="unknown format"):
            detect_format(b"\xff" + second + bytes(9), "x")


class ShortFlac:
    """A decoder that ends without an error before the number of samples that the header claims."""

    format, frames, samplerate = "FLAC", 4001, RATE

    def __init__(self, file):
        self.blocks = [sine(0.5)[:, None], np.zeros((0, 1), np.float32)]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def read(self, count, **form):
        return self.blocks.pop(0)


def test_a_flac_with_fewer_samples_than_its_header_claims_is_corrupt(monkeypatch):
    soundfile = pytest.importorskip("soundfile")
    monkeypatch.setattr(soundfile, "SoundFile", ShortFlac)
    with pytest.raises(SoundError, match="claims 4,001 samples, and 4,000 are there"):
        read_sound(b"fLaC", RATE)
    monkeypatch.setattr(ShortFlac, "frames", 4000)
    assert len(read_sound(b"fLaC", RATE)) == 4000
