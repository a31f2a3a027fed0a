"""Checking files: their kind, and all issues in them, without stopping at the first."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from seq2see.core.errors import UserError
from seq2see.data.readers.conll import UserTaggedTexts
from seq2see.data.readers.data_kinds import guess_data_kind
from seq2see.data.readers.number_series import UserSeries
from seq2see.data.readers.pair_files import UserLabeledTexts, UserPairs
from seq2see.data.readers.texts import UserTexts
from seq2see.data.readers.user_images import UserCaptionedImages, UserImages


def write(path: Path, content: str | bytes) -> str:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.conllu", "1\tI\t_\tPRON\t_\t_\t_\t_\t_\t_\n", UserTaggedTexts),
        ("a.conll", "I PRON\n", UserTaggedTexts),
        ("书.txt", "从前有一座山\n", UserTexts),
        ("pairs.txt", "a\tb\n", UserPairs),
        ("a.tsv", "no tab, and a fault\n", UserPairs),
        ("a.csv", "id,label,image\n1,猫,a.png\n", UserImages),
        ("a.jsonl", '{"file": "a.png", "label": "猫"}\n', UserImages),
        ("a.csv", "image,caption\na.png,一只猫\n", UserCaptionedImages),
        ("a.png", "one image is not a set; its reader raises the error", UserImages),
        ("a.csv", "file,label,text\na.txt,good,well done\n", UserLabeledTexts),
        ("a.csv", "file,label,sentence\na.txt,good,well done\n", UserLabeledTexts),
        ("a.csv", "file,label,source,target\na.txt,good,well,done\n", UserPairs),
    ],
)
def test_what_a_file_is_follows_from_its_name_and_from_its_tabs(tmp_path, name, content, kind):
    assert type(guess_data_kind([Path(write(tmp_path / name, content))])) is kind


def test_two_files_are_tagged_words_if_both_have_the_suffix(tmp_path):
    for names, kind in ((("a.conll", "b.conllu"), UserTaggedTexts), (("a.conll", "a.de"), UserPairs)):
        assert type(guess_data_kind([tmp_path / name for name in names])) is kind


def test_a_folder_is_images(tmp_path):
    assert guess_data_kind([tmp_path]) == UserImages(paths=(str(tmp_path),))


@pytest.mark.parametrize("names", [["a.md"], ["a"], ["a.txt", "b.txt", "c.txt"]])
def test_ambiguous_files_need_a_task(tmp_path, names):
    with pytest.raises(UserError, match="Give the task: --task write"):
        guess_data_kind([tmp_path / name for name in names])


def test_all_faults_of_a_text_are_reported(tmp_path):
    path = write(tmp_path / "a.txt", b"good\n\xff\ntab\tis a space\n\x00nul\n\xc3\x83\xc2\xa9t\xc3\x83\xc2\xa9\n")
    (report,) = UserTexts(paths=(path,)).check()
    assert dict(report.counts) == {"invalid UTF-8": 1, "NUL character": 1, "mojibake": 1}
    assert (report.read, report.kept, report.rejected) == (5, 3, 2)
    assert report.files == [path]


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_a_text_without_text_is_an_error(tmp_path, content):
    (report,) = UserTexts(paths=(write(tmp_path / "a.txt", content),)).check()
    assert dict(report.counts) == {"empty file": 1}


def test_tagged_sentences_with_faults_are_rejected_and_counted(tmp_path):
    path = write(tmp_path / "a.conll", b"I PRON\nsee\n\nyou PRON\n\n\xff X\nsee VERB\n\n\xe7\x8c\xab NOUN\n")
    (report,) = UserTaggedTexts(paths=(path,)).check()
    assert dict(report.counts) == {"wrong column count": 1, "invalid UTF-8": 1}
    assert (report.read, report.kept, report.rejected) == (4, 2, 2)
    assert "(25.00% of the sentences)" in "".join(report.to_lines())


def test_all_faults_of_a_series_are_reported(tmp_path):
    path = write(tmp_path / "a.csv", "price\n1\nx\n\n2\ny\n")
    (report,) = UserSeries(paths=(path,)).check()
    assert dict(report.counts) == {"not a number": 2}
    assert (report.read, report.kept, report.skipped, report.rejected) == (6, 2, 2, 2)


def test_a_label_is_short_and_that_is_no_issue(tmp_path):
    path = write(tmp_path / "a.tsv", f"{'很长的文本' * 20}\t好\n{'又一个文本' * 20}\t坏\n")
    assert UserPairs(paths=(path,)).check()[0].counts["length ratio"] == 2
    assert not UserLabeledTexts(paths=(path,)).check()[0].counts["length ratio"]


def test_too_few_to_hold_any_out_are_reported_by_the_check(tmp_path):
    pairs = write(tmp_path / "a.tsv", "a\tx\nb\ty\n")
    labels = write(tmp_path / "b.tsv", "".join(f"text {number}\tlabel {number}\n" for number in range(9)))
    words = write(tmp_path / "a.conll", "I PRON\n\nsee VERB\n\nup ADV\n\nso CONJ\n")
    for corpus, message in (
        (UserPairs(paths=(write(tmp_path / "a.de", "a\n"), write(tmp_path / "a.en", "x\n"))), "There are 1 different"),
        (UserPairs(paths=(pairs,)), "There are 2 different sources, and at least 3 are needed"),
        (UserLabeledTexts(paths=(labels,)), "Of 9 different examples only 0 share their label"),
        (UserTaggedTexts(paths=(words,)), "Of 4 different examples only 0 share their label or tags"),
    ):
        with pytest.raises(UserError, match=message):
            corpus.read()
        (report,) = corpus.check()
        assert dict(report.counts) == {"too small to split": 1}
        first, second = report.to_lines()[-2:]
        assert first.startswith("warning: too small to split, 1 found. Add ")
        assert message in second
        assert second.startswith(f"    {corpus.paths[0]}: ")


def test_too_few_images_to_hold_any_out_are_reported_by_the_check(tmp_path):
    for number, name in enumerate(("cat", "dog")):
        (tmp_path / name).mkdir()
        Image.new("RGB", (40, 40), (90 * number, 7, 7)).save(tmp_path / name / "a.png")
    (report,) = UserImages(paths=(str(tmp_path),)).check()
    first, second = report.to_lines()[1:]
    assert first.startswith("warning: too small to split, 1 found. Add ")
    assert "There are 2 different images, and at least 4 are needed" in second


def test_issues_of_a_whole_set_have_no_percentage(tmp_path):
    (tmp_path / "cat").mkdir()
    for number in range(5):
        Image.new("RGB", (40, 40), (40 * number, 7, 7)).save(tmp_path / "cat" / f"{number}.png")
    (tmp_path / "cat" / "text.png").write_text("text")
    (report,) = UserImages(paths=(str(tmp_path),)).check()
    single, whole = [line for line in report.to_lines() if line.startswith("error")]
    assert single.startswith("error: not an image, 1 found (16.67% of the images). Save it")
    assert whole.startswith("error: single class, 1 found. Add images")


def test_the_error_explains_the_ten_columns(tmp_path):
    path = write(tmp_path / "a.conllu", "1\tI\t_\tPRON\t_\t_\t_\t_\t_\t_\n2\tsee\tVERB\n")
    (report,) = UserTaggedTexts(paths=(path,)).check()
    expected = "This word has 3 columns, and 10 are expected: the second is the word, and the fourth its tag."
    assert report.issues["wrong column count"][0].message == expected
