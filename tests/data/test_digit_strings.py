"""Strings of digits from a small archive: texts, times and speakers belong together, and joins cannot be heard."""

from __future__ import annotations

import io
import lzma
import tarfile
from itertools import pairwise

import numpy as np
import pytest
from sound_stubs import RATE, noise, sine, wav

from catalogue_stubs import stub_catalogue
from seq2see.core.errors import UserError
from seq2see.data.catalogue import digit_strings
from seq2see.data.catalogue.catalogue import CatalogueCorpus
from seq2see.data.catalogue.digit_strings import DigitStrings, StringPlan, split_by_speaker
from seq2see.data.catalogue.download import read_tar_members
from seq2see.data.catalogue.spoken_digits import SPEECH_LEVEL, SpokenDigit, frame_levels, trim_and_scale

TAKES = 4
SPEAKERS = ("george", "jackson", "lucas")


def padded_digit(digit: int, seed: int) -> np.ndarray:
    """A tone of 0.2 s, whose frequency tells the digit, with a background of 0.3 s around it."""
    sound = noise(0.5, seed, scale=0.001)
    sound[1200:2800] += sine(0.2, 300 + 100 * digit, peak=0.2)
    return sound


def archive(speakers=SPEAKERS, extra: dict[str, bytes] | None = None) -> bytes:
    files = {
        f"recordings/{digit}_{name}_{take}.wav": wav(padded_digit(digit, take + 10 * digit + 1000 * number))
        for number, name in enumerate(speakers)
        for digit in range(10)
        for take in range(TAKES)
    } | (extra or {})
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as opened:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            opened.addfile(member, io.BytesIO(content))
    return file.getvalue()


@pytest.fixture
def write_corpora(tmp_path, monkeypatch):
    """Writes stubs of fsdd and audiomnist, with their hashes in the catalogue."""
    write_files = stub_catalogue(tmp_path, monkeypatch)
    monkeypatch.setattr("seq2see.data.catalogue.digit_strings.HELD_OUT", 20)

    def write(fsdd: bytes, audiomnist: bytes = b"") -> None:
        write_files("fsdd", {"recordings.tar.xz": fsdd})
        (tmp_path / "fsdd" / "recordings.tar.xz").write_bytes(lzma.compress(fsdd))
        if audiomnist:
            write_files("audiomnist", {"recordings.tar": audiomnist})

    return write


