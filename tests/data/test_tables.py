"""TSV and aligned files: rows 1 to 4 and 24 of the reader's contract."""

from __future__ import annotations

import pytest
from scan_files import check

from seq2see.core.errors import UserError
from seq2see.data.readers.aligned_files import divergence_line
from seq2see.data.readers.data_report import DataReport, ErrorPolicy
from seq2see.data.readers.pair_files import read_pairs, scan_pairs


def write(path, text):
    path.write_bytes(text.encode())
    return path


def record_counts(report):
    """(read, kept, skipped, rejected), after checking that they balance."""
    assert report.read == report.kept + report.skipped + report.rejected
    return report.read, report.kept, report.skipped, report.rejected


@pytest.fixture
def tsv(tmp_path):
    return tmp_path / "a.tsv"


@pytest.fixture
def columns(tmp_path):
    return tmp_path / "a.de", tmp_path / "a.en"


def test_a_clean_tsv_gives_its_pairs_and_no_issue(tsv):
    examples, report = read_pairs([write(tsv, "a b\tc\n我\tI\n x \ty")])
    assert [(example.source, example.target) for example in examples] == [
        ("a b", "c"),
        ("我", "I"),
        (" x ", "y"),
    ]
    assert examples[1].location == f"{tsv}:2"
    assert record_counts(report) == (3, 3, 0, 0)
    assert not report.counts


def test_further_columns_are_ignored_if_every_line_has_them(tsv):
    examples, report = read_pairs([write(tsv, "a\tb\tCC\nc\td\tCC\n")])
    assert [(example.source, example.target) for example in examples] == [("a", "b"), ("c", "d")]
    assert not report.counts


@pytest.mark.parametrize("head", ["source\ttarget", "Text\tlabel", "sentence\tlabel\tid"])
def test_a_first_line_that_names_the_columns_is_no_pair(tsv, head):
    more = "\t1" * (head.count("\t") - 1)
    examples, report = read_pairs([write(tsv, f"{head}\n好\tgood{more}\ntext\tlabel{more}\n")])
    assert [(example.source, example.target) for example in examples] == [("好", "good"), ("text", "label")]
    assert examples[0].location == f"{tsv}:2"
    assert record_counts(report) == (2, 2, 0, 0)


def test_a_first_line_that_names_one_column_is_a_pair(tsv):
    examples, _ = read_pairs([write(tsv, "text\tTexte\na\tb\n")])
    assert len(examples) == 2
    examples, _ = read_pairs([write(tsv, "word\ttext\tlabel\na\tb\tc\n")])  # it names both, in whatever place
    assert [(example.source, example.target) for example in examples] == [("b", "c")]


def test_a_tsv_has_no_quotes(tsv):
    examples, _ = read_pairs([write(tsv, '"a\tb"\nc\t"d"\n')])
    assert (examples[0].source, examples[0].target) == ('"a', 'b"')


@pytest.mark.parametrize(
    "text, line, expected, found",
    [
        ("a\tb\nc\n\nd\te\n", 2, 2, 1),
        ("a\tb\tc\nd\te\nf\tg\n", 1, 2, 3),  # the first line is the odd one
        ("a\tb\tc\nd\te\nf\tg\th\n", 2, 3, 2),
        ("a\tb\nc\td\te\n", 2, 2, 3),  # one against one: two columns are the rule
        ("a\n", 1, 2, 1),
        ("a\tb\n\tc\td\ne\tf\n", 2, 2, 3),
    ],
)
def test_a_wrong_number_of_columns_is_an_error_at_its_line(tsv, text, line, expected, found):
    with pytest.raises(UserError) as caught:
        read_pairs([write(tsv, text)])
    assert caught.value.location == f"{tsv}:{line}"
    assert caught.value.message == f"Expected {expected} columns, found {found}."


def test_invalid_lines_do_not_determine_the_column_count(tsv):
    report = check([write(tsv, "a\0\tb\tc\n" * 3 + "\t\t\n" * 3 + "a\tb\nc\td\n")])
    assert record_counts(report) == (8, 2, 3, 3)
    assert dict(report.counts) == {"NUL character": 3, "blank record": 3}


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_an_empty_field_is_named_as_in_the_header(tmp_path, name):
    lines = ["Text,label", "a,b", "c,", ",d"]
    text = "\n".join(lines).replace(",", "\t" if name == "a.tsv" else ",")
    messages = [issue.message for issue in check([write(tmp_path / name, text)]).issues["empty field"]]
    assert messages == ["The label is empty.", "The text is empty."]


def test_of_two_empty_files_the_first_is_reported(columns):
    report = check([write(path, "\n\n") for path in columns])
    assert report.issues["no examples"][0].location.file == str(columns[0])


def test_an_empty_file_is_reported_even_after_errors_in_another(tmp_path):
    report = DataReport()
    scan_pairs([write(tmp_path / "a.tsv", "a\tb\nc\n")], report)
    scan_pairs([write(tmp_path / "b.tsv", "source\ttarget\n")], report)
    assert dict(report.counts) == {"wrong column count": 1, "no examples": 1}
    assert report.issues["no examples"][0].location.file == str(tmp_path / "b.tsv")


