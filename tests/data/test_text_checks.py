"""Warnings: rows 9, 12, 14, 15, 19, 20, 22 and 23 of the reader's contract. No text is changed."""

from __future__ import annotations

import unicodedata

import pytest
from scan_files import check

from seq2see.data.readers.pair_files import read_pairs

CLEAN = [("Where is it?", "Où est-ce ?"), ("Hello", "你好"), ("He said", "Il a dit\xa0: «\xa0allé\xa0»")]


def issues_of(tmp_path, *pairs):
    """The issues by kind of clean pairs and then these pairs, after checking that every text was kept."""
    path = tmp_path / "a.tsv"
    path.write_bytes("".join(f"{source}\t{target}\n" for source, target in [*CLEAN, *pairs]).encode())
    examples, report = read_pairs([path])
    assert [(example.source, example.target) for example in examples] == [*CLEAN, *pairs]
    return {kind: [str(f.location).removeprefix(f"{path}:") for f in found] for kind, found in report.issues.items()}


@pytest.mark.parametrize("text", ["a\rb", "a\rb\rc"])
def test_a_lone_carriage_return_is_kept_and_reported(tmp_path, text):
    assert issues_of(tmp_path, (text, "x")) == {"lone carriage return": ["4:2"]}


@pytest.mark.parametrize("letter", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x1f"])
def test_separators_that_others_treat_as_line_endings_are_reported(tmp_path, letter):
    assert issues_of(tmp_path, ("abc", f"x{letter}y")) == {"unusual line separator": ["4:6"]}


@pytest.mark.parametrize("letter", ["\x01", "\x07", "\x08", "\x1b", "\x7f", "\x80", "\x9f"])
def test_other_control_characters_are_reported(tmp_path, letter):
    assert issues_of(tmp_path, ("abc", f"{letter}y")) == {"control character": ["4:5"]}


def test_control_characters_are_escaped_in_the_report(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes(b"a\x1b[31mb\tx\n")
    issue = check([path]).issues["control character"][0]
    assert issue.text == "a\\x1b[31mb"
    assert "U+001B" in issue.message


@pytest.mark.parametrize("original", ["café", "Où", "Ça", "naïve", "it’s", "“so", "«", "привет", "λόγος", "你好", "…"])
@pytest.mark.parametrize("wrong", ["latin-1", "cp1252"])
def test_utf_8_read_as_latin_1_is_reported(tmp_path, original, wrong):
    mojibake = original.encode().decode(wrong)
    assert issues_of(tmp_path, ("abc", mojibake))["mojibake"] == ["4:" + str(5 + _common(original, mojibake))]


def _common(one: str, other: str) -> int:
    return next(index for index, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1])


@pytest.mark.parametrize(
    "text",
    [
        "« Voilà » dit-il",
        "«\xa0Voilà\xa0»",
        "NÃO",
        "ROMÂNIA",
        "l’été\xa0»",
        "Île",
        "Ð",
        "né…",
        "ç»",
        "Ægir",
        "我…",
    ],
)
def test_honest_accents_are_no_mojibake(tmp_path, text):
    assert issues_of(tmp_path, ("abc", text)) == {}


@pytest.mark.parametrize(
    "source, target, is_reported",
    [
        ("ab", "x" * 19, True),
        ("ab", "x" * 18, False),
        ("y" * 28, "abc", True),
        ("你", "x" * 27, False),  # three bytes, as much as a short word
        ("你", "x" * 28, True),
        ("你你你你", "x", True),
        ("你你你", "x", False),
    ],
)
def test_a_length_ratio_over_nine_is_reported(tmp_path, source, target, is_reported):
    assert issues_of(tmp_path, (source, target)) == ({"length ratio": ["4"]} if is_reported else {})


def test_equal_texts_are_reported(tmp_path):
    assert issues_of(tmp_path, ("same", "same"), ("Same", "same")) == {"identical source and target": ["4"]}


def test_a_duplicate_pair_is_reported_with_its_first_location(tmp_path):
    found = issues_of(tmp_path, ("a", "b"), ("a", "c"), ("a", "b"), ("Hello", "你好"), ("a", "b"))
    assert found == {"duplicate pair": ["6", "7", "8"]}
    duplicates = check([tmp_path / "a.tsv"]).issues["duplicate pair"]
    assert [issue.message.rsplit(":")[-1] for issue in duplicates] == ["4.", "2.", "4."]


@pytest.mark.parametrize("token", ["</s>", "<pad>", "<bos>", "<eos>", "<unk>"])
def test_the_text_of_a_special_token_is_reported(tmp_path, token):
    assert issues_of(tmp_path, ("abc", f"x {token}")) == {"special token text": ["4:7"]}


@pytest.mark.parametrize("text", ["a < b", "<b>", "<padding>", "1 <2", "< pad >"])
def test_other_angle_brackets_are_plain(tmp_path, text):
    assert issues_of(tmp_path, ("abc", text)) == {}


def test_accents_written_in_two_ways_are_reported_at_the_first_decomposed_text(tmp_path):
    split = unicodedata.normalize("NFD", "été")
    assert issues_of(tmp_path, ("a", "b"), ("summer", split), ("spring", split)) == {
        "mixed Unicode normalization": ["5"]
    }
    assert check([tmp_path / "a.tsv"]).counts["mixed Unicode normalization"] == 2


def test_texts_without_accents_do_not_hide_a_mixture(tmp_path):
    """`CLEAN` has an é of one letter; after it there is a pair without accents."""
    assert issues_of(tmp_path, ("summer", unicodedata.normalize("NFD", "été")), ("cat", "猫")) == {
        "mixed Unicode normalization": ["4"]
    }


def test_an_escaped_text_has_no_column(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('a,"say ""<eos>"""\n', encoding="utf-8")
    (issue,) = check([path]).issues["special token text"]
    assert str(issue.location) == f"{path}:1"


def test_one_normal_form_throughout_is_no_mixture(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes(unicodedata.normalize("NFD", "summer\tété\nhello\t你好\n").encode())
    assert not check([path]).counts


def test_warnings_in_an_aligned_target_name_the_target_file(tmp_path):
    source, target = tmp_path / "a.de", tmp_path / "a.en"
    source.write_text("a\nb\n")
    target.write_text("x\ny\x07\n")
    issue = check([source, target]).issues["control character"][0]
    assert str(issue.location) == f"{target}:2:2"
