"""A tokenizer.json is saved and loaded without loss, and a damaged or foreign one is refused with its name."""

import contextlib
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as LibraryTokenizer

from seq2see.core.errors import UserError
from seq2see.data.tokenizers import tokenizer_files
from seq2see.data.tokenizers.tokenizer import (
    BPE,
    Characters,
    Tokenizer,
    Unigram,
    Whitespace,
    WordLevel,
    train_tokenizer,
)

TEXTS = ["the cat sat on the mat, the cat!", "我有一支笔，一支笔。", "<eos> e\u0301"]
KINDS = [Characters(), WordLevel(), Whitespace(), BPE(vocab_size=320), Unigram(vocab_size=320)]
TRAINED = {kind.kind: train_tokenizer(kind, TEXTS) for kind in KINDS}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "tokenizer.json"


def content_of(kind, file):
    TRAINED[kind].save(file)
    return json.loads(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", TRAINED)
def test_a_saved_tokenizer_is_the_same_tokenizer(kind, file):
    TRAINED[kind].save(file)
    loaded = Tokenizer.load(file)
    assert loaded.fingerprint == TRAINED[kind].fingerprint
    assert (loaded.kind, len(loaded)) == (kind, len(TRAINED[kind]))
    for text in [*TEXTS, "strange 🎉 text <pad>"]:
        assert loaded.encode(text) == TRAINED[kind].encode(text)
        assert loaded.decode(loaded.encode(text)) == TRAINED[kind].decode(loaded.encode(text))


@pytest.mark.parametrize("kind", TRAINED)
def test_the_library_opens_the_file_and_would_write_the_same(kind, file):
    content = content_of(kind, file)
    library = LibraryTokenizer.from_file(str(file))
    assert json.loads(library.to_str()) == content
    assert library.encode("the cat 笔").ids == TRAINED[kind].encode("the cat 笔")
    assert library.token_to_id("<eos>") == 2


def test_fingerprints_of_other_vocabularies_differ():
    others = [train_tokenizer(kind, [*TEXTS, "more"]) for kind in KINDS]
    assert len({tokenizer.fingerprint for tokenizer in [*others, *TRAINED.values()]}) == 2 * len(KINDS)


def test_the_order_of_merges_counts_in_the_fingerprint(file):
    content = content_of("bpe", file)
    content["model"]["merges"].reverse()
    assert Tokenizer("bpe", content).fingerprint != TRAINED["bpe"].fingerprint


def swap_ids(content, one, other):
    vocabulary = content["model"]["vocab"]
    vocabulary[one], vocabulary[other] = vocabulary[other], vocabulary[one]


def set_id(content, token, number):
    content["model"]["vocab"][token] = number


DAMAGES = {
    "special tokens in other places": ("words", lambda c: swap_ids(c, "<pad>", "<eos>")),
    "an id twice": ("words", lambda c: set_id(c, "cat", 4)),
    "a gap in the ids": ("words", lambda c: set_id(c, "cat", 5000)),
    "a negative id": ("words", lambda c: set_id(c, "cat", -1)),
    "an id that is no number": ("words", lambda c: set_id(c, "cat", "7")),
    "true for one": ("words", lambda c: set_id(c, "<bos>", True)),
    "an empty token": ("words", lambda c: set_id(c, "", len(c["model"]["vocab"]))),
    "an unpaired surrogate": ("words", lambda c: set_id(c, "\ud800", len(c["model"]["vocab"]))),
    "no table": ("words", lambda c: c["model"].update(vocab=7)),
    "a missing byte": ("bpe", lambda c: swap_ids(c, "<0x00>", "<0x01>")),
    "a merge of unknown tokens": ("bpe", lambda c: c["model"]["merges"].append(["q", "q"])),
    "a merge into an unknown token": ("bpe", lambda c: c["model"]["merges"].append(["<0x00>", "<0x01>"])),
    "a merge of three": ("bpe", lambda c: c["model"]["merges"].append(["t", "h", "e"])),
    "merges that are no list": ("bpe", lambda c: c["model"].update(merges="the")),
    "a token twice": ("unigram", lambda c: c["model"]["vocab"].append(["t", -1.0])),
    "a score that is no number": ("unigram", lambda c: c["model"]["vocab"].append(["zz", None])),
    "an infinite score": ("unigram", lambda c: c["model"]["vocab"].append(["zz", float("inf")])),
    "a score of NaN": ("unigram", lambda c: c["model"]["vocab"].append(["zz", float("nan")])),
    "another unknown": ("unigram", lambda c: c["model"].update(unk_id=0)),
    "no model": ("bpe", lambda c: c.pop("model")),
    "another model": ("bpe", lambda c: c["model"].update(type="WordPiece")),
    "no merges": ("bpe", lambda c: c["model"].pop("merges")),
    "dropout": ("bpe", lambda c: c["model"].update(dropout=0.5)),
    "an added token": (
        "bpe",
        lambda c: c["added_tokens"].append({**c["added_tokens"][0], "id": 300, "content": "the"}),
    ),
    "a slow pattern": ("bpe", lambda c: c["pre_tokenizer"]["pattern"].update(Regex="(a+)+$")),
    "a slow normalizer": (
        "bpe",
        lambda c: c.update(normalizer={"type": "Replace", "pattern": {"Regex": "(a|a)*b"}, "content": ""}),
    ),
    "another decoder": ("words", lambda c: c.update(decoder={"type": "Fuse"})),
    "truncation": ("bpe", lambda c: c.update(truncation={"max_length": 1})),
    "one for false": ("bpe", lambda c: c["pre_tokenizer"].update(invert=0)),
    "an unknown key": ("bpe", lambda c: c.update(extra=1)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_by_name(damage, file):
    kind, change = DAMAGES[damage]
    content = content_of(kind, file)
    change(content)
    file.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(UserError, match=r"tokenizer\.json: This is not a valid tokenizer file"):
        Tokenizer.load(file)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '"x"', "null", "[" * 100_000, '{"model": {}}', "\ufeff{}"])
def test_a_file_that_is_no_tokenizer_is_refused_by_name(text, file):
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=r"tokenizer\.json: This is not a valid tokenizer file"):
        Tokenizer.load(file)


