"""The user's files: formats by name, and train, valid and test that share no source (row 20)."""

from __future__ import annotations

import gzip
import lzma
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from seq2see.core.errors import UserError
from seq2see.sources.examples import Example
from seq2see.sources.own_files import check, hold_out, read_pairs

FORMATS = {
    "a.tsv": "a\tb\nc\td\n",
    "a.txt": "a\tb\nc\td\n",
    "a.csv": "source,target\na,b\nc,d\n",
    "a.jsonl": '{"source": "a", "target": "b"}\n{"source": "c", "target": "d"}\n',
    "a.json": '{"source": "a", "target": "b"}\n{"source": "c", "target": "d"}\n',
}


@pytest.mark.parametrize("packing", ["", ".gz", ".xz", ".GZ"])
@pytest.mark.parametrize("name", FORMATS)
def test_the_format_follows_from_the_name(tmp_path, name, packing):
    pack = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[packing.lower()]
    path = tmp_path / (name + packing)
    path.write_bytes(pack(FORMATS[name].encode()))
    examples, report = read_pairs([path])
    assert [(example.source, example.target) for example in examples] == [("a", "b"), ("c", "d")]
    assert report.read == report.kept == 2
    assert not report.counts


@pytest.mark.parametrize("names", [("t.de.gz", "t.en"), ("s.txt", "t.txt"), ("source", "target.xz")])
def test_two_files_are_source_lines_and_target_lines(tmp_path, names):
    packers = {".gz": gzip.compress, ".xz": lzma.compress}
    paths = [tmp_path / name for name in names]
    for path, content in zip(paths, [b"a\nc\n", b"b\nd\n"], strict=True):
        path.write_bytes(packers.get(path.suffix, bytes)(content))
    examples, report = read_pairs(paths)
    assert [(example.source, example.target) for example in examples] == [("a", "b"), ("c", "d")]
    assert examples[1].place == f"{paths[0]}:2"
    assert report.files == [str(path) for path in paths]


@pytest.mark.parametrize(
    "names, words",
    [
        ([], "one file or two, not from 0"),
        (["a.de", "a.en", "a.fr"], "not from 3"),
        (["a.dat"], "does not say which format"),
        (["a"], "does not say which format"),
        (["a.tsv", "b.tsv"], "this one is a table"),
        (["a.de", "b.csv.gz"], "this one is a table"),
    ],
)
def test_names_that_make_no_sense_are_clear_errors(names, words):
    with pytest.raises(UserError, match=words):
        read_pairs([Path(name) for name in names])


def test_check_reports_a_missing_file_instead_of_raising(tmp_path):
    report = check([tmp_path / "missing.tsv"])
    assert list(report.counts) == ["unreadable file"]
    with pytest.raises(UserError, match="No such file") as caught:
        read_pairs([tmp_path / "missing.tsv"])
    assert caught.value.where == str(tmp_path / "missing.tsv")


@given(some.binary(max_size=60), some.sampled_from(sorted(FORMATS)))
def test_check_survives_any_bytes(tmp_path_factory, content, name):
    path = tmp_path_factory.mktemp("bytes") / name
    path.write_bytes(content)
    report = check([path])
    assert report.read == report.kept + report.skipped + report.rejected
    assert report.kept or report.first_error


def numbered(count, times=1):
    return [Example(f"s{number}", f"t{again}") for number in range(count) for again in range(times)]


@pytest.mark.parametrize("count, held", [(3, 1), (19, 1), (50, 2), (200, 10), (20_100, 1000)])
def test_five_per_cent_are_held_out_at_least_one_and_at_most_a_thousand(count, held):
    splits = hold_out(numbered(count))
    assert {name: len(split) for name, split in splits.items()} == {
        "train": count - 2 * held,
        "valid": held,
        "test": held,
    }


@given(some.lists(some.tuples(some.sampled_from("abcdefgh"), some.sampled_from("xyz")), min_size=3, max_size=60))
def test_no_example_is_lost_and_no_source_is_in_two_splits(pairs):
    examples = [Example(*pair, place=f"f:{number}") for number, pair in enumerate(pairs)]
    if len({example.source for example in examples}) < 3:
        with pytest.raises(UserError, match="at least 3"):
            hold_out(examples)
        return
    splits = hold_out(examples)
    assert all(splits.values())
    assert sorted(chain(*splits.values()), key=examples.index) == examples
    sources = [{example.source for example in split} for split in splits.values()]
    assert sum(map(len, sources)) == len(set.union(*sources))
    assert all(split == sorted(split, key=examples.index) for split in splits.values())


def test_the_division_depends_on_the_texts_alone():
    examples = numbered(100)
    one, other = hold_out(examples), hold_out(examples[::-1])
    assert {name: set(split) for name, split in one.items()} == {name: set(split) for name, split in other.items()}
    # Fixed once and for all: another version of seq2see must test on the same examples.
    assert [example.source for example in one["test"]] == ["s66", "s72", "s73", "s80", "s94"]
    assert [example.source for example in one["valid"]] == ["s6", "s24", "s76", "s81", "s87"]


def test_more_data_moves_nothing_between_valid_and_test():
    small, large = hold_out(numbered(400)), hold_out(numbered(500))
    sources = {name: {example.source for example in split} for name, split in large.items()}
    assert not {example.source for example in small["valid"]} & sources["test"]
    assert not {example.source for example in small["test"]} & sources["valid"]


def test_sources_with_many_targets_do_not_overfill_a_split():
    splits = hold_out(numbered(100, times=7))
    assert len(splits["valid"]) == len(splits["test"]) == 35
    splits = hold_out(numbered(3, times=10))
    assert [len(split) for split in splits.values()] == [10, 10, 10]


@pytest.mark.parametrize("examples", [[], numbered(1), numbered(2), numbered(2, times=50)])
def test_fewer_than_three_sources_are_a_clear_error(examples):
    with pytest.raises(UserError, match="at least 3 are needed"):
        hold_out(examples)


def test_given_files_are_used_as_they_are():
    valid, test = [Example("v", "1")], [Example("t", "1")]
    examples = numbered(40)
    assert hold_out(examples, valid, test) == {"train": examples, "valid": valid, "test": test}
    splits = hold_out(examples, test=test)
    assert (len(splits["train"]), len(splits["valid"]), splits["test"]) == (38, 2, test)
    splits = hold_out(examples, valid)
    assert (len(splits["train"]), splits["valid"], len(splits["test"])) == (38, valid, 2)
    assert hold_out(numbered(1), valid, test)["train"] == numbered(1)


def test_a_test_source_among_the_training_data_is_an_error_unless_allowed():
    train = [Example("a", "b", place="train.tsv:1"), Example("c", "d", place="train.tsv:2")]
    test = [Example("x", "y", place="test.tsv:1"), Example("c", "e", place="test.tsv:2")]
    with pytest.raises(UserError) as caught:
        hold_out(train, [Example("v", "w")], test)
    assert caught.value.where == "test.tsv:2"
    assert "1 of 2 test sources" in caught.value.what
    assert "train.tsv:2" in caught.value.what
    assert hold_out(train, [Example("v", "w")], test, allow_overlap=True)["train"] == train
