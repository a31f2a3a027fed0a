"""The user's own recordings: texts from lists, folders and file names; every record is counted."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from sound_stubs import RATE, noise, sine, wav

from seq2see.cli.app import run as command_line
from seq2see.core.errors import UserError
from seq2see.data.readers.data_kinds import guess_data_kind
from seq2see.data.readers.user_recordings import FINAL_NUMBER, UserRecordings, text_of_name

COUNT = 24


def write(path: Path, seed: int, seconds: float = 0.3) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(wav(noise(seconds, seed)))
    return path


def totals(report) -> tuple[int, int, int, int]:
    assert report.read == report.kept + report.skipped + report.rejected
    return report.read, report.kept, report.skipped, report.rejected


def texts_of(folder: Path, **settings) -> dict[str, list[str]]:
    splits, _ = UserRecordings(paths=(str(folder),), **settings).recordings(RATE)
    return {name: sorted(examples.texts) for name, examples in splits.items()}


def all_texts(folder: Path) -> set[str]:
    return {text for texts in texts_of(folder).values() for text in texts}


@pytest.mark.parametrize(
    "name, text",
    [
        ("yes", "yes"), ("yes_2", "yes"), ("yes 2", "yes"), ("yes (2)", "yes"), ("turn_left_12", "turn left"),
        ("7", "7"), ("mp7", "mp7"), ("7_3", "7"), ("一下子-4", "一下子"), ("a 1 2", "a 1"),
    ],
)  # fmt: skip
def test_the_text_of_a_file_name_has_no_number_at_its_end(name, text):
    assert text_of_name(FINAL_NUMBER.sub("", name)) == text


def test_names_of_folders_and_files_are_texts(tmp_path):
    for seed in range(COUNT):
        write(tmp_path / "turn_left" / "by me" / f"{seed}.wav", seed)
        write(tmp_path / f"turn right {seed}.wav", 100 + seed)
    assert all_texts(tmp_path) == {"turn left", "turn right"}


def test_folders_for_splits_are_splits(tmp_path):
    for split, seeds in (("train", range(5)), ("dev", range(5, 8)), ("test", range(8, 10))):
        for seed in seeds:
            write(tmp_path / split / "yes" / f"{seed}.wav", seed)
    assert {name: len(each) for name, each in texts_of(tmp_path).items()} == {"train": 5, "valid": 3, "test": 2}
    assert all_texts(tmp_path) == {"yes"}


def rows(folder: Path) -> list[tuple[str, str, str]]:
    return [(write(folder / f"{n}.wav", n).name, f"text {n % 7}", f"speaker {n % 6}") for n in range(COUNT)]


def as_csv(table) -> str:
    return "path,text,speaker\n" + "".join(",".join(row) + "\n" for row in table)


def as_tsv(table) -> str:
    return "path\ttext\tspeaker\n" + "".join("\t".join(row) + "\n" for row in table)


def as_jsonl(table) -> str:
    return "".join(json.dumps(dict(zip(("path", "text", "speaker"), row, strict=True))) + "\n" for row in table)


@pytest.mark.parametrize("suffix, form", [(".csv", as_csv), (".tsv", as_tsv), (".jsonl", as_jsonl)])
@pytest.mark.parametrize("in_folder", [False, True])
def test_a_list_names_paths_texts_and_speakers(tmp_path, suffix, form, in_folder):
    table = tmp_path / f"recordings{suffix}"
    table.write_text(form(rows(tmp_path)), encoding="utf-8")
    splits, [report] = UserRecordings(paths=(str(tmp_path if in_folder else table),)).recordings(RATE)
    assert totals(report) == (COUNT, COUNT, 0, 0)
    speakers = {name: set(each.speakers) for name, each in splits.items()}
    assert all(speakers.values())
    assert sum(map(len, speakers.values())) == len(set.union(*speakers.values())) == 6
    texts = dict(zip(splits["train"].names, splits["train"].texts, strict=True))
    assert all(text == f"text {int(Path(name).stem) % 7}" for name, text in texts.items())


def test_texts_are_trimmed_and_composed(tmp_path):
    """Lists, folders and file names may write an accented letter as two characters."""
    write(tmp_path / "a.wav", 1)
    write(tmp_path / "x" / "e\u0301te\u0301" / "b.wav", 2)
    (tmp_path / "list.csv").write_text("path,text\na.wav, e\u0301te\u0301 \n", encoding="utf-8")
    from_list, _ = UserRecordings(paths=(str(tmp_path / "list.csv"),), valid=(str(tmp_path / "x"),), test=(
        str(tmp_path / "list.csv"),
    )).recordings(RATE)  # fmt: skip
    assert from_list["train"].texts == from_list["valid"].texts == ("\u00e9t\u00e9",)


def test_a_list_without_header_or_speakers_is_held_out_by_recording(tmp_path):
    table = tmp_path / "list.tsv"
    table.write_text("".join(f"{path}\t{text}\n" for path, text, _ in rows(tmp_path)), encoding="utf-8")
    splits, _ = UserRecordings(paths=(str(table),)).recordings(RATE)
    assert splits["train"].speakers == ()
    assert set(splits["train"].texts) == {f"text {n}" for n in range(7)}
    assert {name: len(each) for name, each in splits.items()} == {"train": 22, "valid": 1, "test": 1}


def test_a_text_that_occurs_twice_stays_in_training_however_much_is_held_out(tmp_path, monkeypatch):
    monkeypatch.setattr("seq2see.data.hold_out.HELD_OUT", 0.3)
    for seed in range(COUNT):
        write(tmp_path / f"word{seed // 2}" / f"{seed}.wav", seed)
    splits = texts_of(tmp_path)
    assert set(splits["train"]) == {f"word{number}" for number in range(COUNT // 2)}
    assert len(splits["test"]) == 7
    assert len(splits["valid"]) == 5  # every text is in training once, and cannot be spared again


def test_copies_of_a_recording_stay_in_one_split(tmp_path):
    for seed in range(COUNT):
        for copy in range(2):
            write(tmp_path / "yes" / f"{seed} {copy}.wav", seed)
    splits, [report] = UserRecordings(paths=(str(tmp_path),)).recordings(RATE)
    numbers = {name: {Path(each).stem.split()[0] for each in part.names} for name, part in splits.items()}
    assert not numbers["train"] & (numbers["test"] | numbers["valid"])
    assert report.counts["duplicate recording"] == COUNT


def test_further_folders_are_validation_and_test(tmp_path):
    for name, seeds in (("a", range(4)), ("b", range(4, 6)), ("c", range(6, 7))):
        for seed in seeds:
            write(tmp_path / name / f"yes {seed}.wav", seed)
    write(tmp_path / "c" / "no 1.wav", 0)  # also in a, with another text
    corpus = UserRecordings(paths=(str(tmp_path / "a"),), valid=(str(tmp_path / "b"),), test=(str(tmp_path / "c"),))
    splits, [report] = corpus.recordings(RATE)
    assert {name: len(each) for name, each in splits.items()} == {"train": 4, "valid": 2, "test": 2}
    assert report.counts["recording in two splits"] == report.counts["conflicting labels"] == 1


def test_a_bad_recording_is_skipped_and_counted_or_stops_the_reading(tmp_path):
    for seed in range(COUNT):
        write(tmp_path / "yes" / f"{seed}.wav", seed)
    (tmp_path / "yes" / "bad.wav").write_bytes(b"RIFF")
    (tmp_path / "yes" / "notes.txt").write_text("x")
    _, [report] = UserRecordings(paths=(str(tmp_path),)).recordings(RATE)
    assert totals(report) == (COUNT + 2, COUNT, 1, 1)
    with pytest.raises(UserError, match="not of WAVE"):
        UserRecordings(paths=(str(tmp_path),), on_error="error").recordings(RATE)
    with pytest.raises(UserError, match="at most 0 may be skipped"):
        UserRecordings(paths=(str(tmp_path),), max_errors=0).recordings(RATE)


def test_missing_files_blank_texts_and_bad_lines_of_a_list_are_named(tmp_path):
    table = tmp_path / "list.csv"
    good = "".join(f"{path},{text}\n" for path, text, _ in rows(tmp_path))
    table.write_text(f"path,text\n{good}none.wav,hello\n1.wav,\n2.wav,a,b\n", encoding="utf-8")
    [report] = UserRecordings(paths=(str(table),)).check()
    assert totals(report) == (COUNT + 3, COUNT, 0, 3)
    lines = {kind: issues[0].location.line for kind, issues in report.issues.items()}
    assert lines["unreadable recording"] == COUNT + 2
    assert lines["empty field"] == COUNT + 3
    assert lines["wrong column count"] == COUNT + 4


def test_a_text_with_more_characters_than_the_recording_has_vectors_is_named(tmp_path):
    write(tmp_path / "abcdefghij" / "1.wav", 1, seconds=0.3)  # 30 frames, 7 vectors
    write(tmp_path / "abbcdd" / "1.wav", 2, seconds=0.3)  # 6 characters and two repetitions
    write(tmp_path / "abcdefg" / "1.wav", 3, seconds=0.3)
    [report] = UserRecordings(paths=(str(tmp_path),)).check()
    issues = report.issues["text too long"]
    assert [issue.text for issue in issues] == ["abbcdd", "abcdefghij"]
    assert issues[1].message == "0.30 s are 7 vectors, and its 10 characters need 10."


def test_the_check_prints_lengths_rates_loudness_and_characters(tmp_path, capsys):
    for seed in range(COUNT):
        write(tmp_path / "一 二" / f"{seed}.wav", seed, seconds=0.5)
    (tmp_path / "一 二" / "loud.wav").write_bytes(wav(sine(1.0, peak=0.7)))
    assert command_line(["data", "check", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("checked as recordings with texts")
    assert lines[1] == "25 recordings read = 25 kept + 0 skipped + 0 rejected"
    assert lines[2] == "length: 0.50 to 1.00 s, median 0.50 s, together 13 s"
    assert lines[3] == "sampling rate: 8,000 Hz (25)"
    assert lines[4] == "loudness: -20 to -6 dB, median -20 dB"
    assert lines[5] == "texts: 1 different, of 3 characters:  一二"


def test_what_is_no_set_of_recordings_is_named(tmp_path):
    one = write(tmp_path / "a.wav", 1)
    with pytest.raises(UserError, match="one recording, not a set"):
        UserRecordings(paths=(str(one),)).recordings(RATE)
    with pytest.raises(UserError, match="no such file"):
        UserRecordings(paths=(str(tmp_path / "none"),)).recordings(RATE)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="There is no recording in it"):
        UserRecordings(paths=(str(tmp_path / "empty"),)).recordings(RATE)
    (tmp_path / "a.pdf").write_bytes(b"")
    with pytest.raises(UserError, match="format of this list is unknown"):
        UserRecordings(paths=(str(tmp_path / "a.pdf"),)).recordings(RATE)


def test_two_recordings_are_too_few_to_split(tmp_path):
    for seed in range(2):
        write(tmp_path / f"yes {seed}.wav", seed)
    [report] = UserRecordings(paths=(str(tmp_path),)).check()
    assert report.counts["too small to split"] == 1
    with pytest.raises(UserError, match="at least 3 are needed"):
        UserRecordings(paths=(str(tmp_path),)).recordings(RATE)


def test_the_kind_of_a_folder_or_list_of_recordings_is_guessed(tmp_path):
    rows(tmp_path / "set" / "yes")
    (tmp_path / "list.csv").write_text("path,sentence\nset/yes/1.wav,hello\n")
    (tmp_path / "texts.csv").write_text("path,sentence\nset/yes/1.txt,hello\n")
    assert guess_data_kind([tmp_path / "set"]).kind == guess_data_kind([tmp_path / "list.csv"]).kind == "recordings"
    assert guess_data_kind([tmp_path / "texts.csv"]).kind == "pairs"


def test_a_bad_recording_of_a_list_is_named_besides_the_line(tmp_path):
    table = tmp_path / "list.csv"
    table.write_text("path,text\n" + "".join(f"{path},{text}\n" for path, text, _ in rows(tmp_path)) + "none.wav,x\n")
    [report] = UserRecordings(paths=(str(table),)).check()
    (issue,) = report.issues["unreadable recording"]
    assert (issue.location.line, issue.text) == (
        COUNT + 2,
        f"{tmp_path.name}/none.wav",
    )  # not cut, however long the path


def test_the_vectors_of_the_report_are_those_of_the_model(tmp_path):
    """0.265 s are 25 frames, 7 vectors; the last of them is of one frame."""
    write(tmp_path / "abcdefg" / "1.wav", 1, seconds=0.265)
    write(tmp_path / "abcdefgh" / "1.wav", 2, seconds=0.265)
    [report] = UserRecordings(paths=(str(tmp_path),)).check()
    assert [issue.text for issue in report.issues["text too long"]] == ["abcdefgh"]


def test_a_list_is_not_checked_as_translations_are(tmp_path):
    lines = "".join(f"{path},{text}\n" for path, text, _ in rows(tmp_path))
    table = tmp_path / "list.csv"
    table.write_text(f"path,text\n{lines}0.wav,text 0\n1.wav,1.wav\n2.wav,{'long ' * 50}\n")
    [report] = UserRecordings(paths=(str(table),)).check()
    assert not {"length ratio", "duplicate pair", "identical source and target"} & report.counts.keys()


def test_a_suffix_of_another_format_is_a_warning(tmp_path):
    write(tmp_path / "yes" / "1.flac", 1)
    write(tmp_path / "yes" / "2.WAV", 2)
    [report] = UserRecordings(paths=(str(tmp_path),)).check()
    assert [each.message for each in report.issues["format mismatch"]] == [
        "The suffix is .flac, but the format is WAV."
    ]


def test_recordings_without_a_speaker_count_for_themselves(tmp_path):
    table = [
        (path, text, "" if n % 6 == 5 else f" {speaker} ") for n, (path, text, speaker) in enumerate(rows(tmp_path))
    ]
    (tmp_path / "list.csv").write_text(as_csv(table), encoding="utf-8")
    splits, [report] = UserRecordings(paths=(str(tmp_path / "list.csv"),)).recordings(RATE)
    assert totals(report) == (COUNT, COUNT, 0, 0)
    assert report.details[-1] == "speakers: 5; 4 recordings have none, and each counts for itself"
    speakers = Counter(speaker for each in splits.values() for speaker in each.speakers)
    assert speakers == {"": 4, **{f"speaker {number}": 4 for number in range(5)}}
