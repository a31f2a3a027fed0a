"""Fingerprints: row 39 of the reader's contract."""

from __future__ import annotations

import hashlib
import os

import pytest

from seq2see.core.errors import UserError
from seq2see.sources.examples import Example
from seq2see.sources.fingerprints import FileStamp, check_unchanged, fingerprint, stamp


def test_the_fingerprint_is_the_hash_of_lengths_and_texts():
    by_hand = b"\x01" + 7 * b"\x00" + b"a" + b"\x03" + 7 * b"\x00" + "我".encode()
    assert fingerprint([Example("a", "我")]) == hashlib.sha256(by_hand).hexdigest()


@pytest.mark.parametrize(
    "other",
    [
        [Example("a", "c"), Example("b", "d")],
        [Example("c", "d"), Example("a", "b")],
        [Example("a", "b")],
        [Example("ab", ""), Example("c", "d")],
    ],
)
def test_other_texts_or_another_order_give_another_fingerprint(other):
    assert fingerprint(other) != fingerprint([Example("a", "b"), Example("c", "d")])


def test_the_place_does_not_matter():
    assert fingerprint([Example("a", "b", place="x:1")]) == fingerprint([Example("a", "b", place="y:2")])


def test_a_stamp_goes_through_json(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes(b"a\tb\n")
    taken = stamp(path)
    assert taken.size == 4
    assert taken.sha256 == hashlib.sha256(b"a\tb\n").hexdigest()
    assert FileStamp(**taken.to_json()) == taken
    check_unchanged({str(path): taken})


def test_a_file_that_was_only_touched_is_unchanged(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes(b"a\tb\n")
    taken = stamp(path)
    os.utime(path, ns=(1, 1))
    check_unchanged({str(path): taken})


@pytest.mark.parametrize("content, words", [(b"a\tc\n", "has changed"), (b"a\tb\nc\td\n", "8 now"), (None, "gone")])
def test_a_changed_file_is_an_error(tmp_path, content, words):
    path = tmp_path / "a.tsv"
    path.write_bytes(b"a\tb\n")
    taken = stamp(path)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
        os.utime(path, ns=(1, 1))
    with pytest.raises(UserError, match=words) as caught:
        check_unchanged({str(path): taken})
    assert caught.value.where == str(path)


def test_a_stamp_of_a_missing_file_is_a_clear_error(tmp_path):
    with pytest.raises(UserError, match="No such file"):
        stamp(tmp_path / "missing")