def test_bytes_that_are_no_text_a_missing_file_and_a_repeated_key_are_refused(file):
    with pytest.raises(UserError, match=r"tokenizer\.json: The tokenizer cannot be read: No such file"):
        Tokenizer.load(file)
    file.write_bytes(b"\xff\xfe{}")
    with pytest.raises(UserError, match="not a valid tokenizer file"):
        Tokenizer.load(file)
    TRAINED["words"].save(file)
    file.write_text(file.read_text(encoding="utf-8").replace('"cat": ', '"cat": 6, "cat": '), encoding="utf-8")
    with pytest.raises(UserError, match="'cat' occurs twice"):
        Tokenizer.load(file)


def test_sizes_are_checked_before_anything_is_built(file, monkeypatch):
    TRAINED["words"].save(file)
    monkeypatch.setattr(tokenizer_files, "MAX_VOCAB_SIZE", 5)
    with pytest.raises(UserError, match="more than 5 tokens"):
        Tokenizer.load(file)
    monkeypatch.setattr(tokenizer_files, "MAX_BYTES", 1 << 10)
    with pytest.raises(UserError, match="larger than"):
        Tokenizer.load(file)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
def test_one_wrong_byte_gives_a_tokenizer_or_an_error_that_explains(file, position, byte):
    TRAINED["bpe"].save(file)
    content = bytearray(file.read_bytes())
    content[int(position * len(content))] = byte
    file.write_bytes(content)
    with contextlib.suppress(UserError):  # any other exception is a bug
        tokenizer = Tokenizer.load(file)
        assert all(number < len(tokenizer) for number in tokenizer.encode("the cat"))
