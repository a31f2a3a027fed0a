"""A corruptor: one known fault at a known line of a good corpus, which the reader must find exactly there."""

from __future__ import annotations

import json
import unicodedata

import pytest
from scan_files import check

from seq2see.core import seeds
from seq2see.data.readers.data_report import ISSUE_KINDS, ErrorPolicy
from seq2see.data.readers.pair_files import read_pairs

WORDS = [
    "le",
    "chat",
    "noir",
    "été",
    "où",
    "garçon",
    "你好",
    "maison",
    "pomme",
    "ça",
    "привет",
    "grüße",
    "naïve",
    "la",
    "rue",
    "bleue",
]
ENDS = {"tsv": "\t", "csv": ",", "aligned": "\t"}


def good_corpus(seed, count=12):
    """Distinct pairs, in NFC, of plain words."""
    rng = seeds.generator(seed, "corpus")
    pairs = []
    for number in range(count):
        texts = [" ".join(rng.choice(WORDS, rng.integers(2, 6))) for _ in range(2)]
        pairs.append((f"{texts[0]} {number}", f"{texts[1]} été"))
    return pairs


def rendered(pairs, form):
    """The corpus as one list of byte lines (TSV, CSV, JSONL) or two (aligned)."""
    if form == "aligned":
        return [[pair[side].encode() for pair in pairs] for side in range(2)]
    if form == "jsonl":
        objects = [{"source": source, "target": target} for source, target in pairs]
        return [[json.dumps(one, ensure_ascii=False).encode() for one in objects]]
    return [[ENDS[form].join(pair).encode() for pair in pairs]]


def insert(content):
    """A fault that puts a character after the first one of the line."""
    return lambda line, form: (line.decode()[:1] + content + line.decode()[1:]).encode()


def into_text(content):
    """A fault that puts bytes at the end of a text of the line, before the quote if JSON has one."""
    return lambda line, form: line[:-2] + content + line[-2:] if form == "jsonl" else line + content


def empty_field(line, form):
    if form == "jsonl":
        return json.dumps(json.loads(line) | {"target": " "}).encode()
    return b"\xe2\x80\x8b" if form == "aligned" else line[: line.index(ENDS[form].encode()) + 1]


def blank(line, form):
    return b" \xe2\x80\x8d" if form == "aligned" else b""


def decompose(line, form):
    return unicodedata.normalize("NFD", line.decode()).encode()


def drop_column(line, form):
    return line.replace(ENDS[form].encode(), b" ")


def add_column(line, form):
    return line + ENDS[form].encode() + b"more"


def rename_key(line, form):
    return line.replace(b'"target"', b'"traget"')


def double_key(line, form):
    return line[:-1] + b', "source": "x"}'


def number_for_text(line, form):
    return json.dumps(json.loads(line) | {"source": 7}).encode()


