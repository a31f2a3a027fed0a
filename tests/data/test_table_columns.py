"""The two columns of a table: chosen, found by name, or by what they hold."""

from __future__ import annotations

import json
import random

import pytest

from seq2see.cli.data import split_columns
from seq2see.core.errors import UserError
from seq2see.data.readers.data_kinds import guess_data_kind
from seq2see.data.readers.number_series import UserSeries
from seq2see.data.readers.pair_files import UserLabeledTexts, UserPairs

RANDOM, WORDS = random.Random(7), ["the", "film", "was", "great", "bad", "fine"]
TEXTS = [f"{' '.join(RANDOM.choices(WORDS, k=7))} {index}" for index in range(60)]
LABELS = ["good" if index % 2 else "bad" for index in range(60)]
ROWS = list(zip(TEXTS, LABELS, strict=True))


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def read(corpus, path, **settings):
    """All examples as pairs, in the order of the file, and the lines of the report."""
    splits, (report,) = corpus(paths=(str(path),), **settings).read()
    examples = sorted(
        (each for split in splits.values() for each in split), key=lambda each: int(each.location.rpartition(":")[2])
    )
    return [(each.source, each.target) for each in examples], report.to_lines()


TABLES = {
    "usual names in a .csv": ("a.csv", ["review,sentiment", *(f"{text},{label}" for text, label in ROWS)]),
    "SST-2": ("a.tsv", ["label\tsentence", *(f"{label}\t{text}" for text, label in ROWS)]),
    "an id first": ("a.csv", ["id,sentence,label", *(f"{i},{text},{label}" for i, (text, label) in enumerate(ROWS))]),
    "no header": ("a.tsv", [f"{label}\t{text}" for text, label in ROWS]),
    "unknown names": ("a.csv", ["Urteil,Kommentar", *(f"{label},{text}" for text, label in ROWS)]),
    "one unknown name": ("a.tsv", ["review\tUrteil", *(f"{text}\t{label}" for text, label in ROWS)]),
    "semicolons": ("a.csv", ["Kommentar;Urteil", *(f"{text};{label}" for text, label in ROWS)]),
    "objects": ("a.jsonl", [json.dumps({"id": 7, "review": text, "stars": label}) for text, label in ROWS]),
    "objects with unknown keys": ("a.jsonl", [json.dumps({"id": "7", "x": text, "y": label}) for text, label in ROWS]),
    "fastText": ("a.txt", [f"__label__{label} {text}" for text, label in ROWS]),
}


@pytest.mark.parametrize("name", TABLES)
def test_texts_and_labels_are_found_by_name_or_by_what_the_columns_hold(tmp_path, name):
    file, lines = TABLES[name]
    path = write(tmp_path / file, lines)
    pairs, shown = read(UserLabeledTexts, path)
    assert pairs == ROWS
    assert shown[0] == "60 pairs read = 60 kept + 0 skipped + 0 rejected"
    assert guess_data_kind([path]) == UserLabeledTexts(paths=(str(path),))


def test_the_decision_is_one_line_with_two_examples(tmp_path):
    path = write(
        tmp_path / "a.csv", ["id,stars,review", "1,5,A fine film", "2,1,Bad", "3,5,So fine", "4,1,No", "5,5,Yes"]
    )
    _, lines = read(UserLabeledTexts, path)
    assert lines[1] == (
        "columns: text = column 3 'review', label = column 2 'stars' (by their names in the first line); "
        "A fine film → 5; Bad → 1"
    )


def test_the_user_chooses_columns_by_name_number_or_nested_key(tmp_path):
    lines = ["text,label,Note,Meinung", *(f"x,y,{label},{text}" for text, label in ROWS)]
    path = write(tmp_path / "a.csv", lines)
    assert read(UserLabeledTexts, path, columns=("Meinung", "Note"))[0] == ROWS
    path = write(tmp_path / "b.tsv", [line.replace(",", "\t") for line in lines[1:]])
    assert read(UserLabeledTexts, path, columns=("4", "3"))[0] == ROWS
    nested = [json.dumps({"translation": {"de": text.upper(), "fr": "x", "en": text}}) for text in TEXTS]
    path = write(tmp_path / "c.jsonl", nested)
    expected = [(text, text.upper()) for text in TEXTS]
    assert read(UserPairs, path, columns=("translation.en", "translation.de"))[0] == expected


