"""CSV: row 24 of the reader's contract, and equality with Python's own reader."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as some
from scan_files import check

from seq2see.core.errors import UserError
from seq2see.data.readers import csv_table
from seq2see.data.readers.csv_table import records, split_fields
from seq2see.data.readers.data_report import DataReport
from seq2see.data.readers.lines import Line
from seq2see.data.readers.pair_files import read_pairs


def write(path, text):
    path.write_bytes(text.encode())
    return path


def pairs(examples):
    return [(example.source, example.target) for example in examples]


@pytest.fixture
def table(tmp_path):
    return tmp_path / "a.csv"


@pytest.mark.parametrize(
    "text",
    [
        "source,target\na,b\n",
        "target,source\nb,a\n",
        "id,Source , TARGET\n1,a,b\n",
        '"source","target"\n"a","b"\n',
        "label,id,Text\nb,1,a\n",
        "sentence,label\na,b\n",
        "a,b\n",
        "a,b,c\n",
    ],
)
def test_columns_are_found_by_name_or_are_the_first_two(table, text):
    examples, report = read_pairs([write(table, text)])
    assert pairs(examples) == [("a", "b")]
    assert not report.counts
    assert report.read == 1


def test_a_word_pair_that_looks_half_like_a_header_is_data(table):
    examples, _ = read_pairs([write(table, "source,Quelle\na,b\n")])
    assert pairs(examples) == [("source", "Quelle"), ("a", "b")]


def test_quotes_guard_commas_and_doubled_quotes(table):
    examples, _ = read_pairs([write(table, '"Yes, sir","Er sagte ""ja"""\n')])
    assert pairs(examples) == [("Yes, sir", 'Er sagte "ja"')]


def test_a_line_break_in_quotes_is_kept_reported_and_counted_in_line_numbers(table):
    examples, report = read_pairs([write(table, 'a,b\n"c\nd","e\n\nf"\ng,h\n')])
    assert pairs(examples) == [("a", "b"), ("c\nd", "e\n\nf"), ("g", "h")]
    assert [example.location for example in examples] == [f"{table}:1", f"{table}:2", f"{table}:6"]
    assert {issue.location.line for issue in report.issues["embedded line break"]} == {2}
    assert list(report.counts) == ["embedded line break"]


@pytest.mark.parametrize(
    "text, position, words",
    [
        ('a,b\nc"d,e\nf,g\n', "2:2", "middle"),
        ('a,b\n"c"d,e\nf,g\n', "2:4", "middle"),
        ('a,b\nc, "d"\nf,g\n', "2:4", "middle"),
        ('a,b\n"c,d\nf,g\n', "2:1", "not closed"),
        ('a,b\nc,"d\n"f","g"\n', "2:3", "not closed"),
        ('a,"b', "1:3", "not closed"),
    ],
)
def test_a_wrong_quote_is_reported_at_its_location_and_rejects_one_line(table, text, position, words):
    report = check([write(table, text)])
    (issue,) = report.issues["bare quote"]
    assert str(issue.location) == f"{table}:{position}"
    assert words in issue.message
    assert report.rejected == 1
    assert report.kept == len(text.splitlines()) - 1


@pytest.mark.parametrize(
    "text, line, expected, found",
    [
        ("source,target\na,b\nc\n", 3, 2, 1),
        ("source,target,id\na,b,1\nc,d\n", 3, 3, 2),
        ("a,b\nc,d,e\nf,g\n", 2, 2, 3),
    ],
)
def test_a_wrong_number_of_fields_is_an_error_at_its_line(table, text, line, expected, found):
    with pytest.raises(UserError) as caught:
        read_pairs([write(table, text)])
    assert caught.value.location == f"{table}:{line}"
    assert caught.value.message == f"Expected {expected} columns, found {found}."


def test_two_columns_of_one_name_are_an_error(table):
    with pytest.raises(UserError, match="Two columns are called 'source'"):
        read_pairs([write(table, "source,target,source\na,b,c\n")])


def test_empty_fields_and_blank_lines_follow_the_common_rules(table):
    report = check([write(table, 'a,b\n\n"",c\n,\n"d",""\n')])
    assert (report.read, report.kept, report.skipped, report.rejected) == (5, 1, 2, 2)
    assert [issue.location.line for issue in report.issues["empty field"]] == [3, 5]
    assert [issue.location.line for issue in report.issues["blank record"]] == [2, 4]


def test_a_bad_byte_inside_a_record_of_two_lines_rejects_the_record_once(table):
    table.write_bytes(b'a,b\n"c\n\xff","d"\ne,f\n')
    report = check([table])
    assert (report.read, report.kept, report.rejected) == (3, 2, 1)
    assert [str(issue.location) for issue in report.issues["invalid UTF-8"]] == [f"{table}:3:1"]
    assert list(report.counts) == ["invalid UTF-8"]


@pytest.mark.parametrize(
    ("lines", "kept"), [(csv_table.MAX_RECORD_LINES, 2), (csv_table.MAX_RECORD_LINES + 1, csv_table.MAX_RECORD_LINES)]
)
def test_a_record_of_too_many_lines_is_a_missing_quote(table, lines, kept):
    middle = "x,y\n" * (lines - 2)
    report = check([write(table, f'a,"b\n{middle}c"\nd,e\n')])
    assert report.kept == kept
    assert bool(report.issues.get("bare quote")) == (lines > csv_table.MAX_RECORD_LINES)


def test_a_record_of_more_bytes_than_a_line_may_have_is_a_missing_quote(table, monkeypatch):
    monkeypatch.setattr(csv_table, "MAX_BYTES", 20)
    text = 'a,"b\n' + "x,y\n" * 9 + 'c"\n'
    assert str(check([write(table, text)]).issues["bare quote"][0].location) == f"{table}:1:3"
    monkeypatch.setattr(csv_table, "MAX_BYTES", 40)
    assert "bare quote" not in check([table]).issues


def test_a_header_alone_is_no_pair(table):
    with pytest.raises(UserError, match="no pair of texts"):
        read_pairs([write(table, "source,target\n")])


CELLS = some.text(some.sampled_from('ab ",\n我'), max_size=6)


@given(some.lists(some.lists(CELLS, min_size=2, max_size=3), min_size=1, max_size=5))
def test_what_pythons_csv_writes_is_read_back(rows):
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(rows)
    lines = [Line("f", number, 0, text) for number, text in enumerate(written.getvalue().split("\n")[:-1], 1)]
    read = list(records(iter(lines)))
    assert [record.fields for record in read] == rows
    assert [record.line.number for record in read] == [
        1 + sum(field.count("\n") for row in rows[:index] for field in row) + index for index in range(len(rows))
    ]


@given(some.lists(CELLS.filter(lambda cell: "\n" not in cell), min_size=1, max_size=4))
def test_one_record_is_split_as_pythons_csv_splits_it(row):
    written = io.StringIO()
    csv.writer(written, lineterminator="", quoting=csv.QUOTE_ALL).writerow(row)
    assert split_fields(written.getvalue()) == next(csv.reader([written.getvalue()], strict=True))


@given(some.text(some.sampled_from('a",\n'), max_size=30))
def test_no_arrangement_of_quotes_loses_a_line(tmp_path_factory, text):
    path = write(tmp_path_factory.mktemp("csv") / "a.csv", text + "\n")
    report = check([path])
    assert isinstance(report, DataReport)
    assert report.read == report.kept + report.skipped + report.rejected