EVERY = ("tsv", "csv", "jsonl", "aligned")
FAULTS = {
    "invalid UTF-8": (into_text(b"\xff"), "invalid UTF-8", EVERY),
    "cut character": (into_text(b"\xe4\xbd"), "invalid UTF-8", EVERY),
    "over-long encoding": (into_text(b"\xc0\xaf"), "invalid UTF-8", EVERY),
    "surrogate": (into_text(b"\xed\xa0\x80"), "invalid UTF-8", EVERY),
    "NUL": (into_text(b"\x00"), "NUL character", EVERY),
    "byte order mark": (into_text(b"\xef\xbb\xbf"), "embedded byte order mark", EVERY),
    "empty field": (empty_field, "empty field", EVERY),
    "blank line": (blank, "blank record", ("tsv", "csv", "jsonl")),
    "lost tab": (drop_column, "wrong column count", ("tsv", "csv")),
    "extra column": (add_column, "wrong column count", ("tsv", "csv")),
    "bare quote": (into_text(b'"'), "bare quote", ("csv",)),
    "open quote": (lambda line, form: b'"' + line, "bare quote", ("csv",)),
    "lost brace": (lambda line, form: line[:-1], "invalid JSON", ("jsonl",)),
    "lost quote": (lambda line, form: line[:-2] + line[-1:], "invalid JSON", ("jsonl",)),
    "lost key": (rename_key, "missing key", ("jsonl",)),
    "double key": (double_key, "duplicate key", ("jsonl",)),
    "number": (number_for_text, "wrong type", ("jsonl",)),
    "escaped NUL": (into_text(b"\\u0000"), "NUL character", ("jsonl",)),
    "half a pair": (into_text(b"\\udc00"), "lone surrogate", ("jsonl",)),
    "carriage return": (insert("\r"), "lone carriage return", ("tsv", "csv", "aligned")),
    "line separator": (into_text("\u2028.".encode()), "unusual line separator", EVERY),
    "next line": (into_text("\x85.".encode()), "unusual line separator", EVERY),
    "form feed": (insert("\x0c"), "unusual line separator", ("tsv", "csv", "aligned")),
    "bell": (insert("\x07"), "control character", ("tsv", "csv", "aligned")),
    "mojibake": (into_text("Ã©".encode()), "mojibake", EVERY),
    "special token": (into_text(b"</s>"), "special token text", EVERY),
    "CRLF": (lambda line, form: line + b"\r", "mixed line endings", EVERY),
    "long target": (into_text(b" x" * 2000), "length ratio", EVERY),
    "decomposed": (decompose, "mixed Unicode normalization", ("tsv", "csv", "jsonl")),
    "line too long": (into_text(b"y" * (1 << 20)), "line too long", ("tsv", "aligned")),
}
CASES = [(fault, form) for fault, (_, _, forms) in FAULTS.items() for form in forms]


def write(folder, files, form):
    """Write the corpus and return its paths."""
    paths = [folder / "a.source", folder / "a.target"] if form == "aligned" else [folder / f"a.{form}"]
    for path, lines in zip(paths, files, strict=True):
        path.write_bytes(b"\n".join(lines) + b"\n")
    return paths


@pytest.mark.parametrize("form", EVERY)
@pytest.mark.parametrize("seed", range(5))
def test_a_clean_corpus_has_no_issue(tmp_path, form, seed):
    pairs = good_corpus(seed, 200)
    examples, report = read_pairs(write(tmp_path, rendered(pairs, form), form))
    assert [(example.source, example.target) for example in examples] == pairs
    assert not report.counts
    assert report.read == report.kept == 200


@pytest.mark.parametrize("fault, form", CASES)
def test_one_fault_is_reported_at_exactly_its_line_and_all_records_are_counted(tmp_path, fault, form):
    corrupt, kind, _ = FAULTS[fault]
    for seed in range(2 if fault == "line too long" else 4):
        rng = seeds.generator(seed, f"corruption {fault} {form}")
        pairs = good_corpus(seed)
        files = rendered(pairs, form)
        index = int(rng.integers(len(pairs)))
        side = int(rng.integers(len(files)))
        files[side][index] = corrupt(files[side][index], form)
        paths = write(tmp_path, files, form)

        report = check(paths)
        issue = report.issues[kind][0]
        # An issue of both texts is reported at the source.
        file = paths[0] if kind == "length ratio" else paths[side]
        assert (issue.location.file, issue.location.line) == (str(file), index + 1)
        assert len(report.issues[kind]) == 1
        assert report.read == report.kept + report.skipped + report.rejected == len(pairs)
        is_omitted = ISSUE_KINDS[kind].severity == "error" or kind == "blank record"
        assert report.kept == len(pairs) - is_omitted
        assert report.count_severity("error") == (ISSUE_KINDS[kind].severity == "error")

        examples, _ = read_pairs(paths, ErrorPolicy("skip"))
        remaining = [pair for number, pair in enumerate(pairs) if number != index]
        kept = [(example.source, example.target) for example in examples]
        assert [pair for number, pair in enumerate(kept) if is_omitted or number != index] == remaining


@pytest.mark.parametrize("seed", range(30))
def test_a_missing_line_of_an_aligned_corpus_is_always_told(tmp_path, seed):
    rng = seeds.generator(seed, "lost line")
    files = rendered(good_corpus(seed, 40), "aligned")
    del files[int(rng.integers(2))][int(rng.integers(40))]
    report = check(write(tmp_path, files, "aligned"))
    assert report.counts["line count mismatch"] == 1
    assert report.read == report.kept + report.skipped + report.rejected == 40