def test_columns_are_counted_beyond_the_sample(tsv):
    lines = ["a\tb"] * 1500
    lines[1234] = "a"
    report = check([write(tsv, "\n".join(lines))])
    assert [issue.location.line for issue in report.issues["wrong column count"]] == [1235]


@pytest.mark.parametrize(
    "text, position, column",
    [
        ("a\tb\n\tc\n", "2:1", "source"),
        ("a\tb\nabc\t\n", "2:5", "target"),
        ("a\t \u200d\u3000\nc\td\n", "1:3", "target"),
        ("\ufeff\u200b \tb\nc\td\n", "1:1", "source"),  # the mark at the start of the file is removed first
    ],
)
def test_an_empty_field_is_an_error_at_its_location(tsv, text, position, column):
    with pytest.raises(UserError) as caught:
        read_pairs([write(tsv, text)])
    assert caught.value.location == f"{tsv}:{position}"
    assert caught.value.message == f"The {column} is empty."


@pytest.mark.parametrize("blank", ["", " ", "\t", " \t\u200b", "\u3000", "\t\t", "\ufeff"])
def test_a_pair_with_two_empty_fields_is_skipped_and_counted(tsv, blank):
    examples, report = read_pairs([write(tsv, f"a\tb\n{blank}\nc\td\n")])
    assert [example.source for example in examples] == ["a", "c"]
    assert examples[1].location == f"{tsv}:3"
    assert record_counts(report) == (3, 2, 1, 0)
    (issue,) = report.issues["blank record"]
    assert issue.location.line == 2


def test_skip_removes_the_whole_pair_from_aligned_files(columns):
    write(columns[0], "eins\nzwei\n\nvier\n")
    write(columns[1], "one\n\nthree\nfour\n")
    examples, report = read_pairs(columns, ErrorPolicy("skip"))
    assert [(example.source, example.target) for example in examples] == [("eins", "one"), ("vier", "four")]
    assert record_counts(report) == (4, 2, 0, 2)
    assert [str(issue.location) for issue in report.issues["empty field"]] == [
        f"{columns[1]}:2:1",
        f"{columns[0]}:3:1",
    ]


def test_one_bad_line_in_an_aligned_file_rejects_the_pair_once(columns):
    columns[0].write_bytes(b"a\n\xff\nc\n")
    columns[1].write_bytes(b"x\n\xfe\nz\n")
    report = check(columns)
    assert record_counts(report) == (3, 2, 0, 1)
    assert report.counts["invalid UTF-8"] == 2


def test_blank_lines_on_both_sides_are_skipped_as_one_pair(columns):
    write(columns[0], "a\n \nc\n")
    write(columns[1], "x\n\u200b\nz\n")
    examples, report = read_pairs(columns)
    assert [(example.source, example.target) for example in examples] == [("a", "x"), ("c", "z")]
    assert record_counts(report) == (3, 2, 1, 0)


SENTENCES = [
    "a",
    "a b c d e f",
    "ab",
    "abcdefghijklmnop",
    "abc",
    "abcdefghijk",
    "abcdefghijklmnopqrstuvwxyz",
    "xy",
]


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("missing", range(len(SENTENCES)))
def test_different_line_counts_name_both_files_both_counts_and_the_line(columns, side, missing):
    texts = [list(SENTENCES), [sentence.upper() for sentence in SENTENCES]]
    del texts[side][missing]
    for path, lines in zip(columns, texts, strict=True):
        write(path, "\n".join(lines) + "\n")
    with pytest.raises(UserError) as caught:
        read_pairs(columns, ErrorPolicy("skip"))  # no policy compensates for a missing line
    assert caught.value.location == f"{columns[0]}:{missing + 1}"
    counts = [8 - (side == 0), 8 - (side == 1)]
    assert f"{columns[0]} has {counts[0]} lines and {columns[1]} has {counts[1]}" in caught.value.message
    assert record_counts(check(columns))[0] == 8


def test_the_divergence_line_allows_for_one_language_being_longer():
    source = [3, 30, 7, 12, 50, 9]
    target = [2 * length for length in source]
    del target[3]
    assert divergence_line(source, target) == 4


def test_several_consecutive_missing_lines_are_found():
    source = [3, 30, 7, 12, 50, 9, 80, 4, 22, 6]
    assert divergence_line(source, source[:4] + source[7:]) == 5


def test_a_file_that_cannot_be_read_is_not_reported_as_too_short_too(columns):
    write(columns[0], "a\nb\n")
    write(columns[1], "")
    assert list(check(columns).counts) == ["empty file"]
    with pytest.raises(UserError, match="0 lines") as caught:
        read_pairs(columns)
    assert caught.value.location == str(columns[1])


@pytest.mark.parametrize("content", ["\n\n", " \n\t\n"])
def test_a_file_of_blank_lines_has_no_pair(tsv, content):
    with pytest.raises(UserError, match="no pair of texts"):
        read_pairs([write(tsv, content)])
