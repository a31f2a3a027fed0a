"""The user's files: formats by name (row 20)."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from whole_files import check

from seq2see.core.errors import UserError
from seq2see.sources.own_files import read_pairs

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
