"""Bytes to lines: rows 5 to 8, 10, 11, 13, 16, 17 and 18 of the reader's contract."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as some

from seq2see.data.readers.data_report import DataReport
from seq2see.data.readers.lines import MAX_BYTES, is_blank, read_lines, split_at_newlines, split_lines, wide_encoding


def read(path, content):
    path.write_bytes(content)
    report = DataReport()
    return list(read_lines(path, report)), report


def only_issue(report, kind):
    """The only issue of a report."""
    assert list(report.counts) == [kind]
    (issue,) = report.issues[kind]
    return issue


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.txt"


def test_lines_are_numbered_from_one_and_have_their_byte_offset(path):
    lines, report = read(path, "é\n\nb我\nc".encode())
    assert [(line.number, line.offset, line.text) for line in lines] == [
        (1, 0, "é"),
        (2, 3, ""),
        (3, 4, "b我"),
        (4, 9, "c"),
    ]
    assert not report.counts
    assert lines[0].file == str(path)


@pytest.mark.parametrize("content", [b"a\nb", b"a\nb\n"], ids=["no newline at the end", "newline at the end"])
def test_the_last_newline_makes_no_difference(path, content):
    lines, report = read(path, content)
    assert [line.text for line in lines] == ["a", "b"]
    assert not report.counts


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\r"])
def test_only_the_newline_ends_a_line(path, separator):
    lines, _ = read(path, f"a{separator}b\nc\n".encode())
    assert [line.text for line in lines] == [f"a{separator}b", "c"]


def test_one_carriage_return_belongs_to_the_line_ending_and_is_counted(path):
    lines, report = read(path, b"a\r\nb\r\r\n")
    assert [line.text for line in lines] == ["a", "b\r"]
    assert only_issue(report, "CRLF line endings").location.line == 1
    assert report.counts["CRLF line endings"] == 2


@pytest.mark.parametrize(
    "content, line",
    [(b"a\nb\r\nc\n", 2), (b"a\r\nb\r\nc\nd\r\n", 3), (b"a\r\nb\nc\nd", 1), (b"a\nb\r\nc\r\nd\ne\r\n", 1)],
)
def test_mixed_line_endings_are_reported_at_the_first_of_the_rarer_kind(path, content, line):
    _, report = read(path, content)
    assert report.issues["mixed line endings"][0].location.line == line


def test_an_unended_last_line_does_not_make_line_endings_mixed(path):
    _, report = read(path, b"a\r\nb")
    assert list(report.counts) == ["CRLF line endings"]


def test_a_byte_order_mark_at_the_start_is_removed_and_counted(path):
    lines, report = read(path, b"\xef\xbb\xbfa\nb\n")
    assert [(line.text, line.offset) for line in lines] == [("a", 3), ("b", 5)]
    assert str(only_issue(report, "byte order mark").location) == f"{path}:1"


@pytest.mark.parametrize(
    "content, line, column",
    [("a\nb\ufeffc\n", 2, 2), ("\ufeffé\n\ufeffb\n", 2, 1), ("\ufeff\ufeffa", 1, 1), ("我\tb\ufeff", 1, 4)],
)
def test_an_embedded_byte_order_mark_is_an_error_at_its_column(path, content, line, column):
    lines, report = read(path, content.encode())
    (issue,) = report.issues["embedded byte order mark"]
    assert str(issue.location) == f"{path}:{line}:{column}"
    assert [line.number for line in lines if not line.is_valid] == [line]


def test_a_byte_order_mark_alone_on_a_line_is_a_blank_line(path):
    lines, report = read(path, "a\n\ufeff\n".encode())
    assert lines[1].is_valid
    assert is_blank(lines[1].text)
    assert not report.counts


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("text", ["Hello you\nGood day\n", "\ufeffHello\n"])
def test_wide_encodings_are_named_with_the_line_that_converts_them(path, encoding, text):
    lines, report = read(path, text.encode(encoding))
    issue = only_issue(report, "wrong encoding")
    name = encoding.upper().replace("F-16-", "F-16").replace("F-32-", "F-32")
    assert name in issue.message
    assert "iconv -f UTF-" in issue.hint
    assert str(path) in issue.hint
    assert not lines


def test_chinese_utf_16_is_detected_by_its_mark():
    assert wide_encoding("\ufeff我有一支笔".encode("utf-16-le")) == "UTF-16LE"
    assert wide_encoding("\ufeff我有一支笔".encode("utf-16-be")) == "UTF-16BE"


@pytest.mark.parametrize(
    "content, line, column, byte",
    [
        (b"a\ncaf\xe9\n", 2, 4, "0xE9"),
        (b"\xff\nb\n", 1, 1, "0xFF"),
        ("我é".encode() + b"\x80\n", 1, 3, "0x80"),
        (b"ab\xc0\x80\n", 1, 3, "0xC0"),  # over-long NUL
        (b"ab\xed\xa0\x80\n", 1, 3, "0xED"),  # a surrogate
        (b"a\xf4\x90\x80\x80\n", 1, 2, "0xF4"),  # beyond U+10FFFF
        (b"a\n\nb\xe2\x82", 3, 2, "0xE2"),  # cut short
    ],
)
def test_invalid_utf_8_is_reported_with_line_column_and_byte(path, content, line, column, byte):
    lines, report = read(path, content)
    issue = only_issue(report, "invalid UTF-8")
    assert str(issue.location) == f"{path}:{line}:{column}"
    assert byte in issue.message
    assert content[issue.location.offset] == int(byte, 16)
    assert [line.number for line in lines if not line.is_valid] == [line]


@pytest.mark.parametrize("content, line, column", [(b"a\0b\n", 1, 2), (b"a\nb\n\0", 3, 1), ("我\0\0\n".encode(), 1, 2)])
def test_a_nul_is_an_error_at_its_column(path, content, line, column):
    lines, report = read(path, content)
    issue = only_issue(report, "NUL character")
    assert str(issue.location) == f"{path}:{line}:{column}"
    assert content[issue.location.offset] == 0
    assert not lines[line - 1].is_valid


@pytest.mark.parametrize(
    ("content", "kind"), [("a\0\ufeff\n", "NUL character"), ("a\ufeff\0\n", "embedded byte order mark")]
)
def test_of_two_forbidden_characters_the_first_is_reported(path, content, kind):
    _, report = read(path, content.encode())
    assert only_issue(report, kind).location.column == 2


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf"])
def test_an_empty_file_has_0_lines(path, content):
    lines, report = read(path, content)
    assert not lines
    assert report.issues["empty file"][0].message == "The file has 0 lines."


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_line_of_exactly_the_limit_is_read(path, end):
    lines, report = read(path, b"a" * MAX_BYTES + end + (b"b" + end if end else b""))
    assert len(lines[0].text) == MAX_BYTES
    assert "line too long" not in report.counts


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_line_over_the_limit_is_an_error_and_reading_goes_on(path, end):
    lines, report = read(path, b"x" + end + b"a" * (MAX_BYTES + 1) + end + b"b" + end)
    (issue,) = report.issues["line too long"]
    assert str(issue.location) == f"{path}:2"
    assert f"{MAX_BYTES + len(end):,} bytes" in issue.message
    assert issue.text == "a" * 80
    assert [(line.number, line.is_valid) for line in lines] == [(1, True), (2, False), (3, True)]
    assert lines[2].text == "b"
    assert lines[2].offset == 1 + MAX_BYTES + 1 + 2 * len(end)


def test_the_carriage_return_of_a_longest_line_may_be_in_a_chunk_of_its_own():
    longest = b"x" * MAX_BYTES
    for chunks in ([longest, b"\r\nnext\n"], [longest + b"\r", b"\nnext\n"], [longest, b"\r", b"\nnext\n"]):
        report = DataReport()
        lines = list(split_lines(iter(chunks), "a", report))
        assert [(line.is_valid, len(line.text), line.offset) for line in lines] == [
            (True, MAX_BYTES, 0),
            (True, 4, MAX_BYTES + 2),
        ]


def test_the_kept_part_of_a_huge_line_does_not_decide_its_line_ending(path):
    _, report = read(path, b"x" * 999 + b"\r" + b"x" * (2 * MAX_BYTES) + b"\n")
    assert f"The line has {2 * MAX_BYTES + 1000:,} bytes" in only_issue(report, "line too long").message
    assert "CRLF line endings" not in report.counts


def test_a_last_line_of_white_space_is_a_line(path):
    lines, _ = read(path, b"a\n  ")
    assert [line.text for line in lines] == ["a", "  "]


def test_a_huge_line_does_not_fill_the_memory(path):
    with path.open("wb") as file:
        file.truncate(0)
        for _ in range(40):
            file.write(b"a" * (1 << 20))
    report = DataReport()
    tracemalloc.start()
    lines = list(read_lines(path, report))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20
    assert len(lines) == 1
    assert "41,943,040 bytes" in report.issues["line too long"][0].message


@pytest.mark.parametrize("text", ["", "  ", "\t\u3000\xa0", "\u200b\u200d\ufeff", "\u2060 \xad", "\x0b\x1c\u2028"])
def test_white_space_and_zero_width_characters_are_blank(text):
    assert is_blank(text)


@pytest.mark.parametrize("text", ["a", " 我", "\u200d.", "\u0301", "\x07", "\x00"])
def test_visible_characters_are_not_blank(text):
    assert not is_blank(text)


@given(
    some.text(some.sampled_from("a\n"), max_size=40),
    some.lists(some.integers(0, 40), max_size=4),
)
def test_chunk_boundaries_make_no_difference(text, cuts):
    content = text.encode()
    boundaries = sorted({0, len(content), *(cut for cut in cuts if cut <= len(content))})
    chunks = [content[start:end] for start, end in pairwise(boundaries)]
    lines = list(split_at_newlines(chunks))
    assert lines == list(split_at_newlines([content]))
    assert b"".join(raw + b"\n" * ended for _, raw, _, ended in lines) == content
    assert all(content[offset : offset + size] == raw for offset, raw, size, _ in lines)