def test_trimming_keeps_the_speech_and_scaling_makes_it_as_loud_as_all_others():
    for peak in (0.01, 0.2):
        sound = noise(0.5, 3, scale=peak / 200)
        sound[1200:2800] += sine(0.2, 500, peak=peak)
        trimmed, background = trim_and_scale(sound, RATE)
        assert 1600 < len(trimmed) < 1600 + 0.16 * RATE
        powers = np.sort(np.square(trimmed))[-len(trimmed) // 4 :]
        assert np.sqrt(powers.mean()) == pytest.approx(SPEECH_LEVEL, rel=0.02)
        assert background == pytest.approx(SPEECH_LEVEL / 200, rel=0.5)


def test_the_level_of_a_frame_is_its_mean_power_in_db():
    levels = frame_levels(np.array([0.1] * 80 + [0.0] * 80 + [1.0] * 79, np.float32), RATE)
    np.testing.assert_allclose(levels, [-20, -96], atol=0.01)


def test_texts_times_and_speakers_belong_together(write_corpora):
    write_corpora(archive())
    splits, [report] = DigitStrings(size=50, max_digits=3).recordings(RATE)
    assert (report.read, report.kept) == (120, 120)
    assert {name: len(each) for name, each in splits.items()} == {"train": 50, "valid": 20, "test": 20}
    for part in splits.values():
        assert {len(text) for text in part.texts} == {1, 2, 3}
        for index, (text, times) in enumerate(zip(part.texts, part.times, strict=True)):
            sound = part.samples[index]
            assert len(sound) == part.lengths[index]
            for letter, (start, end) in zip(text, times, strict=True):
                spectrum = np.abs(np.fft.rfft(sound[round(start * RATE) : round(end * RATE)], RATE))
                assert spectrum[250:1350].argmax() + 250 == pytest.approx(300 + 100 * int(letter), abs=8)


def test_a_test_speaker_is_never_trained_on(write_corpora):
    write_corpora(archive(), archive([f"{number:02}" for number in range(1, 11)]))
    for corpora, test_speakers in (
        (("fsdd",), ()), (("fsdd",), ("fsdd/lucas",)), (("fsdd", "audiomnist"), ()), (("audiomnist",), ()),
    ):  # fmt: skip
        corpus = DigitStrings(corpora=corpora, size=60, max_digits=2, test_speakers=test_speakers)
        speakers = {name: set(each.speakers) for name, each in corpus.recordings(RATE)[0].items()}
        assert not speakers["test"] & (speakers["train"] | speakers["valid"])
        assert speakers["test"] == set(test_speakers or speakers["test"])
        if "audiomnist" in corpora:
            assert not speakers["valid"] & speakers["train"]


def digits_of(speakers: int) -> list[SpokenDigit]:
    return [
        SpokenDigit(str(digit), f"speaker {speaker}", f"{speaker} {digit} {take}", noise(0.1), 0.0)
        for speaker in range(speakers)
        for digit in range(10)
        for take in range(TAKES)
    ]


def test_few_speakers_are_validated_on_other_recordings_of_their_own():
    digits = digits_of(4)
    splits = split_by_speaker(digits, ("speaker 2",))
    names = {split: {digit.name for digit in each} for split, each in splits.items()}
    assert len(names["test"]) == 40
    assert not names["valid"] & names["train"]
    assert {digit.speaker for digit in splits["valid"]} == {"speaker 0", "speaker 1", "speaker 3"}
    assert 2 < len(names["valid"]) < 30
    assert split_by_speaker(digits[::-1], ("speaker 2",))["valid"] == splits["valid"][::-1]


def test_fifteen_percent_of_many_speakers_are_held_out():
    splits = split_by_speaker(digits_of(20), ())
    assert {name: len({each.speaker for each in part}) for name, part in splits.items()} == {
        "train": 14, "valid": 3, "test": 3,
    }  # fmt: skip


def test_an_unknown_speaker_and_a_test_without_training_are_named():
    with pytest.raises(UserError, match="There is no speaker 'speaker x'"):
        split_by_speaker(digits_of(3), ("speaker x",))
    with pytest.raises(UserError, match="none to train on"):
        split_by_speaker(digits_of(1), ())


def plan(background: float = 0.0) -> StringPlan:
    digits = [SpokenDigit("1", "x", "1", np.ones(1000, np.float32), background)] * 30
    return StringPlan.sample(digits, 8, RATE, np.random.default_rng(5))


def test_neighbors_overlap_by_at_most_a_fade_and_pause_by_at_most_300_ms():
    for seed in range(50):
        digits = [SpokenDigit("1", "x", "1", np.ones(1000 + seed, np.float32), 0.0)]
        times = StringPlan.sample(digits, 8, RATE, np.random.default_rng(seed)).times
        gaps = [second[0] - first[1] for first, second in pairwise(times)]
        assert all(-0.0201 < gap < 0.2801 for gap in gaps)


def test_one_noise_lies_under_the_whole_string_above_the_background_of_the_recordings():
    for background in (0.0, 0.01):
        string = plan(background)
        sound = string.render(np.random.default_rng(1)).astype(np.float64)
        silent = np.ones(len(sound), bool)
        for start, end in string.times:
            silent[round(start * RATE) : round(end * RATE)] = False
        levels = [sound[silent][part].std() for part in np.array_split(np.arange(silent.sum()), 4)]
        assert min(levels) > 0
        assert max(levels) < 3 * min(levels)
        # The digits have the value 1 before everything is scaled.
        scale = sound[~silent].mean()
        assert np.mean(levels) / scale > background


def test_a_digit_fades_in_without_a_click():
    string = plan()
    sound = string.render(np.random.default_rng(1)).astype(np.float64)
    steps = np.abs(np.diff(sound)) / sound.max()
    assert steps.max() < 0.25  # the noise; an abrupt start would be a step of 1


def test_a_string_depends_on_its_number_alone(write_corpora):
    write_corpora(archive())
    small, large = (DigitStrings(size=size).recordings(RATE)[0] for size in (2, 5))
    assert small["train"].texts == large["train"].texts[:2]
    np.testing.assert_array_equal(small["train"].samples[1], large["train"].samples[1])
    assert small["test"].fingerprint == large["test"].fingerprint


def test_a_truncated_archive_is_named(tmp_path):
    path = tmp_path / "recordings.tar.xz"
    path.write_bytes(lzma.compress(archive(speakers=("george",)))[:-2000])
    with pytest.raises(UserError, match="This tar archive cannot be read"):
        read_tar_members(path)


def test_a_bad_recording_of_a_digit_is_rejected_and_counted(write_corpora):
    write_corpora(archive(extra={"recordings/3_george_9.wav": b"RIFF", "recordings/x.wav": wav(noise(0.1))}))
    _, [report] = DigitStrings(size=1).recordings(RATE)
    assert (report.read, report.kept, report.rejected) == (122, 120, 2)
    write_corpora(archive(speakers=()))
    with pytest.raises(UserError, match="no recording of a digit"):
        DigitStrings(size=1).recordings(RATE)


def test_a_text_recipe_with_a_corpus_of_recordings_is_an_error():
    with pytest.raises(UserError, match=r"fsdd is a set of recordings, not of texts.*digit-strings"):
        CatalogueCorpus(name="fsdd").splits()
    with pytest.raises(UserError, match="mandarin-words"):
        CatalogueCorpus(name="audio-cmn").splits()


def test_the_noise_of_a_loud_background_stays_10_db_below_speech(monkeypatch):
    monkeypatch.setattr(digit_strings, "colored_noise", lambda count, pinkness, rng: np.ones(count))
    digit = SpokenDigit("1", "x", "1", np.full(1009, SPEECH_LEVEL, np.float32), background=10 * SPEECH_LEVEL)
    sound = StringPlan((digit,), (800,), 2003, RATE).render(np.random.default_rng(1))
    assert sound[100] / (sound[1300] - sound[100]) == pytest.approx(10**-0.5, rel=1e-3)
