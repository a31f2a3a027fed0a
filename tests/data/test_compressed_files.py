"""Compressed files: row 28 of the reader's contract."""

from __future__ import annotations

import gzip
import lzma

import pytest

from seq2see.core.errors import UserError
from seq2see.data.readers.data_report import DataReport
from seq2see.data.readers.lines import CHUNK_SIZE, read_chunks, read_lines, without_compression_suffix

COMPRESSORS = {
    "a.txt": bytes,
    "a.txt.gz": lambda content: gzip.compress(content, 1),
    "a.txt.xz": lambda content: lzma.compress(content, preset=0),
}
CONTENT = b"".join(b"line %d\n" % number for number in range(25_000))  # more than one chunk


def message_of(path):
    """The message of the issue of an unreadable file."""
    report = DataReport()
    list(read_lines(path, report))
    (issue,) = report.issues["unreadable file"]
    assert issue.location.file == str(path)
    return issue.message


@pytest.mark.parametrize("name", COMPRESSORS)
def test_plain_and_packed_files_give_the_same_content(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(COMPRESSORS[name](CONTENT))
    chunks = list(read_chunks(path))
    assert b"".join(chunks) == CONTENT
    assert max(map(len, chunks)) <= CHUNK_SIZE


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.xz"])
def test_files_packed_in_several_parts_are_read_to_the_end(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(COMPRESSORS[name](b"a\n") + COMPRESSORS[name](b"b\n"))
    assert b"".join(read_chunks(path)) == b"a\nb\n"


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.xz"])
@pytest.mark.parametrize("lost", [1, 5, 100])
def test_a_truncated_file_is_a_clear_error(tmp_path, name, lost):
    path = tmp_path / name
    path.write_bytes(COMPRESSORS[name](CONTENT)[:-lost])
    assert message_of(path) == "The file ends in the middle of its compressed data."


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.xz"])
def test_damaged_content_is_a_clear_error(tmp_path, name):
    path = tmp_path / name
    packed = bytearray(COMPRESSORS[name](CONTENT))
    packed[len(packed) // 2] ^= 0xFF
    path.write_bytes(packed)
    assert message_of(path).startswith("The compressed data are damaged")


@pytest.mark.parametrize(
    "name, content, words",
    [
        # Without the time of packing in it, so that the case has the same name in every process.
        ("a.txt", gzip.compress(b"a", mtime=0), ["1f 8b", "gzip", "its name has no such suffix"]),
        ("a.tsv", lzma.compress(b"a"), ["fd 37 7a 58 5a 00", "xz"]),
        ("a.tsv", b"PK\x03\x04rest", ["50 4b 03 04", "zip"]),
        ("a.txt.gz", b"plain text", ["suffix .gz", "70 6c 61 69 6e 20", "not gzip"]),
        ("a.txt.gz", lzma.compress(b"a"), ["suffix .gz", "fd 37 7a 58 5a 00", "which is xz"]),
        ("a.txt.xz", gzip.compress(b"a", mtime=0), ["suffix .xz", "1f 8b", "which is gzip"]),
        ("a.txt.xz", b"", ["suffix .xz", "is empty", "not xz"]),
    ],
)
def test_a_name_that_does_not_fit_the_content_is_an_error_that_names_the_first_bytes(tmp_path, name, content, words):
    path = tmp_path / name
    path.write_bytes(content)
    said = message_of(path)
    assert all(word in said for word in words), said


def test_a_missing_file_and_a_folder_are_clear_errors(tmp_path):
    assert "No such file" in message_of(tmp_path / "missing.txt")
    (tmp_path / "folder.txt").mkdir()
    assert "directory" in message_of(tmp_path / "folder.txt")


def test_read_chunks_raises_an_error_without_a_report(tmp_path):
    with pytest.raises(UserError, match="No such file"):
        list(read_chunks(tmp_path / "missing.txt"))


def test_the_bare_name_drops_only_the_packing(tmp_path):
    assert without_compression_suffix(tmp_path / "train.DE.GZ").name == "train.DE"
    assert without_compression_suffix(tmp_path / "a.tsv").name == "a.tsv"
