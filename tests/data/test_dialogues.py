"""Reading dialogues: four formats, every record counted, every error with its file, line and remedy."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from seq2see.cli.app import run as command
from seq2see.core.errors import UserError
from seq2see.data.readers.data_report import ISSUE_KINDS
from seq2see.data.readers.dialogues import READERS, UserDialogues, read_dialogues, scan_dialogues

ROWS = [
    [("system", "s"), ("user", "a"), ("bot", "b")],
    [("user", "你好"), ("assistant", "好"), ("user", "?")],
]
JSONL = "".join(
    json.dumps({"messages": [{"role": role, "content": text} for role, text in rows]}, ensure_ascii=False) + "\n"
    for rows in ROWS
)
FILES = {
    ".jsonl": JSONL,
    ".csv": 'dialogue,role,text\n1,system,s\n1,user,a\n1,assistant,"b"\n2,user,你好\n2,assistant,好\n2,user,?\n',
    ".tsv": "1\tsystem\ts\n1\tuser\ta\n1\tassistant\tb\n2\tuser\t你好\n2\tassistant\t好\n2\tuser\t?\n",
    ".txt": (
        "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n\n"
        "<|im_start|>user\n你好<|im_end|>\n<|im_start|>assistant\n好<|im_end|>\n<|im_start|>user\n?<|im_end|>\n"
    ),
}


def write(folder: Path, suffix: str, text: str) -> Path:
    path = folder / f"mine{suffix}"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("suffix", FILES)
def test_every_format_has_the_same_dialogues(tmp_path: Path, suffix: str):
    dialogues, report = read_dialogues([write(tmp_path, suffix, FILES[suffix])])
    contents = [[(each.role, each.content) for each in dialogue.messages] for dialogue in dialogues]
    assert contents == [
        [("system", "s"), ("user", "a"), ("assistant", "b")],
        [("user", "你好"), ("assistant", "好")],
    ]
    assert (report.read, report.kept, report.rejected) == (2, 2, 0)
    assert report.counts["unanswered message"] == 1


def test_lines_of_two_speakers_alternate(tmp_path: Path):
    dialogues, report = read_dialogues([write(tmp_path, ".txt", "hi\nhello\nbye\nsee you\n\n\nwho?\nme\n")])
    assert [[each.content for each in dialogue.messages] for dialogue in dialogues] == [
        ["hi", "hello", "bye", "see you"], ["who?", "me"]
    ]  # fmt: skip
    assert [each.location for each in dialogues] == [f"{tmp_path}/mine.txt:1", f"{tmp_path}/mine.txt:7"]
    assert report.read == 2


def test_a_message_of_chatml_may_have_blank_lines(tmp_path: Path):
    text = "<|im_start|>user\na\n\nb<|im_end|>\n<|im_start|>assistant\nc<|im_end|>\n"
    (dialogue,), _ = read_dialogues([write(tmp_path, ".txt", text)])
    assert dialogue.messages[0].content == "a\n\nb"


CHATML = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
ANSWERED = '{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}'
ERRORS = {
    ".jsonl": {
        "[1]": "wrong type",
        "{": "invalid JSON",
        '{"messages": 3}': "wrong type",
        '{"text": "a"}': "missing key",
        '{"messages": [{"role": "user"}]}': "missing key",
        '{"messages": [{"role": "king", "content": "a"}]}': "unknown role",
        '{"messages": [{"role": "user", "content": 3}]}': "wrong type",
        '{"messages": [{"role": "user", "content": " "}]}': "empty field",
        '{"messages": [{"role": "user", "content": "a"}]}': "no reply",
        '{"messages": []}': "no reply",
        '{"messages": [{"role": "assistant", "content": "a"}]}': "role order",
        f'{{"messages": [{ANSWERED}, {{"role": "system", "content": "s"}}]}}': "role order",
        f'{{"messages": [{ANSWERED}], "messages": []}}': "duplicate key",
        f'{{"messages": [{ANSWERED}, {{"role": "user", "content": "\\ud800"}}]}}': "lone surrogate",
        f'{{"messages": [{ANSWERED}, {{"role": "user", "content": "\\u0000"}}]}}': "NUL character",
        "[" * 100_000: "invalid JSON",
    },
    ".tsv": {"3\tuser": "wrong column count", "3\tking\ta": "unknown role", "3\tassistant\ta": "role order"},
    ".csv": {"3,user": "wrong column count"},
    ".txt": {
        "<|im_start|>king\na<|im_end|>": "unknown role",
        "<|im_start|>user\na": "broken ChatML",
        "a": "broken ChatML",
    },
}


@pytest.mark.parametrize(("suffix", "text", "kind"), [(s, t, k) for s, each in ERRORS.items() for t, k in each.items()])
def test_an_error_has_its_line_and_a_remedy(tmp_path: Path, suffix: str, text: str, kind: str):
    good = FILES[suffix] + ("\n" if suffix == ".txt" else "")
    number = good.count("\n") + 1
    path = write(tmp_path, suffix, good + text + "\n")
    dialogues, report = scan_dialogues([path])
    assert len(dialogues) == 2
    assert (report.read, report.kept, report.rejected) == (3, 2, 1)
    error = report.first_error
    assert (error.kind, error.location.line) == (kind, number)
    assert error.hint
    with pytest.raises(UserError, match=f"mine{suffix}:{number}"):
        UserDialogues(paths=(str(path),)).read()
    kept = UserDialogues(paths=(str(path),), on_error="skip", valid=(str(path),), test=(str(path),)).read()[0]["train"]
    assert len(kept) == 2


def test_a_row_with_a_wrong_quote_belongs_to_the_dialogue_before_it(tmp_path: Path):
    dialogues, report = scan_dialogues([write(tmp_path, ".csv", FILES[".csv"] + '3,user,a"b\n')])
    assert len(dialogues) == 1
    assert (report.read, report.kept, report.rejected) == (2, 1, 1)
    assert str(report.first_error.location) == f"{tmp_path}/mine.csv:8:9"


def test_another_suffix_is_refused(tmp_path: Path):
    with pytest.raises(UserError, match="The format is unknown"):
        read_dialogues([write(tmp_path, ".yaml", "a")])


def test_the_command_checks_dialogues(tmp_path: Path, capsys):
    path = write(tmp_path, ".jsonl", JSONL + "{\n")
    assert command(["data", "check", str(path), "--task", "chat"]) == 2
    output = capsys.readouterr().out
    assert "3 dialogues read = 2 kept + 0 skipped + 1 rejected" in output
    assert "mine.jsonl:3: This is not JSON" in output


JUNK = [
    b"",
    b"\x00",
    b"\xff\xfe",
    b'"',
    b"\n",
    b"\n\n",
    b"{}[]",
    b"\t,",
    b"<|im_start|>",
    b"<|im_end|>",
    b"\xef\xbb\xbf",
]
JUNK += [b"\\ud800", b"user", b"\r"]


def damaged(text: str, rng: np.random.Generator) -> bytes:
    """A file with a few random changes of its bytes, lines or structure."""
    content = bytearray(text.encode())
    for _ in range(int(rng.integers(1, 6))):
        start = int(rng.integers(0, len(content) + 1))
        end = min(len(content), start + int(rng.integers(0, 12)))
        random = bytes(rng.integers(0, 256, 5).tolist())
        content[start:end] = [*JUNK, random][int(rng.integers(len(JUNK) + 1))]
    return bytes(content)


def check_damaged_files(folder: Path, seeds: range) -> int:
    """Read damaged files: each is kept or has a named error; returns the number with an error."""
    errors = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        suffix = list(READERS)[seed % len(READERS)]
        path = folder / f"{seed}{suffix}"
        path.write_bytes(damaged(FILES.get(suffix, JSONL), rng))
        _, report = scan_dialogues([path])
        assert report.read == report.kept + report.skipped + report.rejected, seed
        error = report.first_error
        assert (error is None) == (report.rejected == 0 and report.kept > 0), seed
        if error is not None:
            assert error.kind in ISSUE_KINDS
            assert error.location.file == str(path)
            assert error.message
            assert error.hint
            errors += 1
        path.unlink()
    return errors


def test_damaged_files_have_named_errors(tmp_path: Path):
    assert check_damaged_files(tmp_path, range(100)) > 60


@pytest.mark.long
def test_a_thousand_damaged_files_have_named_errors(tmp_path: Path):
    assert check_damaged_files(tmp_path, range(1000, 2000)) > 600


def test_json_with_numbers_of_any_length_is_an_error_of_its_line(tmp_path: Path):
    path = write(tmp_path, ".jsonl", json.dumps({"messages": []})[:-1] + ', "n": ' + "9" * 5000 + "}\n")
    _, report = scan_dialogues([path])
    assert report.first_error.location.line == 1


def test_an_error_within_a_dialogue_has_its_own_line(tmp_path: Path):
    """The first line of each of these dialogues is 1; the error is further down."""
    texts = {
        "1\tuser\ta\n1\tassistant\tb\n1\tassistant\tc\n": (".tsv", "role order", 3),
        "1\tuser\ta\n1\tassistant\tb\n1\tuser\t \n": (".tsv", "empty field", 3),
        f"{CHATML}<|im_start|>user\na\n": (".txt", "broken ChatML", 5),
        f"{CHATML}text\n": (".txt", "broken ChatML", 5),
    }
    for text, (suffix, kind, line) in texts.items():
        _, report = scan_dialogues([write(tmp_path, suffix, text)])
        assert (report.first_error.kind, report.first_error.location.line) == (kind, line)


def test_an_unanswered_message_is_named_by_its_line(tmp_path: Path):
    _, report = read_dialogues([write(tmp_path, ".tsv", FILES[".tsv"])])
    assert [each.location.line for each in report.issues["unanswered message"]] == [6]
