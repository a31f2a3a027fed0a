"""Series: the generated sine, and columns of the user's own tables."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from seq2see.core.errors import UserError
from seq2see.data.readers.number_series import NoisySine, UserSeries, read_column


def values(splits, name: str) -> list[float]:
    return [float(line) for example in splits[name] for line in example.target.split()]


def read_values(path: Path, text: str, **settings) -> list[float]:
    path.write_text(text, encoding="utf-8")
    splits = UserSeries(paths=(str(path),), **settings).splits()
    return [value for name in ("train", "valid", "test") for value in values(splits, name)]


def test_the_built_in_series_is_a_sine_with_noise_and_always_the_same():
    splits = NoisySine().splits()
    assert [len(values(splits, name)) for name in ("train", "valid", "test")] == [600, 200, 200]
    whole = np.array([value for name in splits for value in values(splits, name)])
    noise = whole - np.sin(0.01 * np.arange(1, 1001))
    assert noise.std() == pytest.approx(0.2, rel=0.1)
    assert NoisySine().splits() == splits
    assert values(NoisySine(noise=0, size=20).splits(), "train")[0] == pytest.approx(np.sin(0.01))


def test_the_last_column_is_read_with_or_without_names(tmp_path: Path):
    assert read_values(tmp_path / "a.csv", "1\n2.5\n-3e1\n") == [1, 2.5, -30]
    assert read_values(tmp_path / "b.csv", "day,价格\n1,10\n2,11\n") == [10, 11]
    assert read_values(tmp_path / "c.tsv", "1\t10\n2\t11\n") == [10, 11]


def test_a_column_is_found_by_its_name(tmp_path: Path):
    assert read_values(tmp_path / "b.csv", "价格,day\n10,1\n11,2\n", column="价格") == [10, 11]
    with pytest.raises(UserError, match=r"b\.csv:1: There is no column 'prise'. Did you mean 'price'\?"):
        read_values(tmp_path / "b.csv", "day,price\n1,10\n", column="prise")


def test_the_name_of_a_column_may_be_a_number(tmp_path: Path):
    assert read_values(tmp_path / "a.csv", "2019,2020\n1,10\n2,11\n", column="2019") == [1, 2]


def test_a_compressed_table_is_split_by_its_suffix(tmp_path: Path):
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(b"1\t10\n2\t11\n"))
    assert read_column(tmp_path / "a.tsv.gz", "")[0] == [10, 11]


def test_each_line_has_one_issue(tmp_path: Path):
    (tmp_path / "a.csv").write_bytes(b"1\n\xff\n\xff,2\n3\n")
    numbers, report = read_column(tmp_path / "a.csv", "")
    assert (numbers, dict(report.counts)) == ([1, 3], {"invalid UTF-8": 2})
    assert (report.read, report.kept, report.skipped, report.rejected) == (4, 2, 0, 2)
    (tmp_path / "a.tsv").write_bytes(
        b"1\n\xff\t2\n\xff\t2\n"
    )  # and an invalid line does not determine the column count
    assert read_column(tmp_path / "a.tsv", "")[0] == [1]


@pytest.mark.parametrize("cell", ["abc", "nan", "inf", "1_000", "十"])
def test_a_cell_that_is_no_number_is_named_with_its_line(tmp_path: Path, cell):
    with pytest.raises(UserError, match=rf"a\.csv:3: '{cell}' is not a number\. .*12\.5"):
        read_values(tmp_path / "a.csv", f"1\n2\n{cell}\n4\n")


def test_a_line_that_is_too_short_is_named(tmp_path: Path):
    with pytest.raises(UserError, match=r"a\.csv:3: There is no number in this line"):
        read_values(tmp_path / "a.csv", "day,price\n1,10\n2\n", column="price")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("day,price\n1,10\n2\n", "a.csv:3: There is no number in this line"),  # and 2 is no price
        ("1,10\n2,11\n3\n", "a.csv:3: There is no number in this line"),
        ("price\n1\n2,5\n", "a.csv:3: Expected 1 columns, found 2"),  # two and a half with a decimal comma
        ("1\n2,5\n3\n", "a.csv:2: Expected 1 columns, found 2"),
        ("day,price\n1,10\n2,11,7\n", "a.csv:3: Expected 2 columns, found 3"),
        ("day,price\n1\n2\n", "a.csv:2: There is no number in this line"),  # the header determines the column count
        ("1\n2,5\n", "a.csv:2: Expected 1 columns, found 2"),  # one against one: the smaller number
        ("0,5\n1,25\n0,05\n", "a.csv:3: The number has a decimal comma"),
        ("0,5\n-0,25\n", "a.csv:2: The number has a decimal comma"),
    ],
)
def test_no_other_column_is_read_in_place_of_the_last(tmp_path: Path, text, message):
    with pytest.raises(UserError) as caught:
        read_values(tmp_path / "a.csv", text)
    assert str(caught.value).removeprefix(f"{tmp_path}/").startswith(message)


def test_values_of_a_named_column_may_begin_with_a_zero(tmp_path: Path):
    assert read_values(tmp_path / "a.csv", "year,month\n2024,11\n2025,02\n", column="year") == [2024, 2025]
    assert read_values(tmp_path / "a.csv", "1,10\n2,20\n") == [10, 20]


def test_the_header_may_follow_blank_lines(tmp_path: Path):
    assert read_values(tmp_path / "a.csv", "\n\nday,price\n1,10\n", column="price") == [10]
    with pytest.raises(UserError, match=r"a\.csv:3: There is no column 'prise'"):
        read_values(tmp_path / "a.csv", "\n\nday,price\n1,10\n", column="prise")


def test_the_error_explains_why_there_is_no_number(tmp_path: Path):
    (tmp_path / "a.csv").write_bytes(b"\xff\n")
    _, report = read_column(tmp_path / "a.csv", "")
    assert (list(report.counts), report.skipped, report.rejected) == (["invalid UTF-8"], 0, 1)
    (tmp_path / "a.csv").write_bytes(b"price\n")
    assert list(read_column(tmp_path / "a.csv", "")[1].counts) == ["empty file"]


def test_all_records_are_counted(tmp_path: Path):
    (tmp_path / "a.csv").write_text("price\n1\n\n2\n", encoding="utf-8")
    _, (report,) = UserSeries(paths=(str(tmp_path / "a.csv"),)).read()
    assert (report.read, report.kept, report.skipped, report.rejected) == (4, 2, 2, 0)


def test_given_splits_are_not_cut(tmp_path: Path):
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.csv").write_text("".join(f"{number}\n" for number in range(10)))
    paths = {name: (str(tmp_path / f"{file}.csv"),) for name, file in (("paths", "a"), ("valid", "b"), ("test", "c"))}
    splits = UserSeries(**paths).splits()
    assert [len(values(splits, name)) for name in splits] == [10, 10, 10]
    splits = UserSeries(paths=paths["paths"], test=paths["test"]).splits()
    assert [len(values(splits, name)) for name in splits] == [8, 2, 10]
    assert values(splits, "valid") == [8, 9]
