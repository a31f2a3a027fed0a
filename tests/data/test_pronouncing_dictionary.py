"""A pronouncing dictionary: every line accounted for, and no tested word in training."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from seq2see.core.errors import UserError
from seq2see.data.catalogue import catalogue
from seq2see.data.catalogue.catalogue import PHONEMES, read_dictionary, split_by_word
from seq2see.data.examples import Example
from seq2see.data.readers.data_report import DataReport, ErrorPolicy


def read(tmp_path, text):
    path = tmp_path / "cmudict.dict"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    report = DataReport()
    return read_dictionary(path, report), report


def books(report):
    return report.read, report.kept, report.skipped, report.rejected


def test_a_word_has_all_its_pronunciations_in_the_order_of_the_file(tmp_path):
    words, report = read(tmp_path, "tomato T AH0 M EY1 T OW2\nat AE1 T\ntomato(2) T AH0 M AA1 T OW2 # british\n")
    assert {word: list(sounds) for word, sounds in words.items()} == {
        "tomato": ["T AH0 M EY1 T OW2", "T AH0 M AA1 T OW2"],
        "at": ["AE1 T"],
    }
    assert words["tomato"]["T AH0 M AA1 T OW2"] == f"{tmp_path / 'cmudict.dict'}:3"
    assert books(report) == (3, 3, 0, 0)


def test_comments_and_blank_lines_are_skipped_and_counted(tmp_path):
    words, report = read(tmp_path, ";;; head\n\n# remark\n   \na AH0\n")
    assert list(words) == ["a"]
    assert books(report) == (5, 1, 4, 0)
    assert not report.counts


@pytest.mark.parametrize("word", ["'bout", "o'clock", "u.s.", "all-star", "a.'s"])
def test_apostrophes_hyphens_and_dots_belong_to_the_spelling(tmp_path, word):
    words, report = read(tmp_path, f"{word} AH0\n")
    assert list(words) == [word]
    assert books(report) == (1, 1, 0, 0)


@pytest.mark.parametrize("word", ["3d", "café", "Tomato", "a_b", "(paren", "co(2)-op", "a(x)"])
def test_words_with_unsupported_characters_are_skipped_and_counted(tmp_path, word):
    words, report = read(tmp_path, f"a AH0\n{word} K AH0\n")
    assert list(words) == ["a"]
    assert books(report) == (2, 1, 1, 0)
    assert report.counts == {"unsupported characters": 1}
    report.raise_for_errors(ErrorPolicy())  # nothing to complain of: the file is fine


def test_a_pronunciation_that_comes_twice_counts_once(tmp_path):
    words, report = read(tmp_path, "a AH0\na(2) EY1\na(3) AH0\n")
    assert list(words["a"]) == ["AH0", "EY1"]
    assert books(report) == (3, 2, 1, 0)
    assert "cmudict.dict:1" in report.issues["duplicate pronunciation"][0].message


@pytest.mark.parametrize(
    "line, words",
    [
        (b"mute", "no phonemes"),
        (b"mute # comment", "no phonemes"),
        (b"odd K AX0 T", "no phoneme 'AX0'"),
        (b"odd K AE T", "no phoneme 'AE'"),  # a vowel needs its stress
        (b"odd K1 AE1 T", "no phoneme 'K1'"),  # a consonant has none
        (b"odd k ae1 t", "no phoneme 'k'"),
        (b"odd \xff AE1", "0xFF is not UTF-8"),
    ],
)
def test_an_invalid_line_is_rejected_with_its_location(tmp_path, line, words):
    _, report = read(tmp_path, b"a AH0\n" + line + b"\nb B IY1\n")
    assert books(report) == (3, 2, 0, 1)
    with pytest.raises(UserError, match=words) as caught:
        report.raise_for_errors(ErrorPolicy())
    assert str(caught.value.location).startswith(f"{tmp_path / 'cmudict.dict'}:2")


@pytest.mark.parametrize("text", ["", ";;; nothing else\n", "3d AH0\n"])
def test_a_file_without_words_is_an_error(tmp_path, text):
    _, report = read(tmp_path, text)
    with pytest.raises(UserError, match=r"0 lines|no word"):
        report.raise_for_errors(ErrorPolicy())


@given(some.binary(max_size=80))
def test_any_bytes_are_accounted_for(tmp_path_factory, content):
    _, report = read(tmp_path_factory.mktemp("bytes"), content)
    assert report.read == report.kept + report.skipped + report.rejected


def test_a_line_that_is_no_text_is_rejected_and_reported_once(tmp_path):
    (tmp_path / "a.dict").write_bytes(b"c\xffat K AE1 T\n")
    report = DataReport()
    assert not read_dictionary(tmp_path / "a.dict", report)
    assert (report.read, report.skipped, report.rejected) == (1, 0, 1)
    assert list(report.counts) == ["invalid UTF-8"]


def test_there_are_39_sounds_and_15_of_them_are_stressed_in_three_ways():
    assert len(PHONEMES) == 24 + 3 * 15
    assert len({phoneme.rstrip("012") for phoneme in PHONEMES}) == 39


def numbered(count):
    """Words of letters a to j, every seventh with two pronunciations."""
    spelt = ["".join("abcdefghij"[int(digit)] for digit in str(number)) for number in range(count)]
    sounds = [{"AH0": "f:1", "EY1": "f:2"} if number % 7 == 0 else {"AH0": "f:1"} for number in range(count)]
    return dict(zip(spelt, sounds, strict=True))


def test_of_a_real_dictionary_5000_words_are_tested():
    assert (catalogue.TEST, catalogue.VALID) == (5000, 2000)


@pytest.mark.parametrize("count, valid, test", [(3, 1, 1), (20, 1, 1), (400, 8, 20), (1000, 20, 50), (2000, 23, 61)])
def test_the_number_of_held_out_words(monkeypatch, count, valid, test):
    monkeypatch.setattr(catalogue, "TEST", 61)
    monkeypatch.setattr(catalogue, "VALID", 23)
    words = numbered(count)
    splits = split_by_word(words)
    assert (len(splits["valid"]), len(splits["test"])) == (valid, test)
    learned = {example.source for example in splits["train"]}
    assert len(learned) == count - valid - test
    held_out = [example.source for name in ("valid", "test") for example in splits[name]]
    assert len(set(held_out)) == len(held_out)
    assert not learned & set(held_out)
    assert len(splits["train"]) == sum(len(words[word]) for word in learned)


def test_every_pronunciation_is_a_training_example_and_a_held_out_word_has_all_references():
    words = {word: {"AH0": f"f:{word}", "EY1": "g"} for word in numbered(60)}
    splits = split_by_word(words)
    first = splits["train"][0]
    second = splits["train"][1]
    assert (first.source, first.target, second.source, second.target) == (first.source, "AH0", first.source, "EY1")
    tested = splits["test"][0]
    assert tested == Example(tested.source, "AH0", references=("AH0", "EY1"), location=f"f:{tested.source}")
    assert tested.all_references == ("AH0", "EY1")
    assert Example("a", "b").all_references == ("b",)


def test_the_splits_depend_on_the_spellings_alone_and_are_fixed():
    words = numbered(60)
    backwards = dict(reversed(words.items()))
    splits = split_by_word(words)
    for name, split in split_by_word(backwards).items():
        assert {example.source for example in split} == {example.source for example in splits[name]}
    # Fixed once and for all: another version of seq2see must test on the same words.
    assert [example.source for example in splits["test"]] == ["g", "bh", "ec"]
    assert [example.source for example in splits["valid"]] == ["ef"]


def test_a_larger_dictionary_moves_no_word_between_valid_and_test():
    small, large = split_by_word(numbered(1000)), split_by_word(numbered(1100))
    sources = {name: {example.source for example in split} for name, split in large.items()}
    assert not {example.source for example in small["valid"]} & sources["test"]
    assert not {example.source for example in small["test"]} & sources["valid"]


def test_too_few_words_to_split_are_an_error():
    with pytest.raises(UserError, match="2 different words, and at least 3"):
        split_by_word(numbered(2))
