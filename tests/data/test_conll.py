"""CoNLL and CoNLL-U: words, tags, and lines that have too few or too many columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from seq2see.core.errors import UserError
from seq2see.data.readers.conll import UserTaggedTexts, read_tagged

UNIVERSAL = """\
# sent_id = 1
# text = Don't go
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVB\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
3\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t_
3.1\tyou\tyou\tPRON\tPRP\t_\t_\t_\t_\t_

1\t猫\t_\tNOUN\tNN\t_\t0\troot\t_\t_
"""


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_universal_dependencies(tmp_path):
    (first, second), report = read_tagged(write(tmp_path, "a.conllu", UNIVERSAL))
    assert first.source_words == ("Do", "n't", "go")
    assert first.source_tags == ("AUX", "PART", "VERB")
    assert (second.source_words, second.source_tags) == (("猫",), ("NOUN",))
    assert first.location.endswith("a.conllu:4")
    assert report.read == report.kept == 2


def test_in_plain_columns_the_last_is_the_tag(tmp_path):
    text = "-DOCSTART- -X- O\n\nEU NNP B-ORG\nrejects VBZ O\n\n\n# NN O\n"
    (first, second), _ = read_tagged(write(tmp_path, "a.txt", text))
    assert first.source_words == ("EU", "rejects")
    assert first.source_tags == ("B-ORG", "O")
    assert second.source_words == ("#",)  # no comment here


@pytest.mark.parametrize(
    "name, text, line",
    [
        ("a.conll", "I PRON\nsee\nyou PRON\n", 2),
        ("a.conll", "I PRON\nsee VERB NOUN\n", 2),
        ("a.conll", "alone\n", 1),
        ("a.conll", "I PRON PRON\nsee VERB\nyou PRON\n", 1),  # most words say how many columns there are
        ("a.conllu", UNIVERSAL.replace("3\tgo\tgo\tVERB", "3\tgo\tVERB"), 6),
        ("a.conllu", UNIVERSAL.replace("\t", " "), 3),
    ],
)
def test_words_and_tags_that_do_not_match_are_reported_with_file_and_line(tmp_path, name, text, line):
    with pytest.raises(UserError, match=rf"{name}:{line}.*columns.*Give every word one tag"):
        read_tagged(write(tmp_path, name, text))


@pytest.mark.parametrize(
    "old, new, message", [("\tVERB", "\t", "'go' has no tag"), ("\tgo\tgo", "\t\tgo", "tag without a word")]
)
def test_an_empty_cell_is_no_tag_and_no_word(tmp_path, old, new, message):
    with pytest.raises(UserError, match=rf"a\.conllu:6: .*{message}.*with tabs between"):
        read_tagged(write(tmp_path, "a.conllu", UNIVERSAL.replace(old, new)))


def test_a_plain_file_may_have_ten_columns(tmp_path):
    ((first,), _) = read_tagged(write(tmp_path, "a.conll", "猫 2 3 4 5 6 7 8 9 NOUN\n"))
    assert (first.source_words, first.source_tags) == (("猫",), ("NOUN",))


def test_a_file_without_a_word_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"/a\.conllu: There is no tagged word.*its tag on each line"):
        read_tagged(write(tmp_path, "a.conllu", "# nothing\n"))


def test_sentences_are_held_out(tmp_path):
    path = write(tmp_path, "a.conll", "".join(f"word{n} NOUN\nis VERB\n\n" for n in range(40)))
    splits, reports = UserTaggedTexts(paths=(str(path),)).read()
    assert {name: len(examples) for name, examples in splits.items()} == {"train": 36, "valid": 2, "test": 2}
    assert reports[0].read == 40


def test_a_sentence_may_be_repeated_in_the_test(tmp_path):
    path = write(tmp_path, "a.conll", "".join(f"word{n} NOUN\nis VERB\n\n" for n in range(40)))
    splits, _ = UserTaggedTexts(paths=(str(path),), test=(str(path),)).read()
    assert {name: len(examples) for name, examples in splits.items()} == {"train": 38, "valid": 2, "test": 40}


@pytest.mark.parametrize("name", ["a.conll", "a.conllu"])
def test_a_line_of_spaces_separates_sentences(tmp_path, name):
    line = "1\t{}\t_\t{}\t_\t_\t_\t_\t_\t_\n" if name.endswith("u") else "{} {}\n"
    examples, _ = read_tagged(write(tmp_path, name, line.format("I", "PRON") + " \t \n" + line.format("see", "VERB")))
    assert [each.source_words for each in examples] == [("I",), ("see",)]


def test_a_word_with_a_space_inside_is_one_word(tmp_path):
    ((first, _), _) = read_tagged(write(tmp_path, "a.conllu", UNIVERSAL.replace("\tgo\tgo", "\t1 000\tgo")))
    assert first.source_words == ("Do", "n't", "1\u00a0000")
    assert first.source.split(" ") == list(first.source_words)


def test_accents_written_in_two_ways_are_reported(tmp_path):
    _, report = read_tagged(write(tmp_path, "a.conll", "\u00e9t\u00e9 NOUN\ne\u0301te\u0301 NOUN\n"))
    assert report.issues["mixed Unicode normalization"][0].location.line == 2
