"""JSON Lines: row 25 of the reader's contract."""

from __future__ import annotations

import json

import pytest
from scan_files import check

from seq2see.core.errors import UserError
from seq2see.data.readers.pair_files import read_pairs

GOOD = '{"source": "a", "target": "b"}'


def test_an_empty_text_is_named_by_its_key(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"file": "a.png", "caption": " "}\n{"text": "", "label": "good"}\n', encoding="utf-8")
    messages = [issue.message for issue in check([path]).issues["empty field"]]
    assert messages == ["The caption is empty.", "The text is empty."]


@pytest.fixture
def table(tmp_path):
    return tmp_path / "a.jsonl"


def write(path, *lines):
    path.write_bytes("\n".join(lines).encode() + b"\n")
    return path


def test_objects_in_any_order_with_further_keys_are_read(table):
    second = json.dumps({"target": "笔", "id": 7, "source": "pen", "more": {"x": [1]}})
    examples, report = read_pairs([write(table, GOOD, second)])
    assert [(example.source, example.target) for example in examples] == [("a", "b"), ("pen", "笔")]
    assert examples[1].location == f"{table}:2"
    assert not report.counts


@pytest.mark.parametrize("number", ["3", "-7", "2.50", "1e3", "1" * 10_000])
def test_a_number_as_a_label_is_the_text_it_is_written_as(table, number):
    lines = (f'{{"text": "a 3", "label": {number}}}', f'{{"file": "a.png", "label": {number}}}')
    for line in lines:
        examples, _ = read_pairs([write(table, line)])
        assert [example.target for example in examples] == [number]
        assert type(examples[0].target) is str


@pytest.mark.parametrize(
    "line, position, kind, word",
    [
        ('{"source": "a", "target": }', "2:27", "invalid JSON", "Expecting value"),
        ('{"source": "a" "target": "b"}', "2:16", "invalid JSON", "Expecting"),
        ('{"source": "我", "target": x}', "2:27", "invalid JSON", "Expecting value"),
        ("{", "2:2", "invalid JSON", "not JSON"),
        (GOOD + GOOD, "2:31", "invalid JSON", "Extra data"),
        ('["a", "b"]', "2:1", "wrong type", "a list"),
        ('"a"', "2:1", "wrong type", "a text"),
        ("null", "2:1", "wrong type", "null"),
        ('{"source": 3, "target": "b"}', "2:2", "wrong type", "'source' must be a text, but is a number"),
        ('{"source": "a", "target": null}', "2:17", "wrong type", "'target' must be a text, but is null"),
        ('{"source": "a", "target": true}', "2:17", "wrong type", "true or false"),
        ('{"source": "a", "target": ["b"]}', "2:17", "wrong type", "a list"),
        ('{"source": "a"}', "2:1", "missing key", "'target' is missing"),
        ('{"Source": "a", "target": "b"}', "2:1", "missing key", "'source' is missing"),
        ('{"source": "a", "target": "b", "source": "c"}', "2:32", "duplicate key", "'source'"),
        ('{"source": "a", "target": "b", "x": 1, "x": 1}', "2:40", "duplicate key", "'x'"),
        ('{"source": "a", "target": "b", "键": 1, "键": 1}', "2:40", "duplicate key", "'键'"),
        ('{"source": "a\\u0000b", "target": "b"}', "2:2", "NUL character", "In 'source'"),
        ('{"source": "a", "target": "b\\ufeff"}', "2:17", "embedded byte order mark", "In 'target'"),
        ('{"source": "a\\ud800", "target": "b"}', "2:2", "lone surrogate", "In 'source'"),
        ("[" * 100_000, "2:1", "invalid JSON", "nested too deeply"),
        ('{"source": ' + "1" * 10_000 + "}", "2:2", "wrong type", "'source' must be a text, but is a number"),
        ('{"image": "a.png"}', "2:1", "missing key", "'label' is missing"),
        ('{"text": 3, "label": 3}', "2:2", "wrong type", "'text' must be a text, but is a number"),
        ('{"text": "a", "label": true}', "2:15", "wrong type", "true or false"),
    ],
)
def test_a_bad_line_is_reported_with_line_column_and_key(table, line, position, kind, word):
    with pytest.raises(UserError) as caught:
        read_pairs([write(table, GOOD, line, '{"source": "c", "target": "d"}')])
    assert caught.value.location == f"{table}:{position}"
    assert word in caught.value.message
    report = check([table])
    assert list(report.counts) == [kind]
    assert (report.read, report.kept, report.rejected) == (3, 2, 1)
    json.dumps(report.to_json(), ensure_ascii=False).encode()  # no half character gets into the report


def test_both_halves_of_a_surrogate_pair_are_one_character(table):
    examples, report = read_pairs([write(table, '{"source": "\\ud83d\\ude00", "target": "smile"}')])
    assert examples[0].source == "😀"
    assert not report.counts


def test_blank_lines_and_empty_texts_follow_the_common_rules(table):
    report = check([write(table, GOOD, "", '{"source": "", "target": "b"}', '{"source": " ", "target": ""}')])
    assert (report.read, report.kept, report.skipped, report.rejected) == (4, 1, 2, 1)
    assert report.issues["empty field"][0].location.line == 3


def test_a_byte_order_mark_alone_in_a_text_is_nothing(table):
    report = check([write(table, GOOD, '{"source": "\\ufeff", "target": ""}', '{"source": "a", "target": "\\ufeff "}')])
    assert dict(report.counts) == {"blank record": 1, "empty field": 1}


def test_the_error_for_one_list_of_objects_has_the_command_that_converts_it(table):
    for text in (f"[{GOOD}]", f"[\n{GOOD}\n]"):
        with pytest.raises(UserError) as caught:
            read_pairs([write(table, text)])
        assert caught.value.hint.endswith(f"jq -c '.[]' {table} > pairs.jsonl")
    with pytest.raises(UserError) as caught:
        read_pairs([write(table, GOOD, "[1]")])
    assert "jq" not in caught.value.hint  # one line that is a list is no list of all objects


def test_a_line_break_in_a_text_is_reported(table):
    examples, report = read_pairs([write(table, '{"source": "a\\nb", "target": "c"}')])
    assert examples[0].source == "a\nb"
    assert list(report.counts) == ["embedded line break"]


@pytest.mark.parametrize("keys", [("text", "label"), ("sentence", "label"), ("source", "target")])
def test_columns_may_be_named_text_and_label(tmp_path, keys):
    path = tmp_path / "my.jsonl"
    path.write_text(json.dumps({keys[1]: "正面", "id": 1, keys[0]: "好"}) + "\n", encoding="utf-8")
    examples, _ = read_pairs([path])
    assert [(each.source, each.target) for each in examples] == [("好", "正面")]


def test_the_hint_has_the_keys_of_the_file(table):
    write(table, '{"file": "a.png"}', '{"file": "a.png", "caption": ["a", "b"]}')
    hints = {kind: issues[0].hint for kind, issues in check([table]).issues.items()}
    assert hints["missing key"] == "Every object needs the keys file and label."
    assert hints["wrong type"] == 'Write texts in quotes: {"file": "...", "caption": "..."}.'
