"""The user's files: formats by name (row 20)."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from scan_files import check

from seq2see.core.errors import UserError
from seq2see.data.readers.pair_files import UserLabeledTexts, UserPairs, read_pairs

FORMATS = {
    "a.tsv": "a\tb\nc\td\n",
    "a.txt": "a\tb\nc\td\n",
    "a.csv": "source,target\na,b\nc,d\n",
    "a.jsonl": '{"source": "a", "target": "b"}\n{"source": "c", "target": "d"}\n',
    "a.json": '{"source": "a", "target": "b"}\n{"source": "c", "target": "d"}\n',
}


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".GZ"])
@pytest.mark.parametrize("name", FORMATS)
def test_the_format_follows_from_the_name(tmp_path, name, suffix):
    pack = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[suffix.lower()]
    path = tmp_path / (name + suffix)
    path.write_bytes(pack(FORMATS[name].encode()))
    examples, report = read_pairs([path])
    assert [(example.source, example.target) for example in examples] == [("a", "b"), ("c", "d")]
    assert report.read == report.kept == 2
    assert not report.counts


@pytest.mark.parametrize("names", [("t.de.gz", "t.en"), ("s.txt", "t.txt"), ("source", "target.xz")])
def test_two_files_are_source_lines_and_target_lines(tmp_path, names):
    compress = {".gz": gzip.compress, ".xz": lzma.compress}
    paths = [tmp_path / name for name in names]
    for path, content in zip(paths, [b"a\nc\n", b"b\nd\n"], strict=True):
        path.write_bytes(compress.get(path.suffix, bytes)(content))
    examples, report = read_pairs(paths)
    assert [(example.source, example.target) for example in examples] == [("a", "b"), ("c", "d")]
    assert examples[1].location == f"{paths[0]}:2"
    assert report.files == [str(path) for path in paths]


@pytest.mark.parametrize(
    "names, words",
    [
        ([], "one file or two, not from 0"),
        (["a.de", "a.en", "a.fr"], "not from 3"),
        (["a.dat"], "The format is unknown"),
        (["a"], "The format is unknown"),
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
    assert caught.value.location == str(tmp_path / "missing.tsv")


@given(some.binary(max_size=60), some.sampled_from(sorted(FORMATS)))
def test_check_survives_any_bytes(tmp_path_factory, content, name):
    path = tmp_path_factory.mktemp("bytes") / name
    path.write_bytes(content)
    report = check([path])
    assert report.read == report.kept + report.skipped + report.rejected
    assert report.kept or report.first_error


def test_test_sources_in_the_training_data_are_refused_unless_allowed(tmp_path):
    (tmp_path / "a.tsv").write_text("".join(f"source {number}\ttarget\n" for number in range(9)))
    files = {"paths": (str(tmp_path / "a.tsv"),), "test": (str(tmp_path / "a.tsv"),)}
    with pytest.raises(UserError, match=r"9 of 9 test sources .*corpus\.overlap=allow"):
        UserPairs(**files).splits()
    assert len(UserPairs(**files, overlap="allow").splits()["test"]) == 9


def test_as_many_bad_pairs_are_skipped_as_the_setting_allows(tmp_path):
    (tmp_path / "a.tsv").write_text("".join(f"source {number}\ttarget\n" for number in range(9)) + "odd\nodd\n")
    files = {"paths": (str(tmp_path / "a.tsv"),), "on_error": "skip"}
    assert sum(map(len, UserPairs(**files, max_errors=2).splits().values())) == 9
    with pytest.raises(UserError, match="2 pairs have errors, and at most 1 may be skipped"):
        UserPairs(**files, max_errors=1).splits()


def test_short_labels_are_not_reported(tmp_path):
    (tmp_path / "a.tsv").write_text(
        "".join(f"a long text of {number} words{'.' * 20}\t{'ab'[number % 2]}\n" for number in range(9))
    )
    for kind, count in ((UserPairs, 9), (UserLabeledTexts, 0)):
        _, (report,) = kind(paths=(str(tmp_path / "a.tsv"),)).read()
        assert report.counts["length ratio"] == count


def test_training_pairs_with_a_test_source_are_left_out_and_counted(tmp_path):
    (tmp_path / "a.tsv").write_text("".join(f"source {number}\ttarget {number}\n" for number in range(40)))
    (tmp_path / "b.tsv").write_text("source 3\tother\nsource 5\tother\nnew\tother\n")
    files = {"paths": (str(tmp_path / "a.tsv"),), "test": (str(tmp_path / "b.tsv"),)}
    splits, reports = UserPairs(**files, overlap="leave-out").read()
    assert len(splits["train"]) + len(splits["valid"]) == 38
    assert not {"source 3", "source 5"} & {each.source for each in splits["train"] + splits["valid"]}
    assert any(line.startswith("2 of them were left out of training") for line in reports[0].to_lines())


def test_no_target_of_a_held_out_pair_is_in_training(tmp_path):
    lines = [f"source {number}\ttarget {number // 3}\n" for number in range(90)]
    (tmp_path / "a.tsv").write_text("".join(lines))
    splits = UserPairs(paths=(str(tmp_path / "a.tsv"),)).splits()
    train = {each.target for each in splits["train"]}
    assert splits["test"]
    assert not train & {each.target for each in [*splits["test"], *splits["valid"]]}
    (tmp_path / "b.tsv").write_text("".join(f"source {number}\ttarget\n" for number in range(90)))
    assert UserPairs(paths=(str(tmp_path / "b.tsv"),)).splits()["test"]  # one target for all: split by sources