def test_two_languages_in_a_nested_object_are_a_pair(tmp_path):
    lines = [json.dumps({"id": "1", "translation": {"en": text, "de": text.upper()}}) for text in TEXTS]
    pairs, shown = read(UserPairs, write(tmp_path / "a.jsonl", lines))
    assert pairs == [(text, text.upper()) for text in TEXTS]
    assert "'translation.en'" in shown[1]


def test_numbers_of_rows_are_no_texts_of_pairs(tmp_path):
    lines = [f"{index}\t{text}\t{index + 99}\t{text.upper()}" for index, text in enumerate(TEXTS)]
    assert read(UserPairs, write(tmp_path / "a.tsv", lines))[0] == [(text, text.upper()) for text in TEXTS]
    words = [f"{index}\tnumber {index}\tCC-BY" for index in range(60)]  # numbers in words, and an attribution
    assert read(UserPairs, write(tmp_path / "b.tsv", words))[0][5] == ("5", "number 5")


@pytest.mark.parametrize(
    "columns, words",
    [
        (("a", "sentiment"), "There is no column 'a'; the first line has: review, sentiment"),
        (("1", "3"), "There is no column 3; the first line has 2 columns"),
        (("review",), "Two columns are needed, and one is named"),
    ],
)
def test_a_wrong_choice_is_an_error_that_names_the_columns(tmp_path, columns, words):
    path = write(tmp_path / "a.csv", TABLES["usual names in a .csv"][1])
    with pytest.raises(UserError, match=words):
        read(UserLabeledTexts, path, columns=columns)


def test_two_possible_labels_are_an_error_with_the_remedy(tmp_path):
    lines = [f"{text}\t{label}\t{'de' if index % 3 else 'fr'}" for index, (text, label) in enumerate(ROWS)]
    path = write(tmp_path / "a.tsv", lines)
    with pytest.raises(UserError, match=r"Columns 2 and 3 have few distinct values .* --columns text=1 label=3"):
        read(UserLabeledTexts, path)
    assert read(UserLabeledTexts, path, columns=("1", "2"))[0] == ROWS


def test_a_small_test_file_has_the_columns_of_the_training_file(tmp_path):
    train = write(tmp_path / "a.tsv", TABLES["no header"][1])
    test = write(tmp_path / "b.tsv", ["good\tA new text", "bad\tAnother one"])
    splits = UserLabeledTexts(paths=(str(train),), test=(str(test),)).splits()
    assert [(each.source, each.target) for each in splits["test"]] == [("A new text", "good"), ("Another one", "bad")]
    train = write(tmp_path / "a.csv", TABLES["unknown names"][1])
    test = write(tmp_path / "b.csv", ["Nr,Kommentar,Urteil", "1,A new text,good"])
    splits = UserLabeledTexts(paths=(str(train),), test=(str(test),)).splits()
    assert [(each.source, each.target) for each in splits["test"]] == [("A new text", "good")]


def test_several_labels_of_one_line_of_fasttext_are_an_error(tmp_path):
    path = write(tmp_path / "a.txt", [*TABLES["fastText"][1], "__label__good __label__bad Both"])
    with pytest.raises(UserError, match="Expected one word that begins with __label__, found 2"):
        read(UserLabeledTexts, path)


def test_the_option_takes_its_further_values_from_the_files(tmp_path):
    names, chosen = split_columns(["a.csv", "label=b c"], ["text=a"])
    assert (names, chosen) == (["a.csv"], {"corpus.columns": ("a", "b c")})
    assert split_columns(["a=b.csv"], []) == (["a=b.csv"], {})
    with pytest.raises(UserError, match="'stars' does not choose a column"):
        split_columns(["a.csv"], ["text=a", "stars"])
    with pytest.raises(UserError, match="one is named"):
        split_columns(["a.csv"], ["text=a"])


def test_a_series_with_semicolons_may_have_decimal_commas(tmp_path):
    lines = ["date;sales", *(f"2024-01-{day:02d};{day},5" for day in range(1, 31))]
    splits, (report,) = UserSeries(paths=(str(write(tmp_path / "a.csv", lines)),)).read()
    assert splits["train"][0].target.split()[:2] == ["1.5", "2.5"]
    assert report.counts == {"decimal comma": 30}
