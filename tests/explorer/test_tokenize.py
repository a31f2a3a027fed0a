"""How a text is cut: pieces, numbers and bytes, with the bytes of one character under it."""

from __future__ import annotations

import pytest

from seq2see.explorer.views.tokenize import text_tokenizers, tokenize_spans
from seq2see.runs.model_tokenizers import Tokenizers
from seq2see.sequences.image_dataset import ImageProcessor
from seq2see.sequences.pretrained_tokenizer import PretrainedTokenizer, TokenIdMap, byte_level_json, wordpiece_json
from seq2see.sequences.tokenizer_training import train_tokenizer
from seq2see.sequences.tokenizers import BPE, UNK, Characters, Tokenizer, Unigram

TEXTS = ["我有一支笔", "the cat sat on the mat", "你好，世界"] * 5
TEXT = "猫 the 我有\n😀é"


def bytewise() -> PretrainedTokenizer:
    """A vocabulary over bytes in which two of the three bytes of 猫 are one piece."""
    letters = [chr(code) for code in (*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324))]
    vocabulary = {letter: number for number, letter in enumerate([*letters, "çĮ", "<|endoftext|>"])}
    last = len(vocabulary) - 1
    numbers = TokenIdMap.of(last + 1, bos_id=last, eos_id=last, pad_id=None, unk_id=None)
    return PretrainedTokenizer(byte_level_json(vocabulary, ["ç Į"]), numbers)


TOKENIZERS = {
    "bpe": lambda: train_tokenizer(BPE(vocab_size=400), TEXTS),
    "unigram": lambda: train_tokenizer(Unigram(vocab_size=300), TEXTS),
    "bytewise": bytewise,
}


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_the_bytes_of_all_pieces_are_those_of_the_text(kind):
    told = tokenize_spans(TOKENIZERS[kind](), TEXT)
    pieces = [piece for group in told["groups"] for piece in group["pieces"]]
    assert bytes.fromhex("".join(byte for piece in pieces for byte in piece["bytes"])) == TEXT.encode()
    assert (told["characters"], told["bytes"]) == (len(TEXT), len(TEXT.encode()))


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_pieces_are_the_tokenizers_own_and_no_half_of_a_character_is_shown(kind):
    tokenizer: Tokenizer = TOKENIZERS[kind]()
    groups = tokenize_spans(tokenizer, TEXT)["groups"]
    assert [piece["id"] for group in groups for piece in group["pieces"]] == tokenizer.encode(TEXT)
    shown = "".join(group["shown"] + "".join(piece["token"] for piece in group["pieces"]) for group in groups)
    assert "\ufffd" not in shown
    assert not set(shown) & set("çĮðŁĺ")  # what bytes are called inside a vocabulary over bytes


def test_bytes_of_a_character_stand_under_it():
    (cat, *_) = tokenize_spans(TOKENIZERS["bpe"](), "猫")["groups"]
    assert cat["shown"] == "猫"
    assert [piece["bytes"] for piece in cat["pieces"]] == [["E7"], ["8C"], ["AB"]]
    (cat,) = tokenize_spans(bytewise(), "猫")["groups"]
    assert [piece["token"] for piece in cat["pieces"]] == ["E7 8C", "AB"]


def test_what_is_unknown_is_said_to_be():
    (cat, me) = tokenize_spans(train_tokenizer(Characters(), TEXTS), "猫我")["groups"]
    assert (cat["unknown"], cat["shown"], cat["pieces"][0]["id"]) == (True, "猫", UNK)
    assert (me["unknown"], me["shown"]) == (False, "")


def test_pieces_that_go_on_a_word_have_the_bytes_of_their_letters():
    content = wordpiece_json(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing"])
    numbers = TokenIdMap.of(7, bos_id=2, eos_id=3, pad_id=0, unk_id=1, mask_id=4)
    groups = tokenize_spans(PretrainedTokenizer(content, numbers), "Playing")["groups"]
    assert [group["pieces"][0]["token"] for group in groups] == ["play", "##ing"]
    assert groups[1]["pieces"][0]["bytes"] == ["69", "6E", "67"]
    assert [group["shown"] for group in groups] == ["", ""]


def test_a_side_that_is_no_text_is_left_out():
    one, other = train_tokenizer(Characters(), TEXTS), train_tokenizer(BPE(vocab_size=400), TEXTS)
    assert list(text_tokenizers(Tokenizers(one, other))) == ["source", "target"]
    assert list(text_tokenizers(Tokenizers(one, one, ("good", "bad")))) == ["both"]
    pixels = object.__new__(ImageProcessor)
    assert list(text_tokenizers(Tokenizers(pixels, other))) == ["target"]
