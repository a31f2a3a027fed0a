"""The view "Tokenize": tokens, ids and bytes, with the bytes of one character in a group."""

from __future__ import annotations

import pytest

from seq2see.data.image_dataset import ImageProcessor
from seq2see.data.tokenizers.pretrained_tokenizer import (
    PretrainedTokenizer,
    TokenIdMap,
    byte_level_json,
    wordpiece_json,
)
from seq2see.data.tokenizers.tokenizer import BPE, UNK, Characters, Tokenizer, Unigram, train_tokenizer
from seq2see.explorer.views.tokenize import text_tokenizers, tokenize_spans
from seq2see.tasks.model_folder import Tokenizers

TEXTS = ["我有一支笔", "the cat sat on the mat", "你好，世界"] * 5
TEXT = "猫 the 我有\n😀é"


def byte_level() -> PretrainedTokenizer:
    """A byte-level vocabulary in which two of the three bytes of 猫 are one token."""
    letters = [chr(code) for code in (*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324))]
    vocabulary = {letter: number for number, letter in enumerate([*letters, "çĮ", "<|endoftext|>"])}
    last = len(vocabulary) - 1
    id_map = TokenIdMap.of(last + 1, bos_id=last, eos_id=last, pad_id=None, unk_id=None)
    return PretrainedTokenizer(byte_level_json(vocabulary, ["ç Į"]), id_map)


TOKENIZERS = {
    "bpe": lambda: train_tokenizer(BPE(vocab_size=400), TEXTS),
    "unigram": lambda: train_tokenizer(Unigram(vocab_size=300), TEXTS),
    "byte_level": byte_level,
}


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_the_bytes_of_all_tokens_are_those_of_the_text(kind):
    result = tokenize_spans(TOKENIZERS[kind](), TEXT)
    tokens = [token for group in result["groups"] for token in group["tokens"]]
    assert bytes.fromhex("".join(byte for token in tokens for byte in token["bytes"])) == TEXT.encode()
    assert (result["characters"], result["bytes"]) == (len(TEXT), len(TEXT.encode()))


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_tokens_are_those_of_the_tokenizer_and_no_part_of_a_character_is_displayed(kind):
    tokenizer: Tokenizer = TOKENIZERS[kind]()
    groups = tokenize_spans(tokenizer, TEXT)["groups"]
    assert [token["id"] for group in groups for token in group["tokens"]] == tokenizer.encode(TEXT)
    text = "".join(group["label"] + "".join(token["token"] for token in group["tokens"]) for group in groups)
    assert "\ufffd" not in text
    assert not set(text) & set("çĮðŁĺ")  # what bytes are called inside a vocabulary over bytes


def test_bytes_of_a_character_stand_under_it():
    (cat, *_) = tokenize_spans(TOKENIZERS["bpe"](), "猫")["groups"]
    assert cat["label"] == "猫"
    assert [token["bytes"] for token in cat["tokens"]] == [["E7"], ["8C"], ["AB"]]
    (cat,) = tokenize_spans(byte_level(), "猫")["groups"]
    assert [token["token"] for token in cat["tokens"]] == ["E7 8C", "AB"]


def test_unknown_tokens_are_marked():
    (cat, me) = tokenize_spans(train_tokenizer(Characters(), TEXTS), "猫我")["groups"]
    assert (cat["unknown"], cat["label"], cat["tokens"][0]["id"]) == (True, "猫", UNK)
    assert (me["unknown"], me["label"]) == (False, "")


def test_tokens_that_continue_a_word_have_the_bytes_of_their_letters():
    content = wordpiece_json(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing"])
    id_map = TokenIdMap.of(7, bos_id=2, eos_id=3, pad_id=0, unk_id=1, mask_id=4)
    groups = tokenize_spans(PretrainedTokenizer(content, id_map), "Playing")["groups"]
    assert [group["tokens"][0]["token"] for group in groups] == ["play", "##ing"]
    assert groups[1]["tokens"][0]["bytes"] == ["69", "6E", "67"]
    assert [group["label"] for group in groups] == ["", ""]


def test_a_side_without_text_has_no_tokenizer():
    first, second = train_tokenizer(Characters(), TEXTS), train_tokenizer(BPE(vocab_size=400), TEXTS)
    assert list(text_tokenizers(Tokenizers(first, second))) == ["source", "target"]
    assert list(text_tokenizers(Tokenizers(first, first, ("good", "bad")))) == ["both"]
    pixels = object.__new__(ImageProcessor)
    assert list(text_tokenizers(Tokenizers(pixels, second))) == ["target"]
