"""Files are written completely or not at all."""

from __future__ import annotations

import os

import pytest

from seq2see.core.files import temporary_path, write_text


def test_a_file_is_written_with_its_folder_and_without_a_temporary_file(tmp_path):
    write_text(tmp_path / "new" / "a.txt", "我")
    assert (tmp_path / "new" / "a.txt").read_text(encoding="utf-8") == "我"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.txt"]


def test_a_failed_write_leaves_the_old_file_unchanged(tmp_path):
    write_text(tmp_path / "a.txt", "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(tmp_path / "a.txt", "\ud800")
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "old"


def test_the_error_for_a_folder_names_the_folder_and_not_the_temporary_file(tmp_path):
    with pytest.raises(IsADirectoryError) as caught:
        write_text(tmp_path, "text")
    assert caught.value.filename == str(tmp_path)
    assert not list(tmp_path.parent.glob(".*.tmp"))


def test_temporary_names_are_those_of_this_process_and_remains_of_ended_ones_are_removed(tmp_path):
    ended, alive = f".a.txt.{2**22 + 7}-0123456789ab.tmp", f".a.txt.{os.getppid()}-0123456789ab.tmp"
    for name in (ended, alive, ".a.txt.tmp", ".other.txt.tmp", f".a.txt.{os.getpid()}-0123456789ab.tmp"):
        (tmp_path / name).write_text("half")
    first, second = temporary_path(tmp_path / "a.txt"), temporary_path(tmp_path / "a.txt")
    assert len({first, second}) == 2
    assert {path.name for path in tmp_path.iterdir()} == {alive, ".other.txt.tmp"}
    first.write_text("of another thread")
    write_text(tmp_path / "a.txt", "new")
    assert first.exists()
