"""How a text is cut: pieces, numbers and bytes, with the bytes of one character under it."""

from __future__ import annotations

import pytest

from seq2see.explorer.views.tokenise import cut, vocabularies
from seq2see.sequences.given import GivenTokeniser, Renumbered, byte_level, word_pieces
from seq2see.sequences.pixels import Pixels
from seq2see.sequences.tokenisers import UNK, BytePairs, Characters, Tokeniser, Unigram
from seq2see.sequences.vocabularies import train_tokeniser
from seq2see.workbench.tokenisers import Tokenisers

TEXTS = ["我有一支笔", "the cat sat on the mat", "你好，世界"] * 5
TEXT = "猫 the 我有\n😀é"


def bytewise() -> GivenTokeniser:
    """A vocabulary over bytes in which two of the three bytes of 猫 are one piece."""
    letters = [chr(code) for code in (*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324))]
    vocabulary = {letter: number for number, letter in enumerate([*letters, "çĮ", "<|endoftext|>"])}
    last = len(vocabulary) - 1
    numbers = Renumbered.of(last + 1, beginning=last, end=last, padding=None, unknown=None)
    return GivenTokeniser(byte_level(vocabulary, ["ç Į"]), numbers)


TOKENISERS = {
    "bpe": lambda: train_tokeniser(BytePairs(size=400), TEXTS),
    "unigram": lambda: train_tokeniser(Unigram(size=300), TEXTS),
    "bytewise": bytewise,
}


@pytest.mark.parametrize("kind", TOKENISERS)
def test_the_bytes_of_all_pieces_are_those_of_the_text(kind):
    told = cut(TOKENISERS[kind](), TEXT)
    pieces = [piece for group in told["groups"] for piece in group["pieces"]]
    assert bytes.fromhex("".join(byte for piece in pieces for byte in piece["bytes"])) == TEXT.encode()
    assert (told["characters"], told["bytes"]) == (len(TEXT), len(TEXT.encode()))


@pytest.mark.parametrize("kind", TOKENISERS)
def test_pieces_are_the_tokenisers_own_and_no_half_of_a_character_is_shown(kind):
    tokeniser: Tokeniser = TOKENISERS[kind]()
    groups = cut(tokeniser, TEXT)["groups"]
    assert [piece["id"] for group in groups for piece in group["pieces"]] == tokeniser.encode(TEXT)
    shown = "".join(group["shown"] + "".join(piece["piece"] for piece in group["pieces"]) for group in groups)
    assert "\ufffd" not in shown
    assert not set(shown) & set("çĮðŁĺ")  # what bytes are called inside a vocabulary over bytes


def test_bytes_of_a_character_stand_under_it():
    (cat, *_) = cut(TOKENISERS["bpe"](), "猫")["groups"]
    assert cat["shown"] == "猫"
    assert [piece["bytes"] for piece in cat["pieces"]] == [["E7"], ["8C"], ["AB"]]
    (cat,) = cut(bytewise(), "猫")["groups"]
    assert [piece["piece"] for piece in cat["pieces"]] == ["E7 8C", "AB"]


def test_what_is_unknown_is_said_to_be():
    (cat, me) = cut(train_tokeniser(Characters(), TEXTS), "猫我")["groups"]
    assert (cat["unknown"], cat["shown"], cat["pieces"][0]["id"]) == (True, "猫", UNK)
    assert (me["unknown"], me["shown"]) == (False, "")


def test_pieces_that_go_on_a_word_have_the_bytes_of_their_letters():
    content = word_pieces(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing"])
    numbers = Renumbered.of(7, beginning=2, end=3, padding=0, unknown=1, mask=4)
    groups = cut(GivenTokeniser(content, numbers), "Playing")["groups"]
    assert [group["pieces"][0]["piece"] for group in groups] == ["play", "##ing"]
    assert groups[1]["pieces"][0]["bytes"] == ["69", "6E", "67"]
    assert [group["shown"] for group in groups] == ["", ""]


def test_a_side_that_is_no_text_is_left_out():
    one, other = train_tokeniser(Characters(), TEXTS), train_tokeniser(BytePairs(size=400), TEXTS)
    assert list(vocabularies(Tokenisers(one, other))) == ["source", "target"]
    assert list(vocabularies(Tokenisers(one, one, ("good", "bad")))) == ["both"]
    pixels = object.__new__(Pixels)
    assert list(vocabularies(Tokenisers(pixels, other))) == ["target"]
