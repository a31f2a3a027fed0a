"""Running text as a corpus: no character is lost, the end is held out, and invalid text is refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seq2see.core.errors import UserError
from seq2see.data.examples import Example
from seq2see.data.readers import texts
from seq2see.data.readers.texts import PythonLibrary, UserTexts, hold_out_end, read_text

LINES = [f"line {number} of the book\n" for number in range(200)]


def joined(examples: list[Example]) -> str:
    return "".join(example.target for example in examples)


def test_the_end_is_held_out_at_line_endings(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text("".join(LINES), encoding="utf-8")
    splits, reports = UserTexts(paths=(str(path),)).read()
    assert joined(splits["train"]) + joined(splits["valid"]) + joined(splits["test"]) == "".join(LINES)
    sizes = {name: len(joined(examples)) / len("".join(LINES)) for name, examples in splits.items()}
    assert sizes == {name: pytest.approx(share, abs=0.01) for name, share in
                     {"train": 0.9, "valid": 0.05, "test": 0.05}.items()}  # fmt: skip
    assert all(joined(examples).endswith("\n") for examples in splits.values())
    assert [report.kept for report in reports] == [200]


@given(st.lists(st.text("ab\n", min_size=1, max_size=60), min_size=1, max_size=6))
def test_no_character_is_lost_or_moved(contents):
    splits = hold_out_end({"train": [Example("", text) for text in contents], "valid": [], "test": []})
    assert joined(splits["train"] + splits["valid"] + splits["test"]) == "".join(contents)


@pytest.mark.parametrize("lines", [["The title\n", "w" * 990 + "\n"], ["p" * 333 + "\n"] * 3, ["x" * 1000]])
def test_a_long_line_is_cut_before_too_much_is_held_out(lines):
    splits = hold_out_end({"train": [Example("", "".join(lines))], "valid": [], "test": []})
    assert joined(splits["train"] + splits["valid"] + splits["test"]) == "".join(lines)
    assert [len(joined(splits[name])) for name in ("valid", "test")] == [50, 50]


def test_a_line_is_held_out_whole_if_that_is_no_more_than_twice_as_much():
    lines = [f"{number}" * 99 + "\n" for number in range(10)]
    splits = hold_out_end({"train": [Example("", "".join(lines))], "valid": [], "test": []})
    assert [joined(splits[name]) for name in ("valid", "test")] == lines[-2:]


def test_short_texts_are_held_out_in_their_order():
    contents = ["a\n" * 100, "b\n", "c\n", "d\n"]
    splits = hold_out_end({"train": [Example("", text) for text in contents], "valid": [], "test": []})
    assert [each.target for each in splits["test"]] == ["a\na\n", "b\n", "c\n", "d\n"]


def test_a_text_of_one_line_is_cut_or_held_out():
    contents = ["a\n" * 100, "b" * 15]
    splits = hold_out_end({"train": [Example("", text) for text in contents], "valid": [], "test": []})
    assert joined(splits["test"]) == "b" * 10
    assert all(each.target for examples in splits.values() for each in examples)


def test_a_text_that_fits_is_held_out_as_a_whole():
    texts = [
        Example("", "a\n" * 45, location="a"),
        Example("", "b\nb\n.", location="b"),
        Example("", "c\nc\n.", location="c"),
    ]
    splits = hold_out_end({"train": texts, "valid": [], "test": []})
    assert splits == {"train": texts[:1], "valid": texts[1:2], "test": texts[2:]}


def test_the_location_of_a_text_is_its_whole_path(tmp_path):
    (tmp_path / "book.txt").write_text("".join(LINES), encoding="utf-8")
    splits = UserTexts(paths=(str(tmp_path / "book.txt"),)).splits()
    assert {example.location for examples in splits.values() for example in examples} == {str(tmp_path / "book.txt")}


def test_given_splits_are_not_held_out(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text(f"{name}." * 20 + "\n", encoding="utf-8")
    paths = {name: (str(tmp_path / name),) for name in "abc"}
    splits = UserTexts(paths=paths["a"], valid=paths["b"], test=paths["c"]).splits()
    assert [joined(splits[name])[0] for name in ("train", "valid", "test")] == ["a", "b", "c"]
    assert joined(splits["train"]) == "a." * 20 + "\n"
    splits = UserTexts(paths=paths["a"], test=paths["c"]).splits()
    assert joined(splits["train"] + splits["valid"]) == "a." * 20 + "\n"
    assert splits["valid"]


def test_packed_files_are_read_like_others(tmp_path):
    with gzip.open(tmp_path / "book.txt.gz", "wt", encoding="utf-8", newline="") as file:
        file.write("eins\nzwei\n")
    assert read_text(tmp_path / "book.txt.gz")[0].target == "eins\nzwei\n"


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_an_empty_text_is_refused(tmp_path, content):
    (tmp_path / "empty.txt").write_bytes(content)
    with pytest.raises(UserError, match=r"no text|0 lines"):
        read_text(tmp_path / "empty.txt")


def test_what_is_not_utf8_is_refused_with_its_line(tmp_path):
    (tmp_path / "latin.txt").write_bytes(b"fine\ncaf\xe9\n")
    with pytest.raises(UserError) as error:
        read_text(tmp_path / "latin.txt")
    assert "latin.txt:2" in str(error.value.location)


def test_one_endless_line_is_refused(tmp_path):
    (tmp_path / "long.txt").write_bytes(b"x" * (3 << 20))
    with pytest.raises(UserError, match=r"long\.txt:1: The line has 3,145,728 bytes.*split this line"):
        read_text(tmp_path / "long.txt")


ODD = ["\r", "\x00", "\x0c", "\x1b", "\x7f", "<", "<eos>", "é", "e\u0301", "â€™", "\ufeff", "\u2028"]
odd_text = st.lists(st.sampled_from(["a", " ", "\t", "\n", "\n", "~", "\\", *ODD])).map("".join)


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    return tmp_path_factory.mktemp("texts") / "book.txt"


def with_and_without_fast_path(path: Path) -> list[object]:
    """The text and the report of a file, read with the fast path and line by line."""
    results = []
    with pytest.MonkeyPatch.context() as patch:
        for _ in range(2):
            text, report = texts._scan(path)
            results.append((text, report.to_json()))
            patch.setattr(texts, "_read_plain_ascii", lambda path: "")
    return results


@example("a text\nthat is not at its end")
@example("a name <eos> of ours\n")
@given(st.text("ab ~\t\n") | odd_text | odd_text.map(str.splitlines).map("\n".join))
def test_the_fast_path_misses_no_issue(book, content):
    book.write_bytes(content.encode())
    fast, slow = with_and_without_fast_path(book)
    assert fast == slow


def test_a_plain_byte_has_no_issue(book):
    for letter in map(chr, range(0x80)):
        book.write_bytes(f"one{letter}two\n".encode() * 3)
        fast, slow = with_and_without_fast_path(book)
        assert fast == slow, letter
        assert bool(texts._read_plain_ascii(book)) == (letter.encode() in texts.PLAIN_BYTES), letter


def test_files_longer_than_one_chunk_are_checked(book):
    row = "word " * 1000 + "\n"
    book.write_bytes((row * 300).encode())
    assert texts._read_plain_ascii(book) == row * 300
    book.write_bytes((row * 300 + "word " * (1 << 18) + "\n").encode())
    assert texts._read_plain_ascii(book) == ""


def test_damaged_and_missing_files_are_errors_in_the_fast_path_too(tmp_path):
    (tmp_path / "book.txt.gz").write_bytes(gzip.compress(b"word\n" * 100)[:-12])
    for name in ("book.txt.gz", "nowhere.txt"):
        fast, slow = with_and_without_fast_path(tmp_path / name)
        assert fast == slow


@pytest.mark.parametrize("content", ["猫" * 500, "猫猫 猫\n\t猫\u3000\n" * 90], ids=["one line", "white space between"])
def test_one_symbol_is_refused_with_the_file(tmp_path, content):
    (tmp_path / "one.txt").write_text(content, encoding="utf-8")
    with pytest.raises(
        UserError, match=r"one\.txt: The text has no other character than '猫'.*two different characters"
    ):
        UserTexts(paths=(str(tmp_path / "one.txt"),)).read()


def test_a_text_of_which_nothing_can_be_held_out_is_refused_with_the_file(tmp_path):
    (tmp_path / "short.txt").write_text("你好，世界", encoding="utf-8")
    (tmp_path / "held_out.txt").write_text("猫", encoding="utf-8")
    short, held_out = (str(tmp_path / name) for name in ("short.txt", "held_out.txt"))
    with pytest.raises(UserError, match=r"short\.txt: The text is too short: 6 characters .*corpus\.valid"):
        UserTexts(paths=(short,)).read()
    assert joined(UserTexts(paths=(short,), valid=(held_out,), test=(held_out,)).splits()["train"]) == "你好，世界\n"


def test_python_comes_with_text_of_its_own():
    splits = PythonLibrary().splits()
    assert "import" in joined(splits["train"])
    assert len(joined(splits["train"])) > 1_000_000
    assert splits["valid"]
    assert splits["test"]
