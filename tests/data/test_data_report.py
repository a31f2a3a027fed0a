"""The report keeps the books, lists what was found, and decides."""

from __future__ import annotations

import json

import pytest
from scan_files import check

from seq2see.core.errors import UserError
from seq2see.data.readers.data_report import ISSUE_KINDS, MAX_STORED, DataReport, ErrorPolicy, Location, escape
from seq2see.data.readers.pair_files import read_pairs


@pytest.fixture
def bad(tmp_path):
    """Seven lines: two good, one blank, three empty sides, one wrong number of columns."""
    path = tmp_path / "a.tsv"
    path.write_text("a\tb\nc\t\n\nd\te\nf\n\tg\nh\t\n")
    return path


def test_the_error_has_the_first_location_and_counts_the_others(bad):
    with pytest.raises(UserError) as caught:
        read_pairs([bad])
    assert str(caught.value) == (
        f"{bad}:2:3: The target is empty. (and 2 more like it; also 1 x wrong column count) "
        "Fill in the field, or delete the whole record."
    )


def test_skip_leaves_out_and_counts_bad_pairs(bad):
    examples, report = read_pairs([bad], ErrorPolicy("skip", max_errors=4))
    assert [example.source for example in examples] == ["a", "d"]
    assert (report.read, report.kept, report.skipped, report.rejected) == (7, 2, 1, 4)


def test_skip_has_a_limit(bad):
    with pytest.raises(UserError) as caught:
        read_pairs([bad], ErrorPolicy("skip", max_errors=3))
    assert caught.value.message.startswith(
        "4 pairs have errors, and at most 3 may be skipped. The first: The target is empty."
    )
    assert caught.value.location == f"{bad}:2:3"


def test_skip_does_not_leave_a_corpus_without_a_pair(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("a\t\n")
    with pytest.raises(UserError, match="The target is empty"):
        read_pairs([path], ErrorPolicy("skip"))


def test_an_invalid_file_is_reported_before_invalid_lines_and_cannot_be_skipped():
    report = DataReport(kept=5)
    report.add_issue("empty field", Location("a", 3), "first")
    report.add_issue("line count mismatch", Location("b", 1), "second")
    with pytest.raises(UserError, match="second") as caught:
        report.raise_for_errors(ErrorPolicy("skip"))
    assert "also 1 x empty field" in caught.value.message
    assert report.is_invalid("b")
    assert not report.is_invalid("a")


def test_warnings_and_repairs_never_raise():
    report = DataReport(read=1, kept=1)
    for kind, details in ISSUE_KINDS.items():
        if details.severity != "error":
            report.add_issue(kind, Location("a", 1), "odd")
    report.raise_for_errors(ErrorPolicy())
    assert report.count_severity("error") == 0
    assert report.count_severity("warning") == sum(kind.severity == "warning" for kind in ISSUE_KINDS.values())


def test_the_report_is_plain_data_and_lists_every_issue(bad):
    data = check([bad]).to_json()
    assert json.loads(json.dumps(data)) == data
    assert data["files"] == [str(bad)]
    assert data["totals"] == {"read": 7, "kept": 2, "skipped": 1, "rejected": 4}
    assert [(part["kind"], part["severity"], part["count"]) for part in data["issues"]] == [
        ("empty field", "error", 3),
        ("wrong column count", "error", 1),
        ("blank record", "repair", 1),
    ]
    assert data["issues"][0]["share"] == 3 / 7
    first = data["issues"][0]["items"][0]
    assert first == {
        "file": str(bad), "line": 2, "column": 3, "offset": 4, "message": "The target is empty.", "text": "c\\t",
    }  # fmt: skip


def test_the_lines_show_totals_then_the_first_of_each_kind(bad):
    lines = check([bad]).to_lines(shown=2)
    assert lines[0] == "7 pairs read = 2 kept + 1 skipped + 4 rejected"
    assert lines[1].startswith("error: empty field, 3 found (42.86% of the pairs).")
    assert lines[2] == f"    {bad}:2:3: The target is empty. | c\\t"
    assert lines[4] == "    ... and 1 more"
    assert not any("more" in line for line in check([bad]).to_lines(shown=3))


def test_everything_is_counted_but_the_list_has_an_end():
    report = DataReport()
    for number in range(1, 151):
        report.add_issue("duplicate pair", Location("a", number), "again")
    assert report.counts["duplicate pair"] == 150
    assert len(report.issues["duplicate pair"]) == MAX_STORED["warning"] == 100
    assert report.to_lines()[-1] == "    ... and 130 more"


def test_texts_are_escaped_and_cut():
    assert escape("a\tb\\ 我\x1b\u2028\ud800") == "a\\tb\\\\ 我\\x1b\\u2028\\ud800"
    assert escape("x" * 100) == "x" * 80


def test_a_location_omits_unknown_numbers():
    assert str(Location("a.tsv")) == "a.tsv"
    assert str(Location("a.tsv", 3)) == "a.tsv:3"
    assert str(Location("a.tsv", 3, 7)) == "a.tsv:3:7"


def test_a_policy_that_does_not_exist_is_an_error():
    with pytest.raises(UserError, match="Did you mean 'skip'"):
        ErrorPolicy("skipp")
    with pytest.raises(UserError, match="-1"):
        ErrorPolicy("skip", max_errors=-1)


def test_every_kind_has_a_hint():
    assert all(kind.hint.endswith((".", '".')) for kind in ISSUE_KINDS.values())


def test_more_issues_than_records_are_no_share_of_them(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("a\x01\tb\x01\nc\td\n", encoding="utf-8")
    _, report = read_pairs([path])
    assert any(line.startswith("warning: control character, 2 found (100.00% of") for line in report.to_lines())
    path.write_text("a\x01\tb\x01\n", encoding="utf-8")
    _, report = read_pairs([path])
    assert any(line.startswith("warning: control character, 2 found. ") for line in report.to_lines())
