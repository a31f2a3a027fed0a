"""Tokenisers: what they promise for any text, and what each kind does with a few words one can read."""

import os
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2see.core.errors import UserError
from seq2see.core.settings import Settings, read_tree
from seq2see.sequences.tokenisers import (
    BOS,
    EOS,
    PAD,
    UNK,
    AnyTokeniser,
    BytePairs,
    Characters,
    Spaced,
    Unigram,
    Words,
    with_mask,
)  # fmt: skip
from seq2see.sequences.vocabularies import train_tokeniser

TEXTS = [
    "the cat sat on the mat, the cat!",
    "the dog sat on the cat.",
    "我有一支笔。",
    "我有一只猫，猫有一支笔。",
    "a tag <eos> and <pad> and <0x41> in the text <eos>",
]
KINDS = [Characters(), Words(), Spaced(), BytePairs(size=400), Unigram(size=400)]
TOKENISERS = {settings.kind: train_tokeniser(settings, TEXTS) for settings in KINDS}
EXACT = ["bpe", "unigram"]
any_text = st.text(st.characters(exclude_categories=["Cs"]))
likely_text = st.text(st.sampled_from("theca ,.!<>/▁\n\t我有笔e\u0301é🎉\x00 0x41")) | st.lists(
    st.sampled_from(["<eos>", "<pad>", "</s>", "<unk>", "<0x41>", " ", "  ", "the", "▁", "cat"])
).map("".join)


@pytest.mark.parametrize("kind", EXACT)
@given(text=any_text | likely_text)
def test_any_text_comes_back_as_it_was_but_composed(kind, text):
    tokeniser = TOKENISERS[kind]
    ids = tokeniser.encode(text)
    assert tokeniser.decode(ids) == tokeniser.normalise(text)
    assert all(UNK < number < len(tokeniser) for number in ids)


@pytest.mark.parametrize("kind", TOKENISERS)
@given(text=any_text | likely_text)
def test_no_text_becomes_a_control_token(kind, text):
    assert not {PAD, BOS, EOS}.intersection(TOKENISERS[kind].encode(text))


@pytest.mark.parametrize("kind", TOKENISERS)
@given(text=any_text | likely_text)
def test_every_piece_has_a_readable_face_and_a_place_in_the_text(kind, text):
    tokeniser = TOKENISERS[kind]
    ids, spans = tokeniser.encode(text), tokeniser.spans(text)
    assert len(tokeniser.pieces(ids)) == len(spans) == len(ids)
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert not any("�" in piece or " " in piece for piece in tokeniser.pieces(ids))


@pytest.mark.parametrize("kind", TOKENISERS)
def test_the_names_of_specials_are_encoded_as_text(kind):
    tokeniser = TOKENISERS[kind]
    for text in ["<pad>", "<bos>", "<eos>", "<unk>", "</s>", "the<eos>cat", "<eos><eos>"]:
        ids = tokeniser.encode(text)
        assert not {PAD, BOS, EOS}.intersection(ids)
        assert len(ids) > 1 or (kind == "spaces" and text in ("<unk>", "</s>"))
        assert ids == tokeniser.encode_many([text])[0]


@pytest.mark.parametrize("kind", TOKENISERS)
@given(texts=st.lists(any_text | likely_text))
def test_end_to_end_stand_the_ids_of_every_text(kind, texts):
    """Characters are looked up in a table of our own, which must know all that the library knows."""
    rows = TOKENISERS[kind].encode_many(texts)
    ids, lengths = TOKENISERS[kind].encode_end_to_end(texts)
    assert ids.tolist() == [number for row in rows for number in row]
    assert lengths.tolist() == [len(row) for row in rows]


def test_a_piece_of_several_characters_is_never_found_in_a_text():
    masked = with_mask(TOKENISERS["characters"])
    assert masked.encode_end_to_end(["[MASK]"])[0].tolist() == masked.encode("[MASK]")


def test_text_that_was_cut_already_is_cut_at_spaces_and_line_ends_only():
    tokeniser = train_tokeniser(Spaced(), [" n.v. b's <unk> x<y 中文 词 \n a \n"])
    ids = tokeniser.encode(" a b's <unk> new \n\n 中文 词 x<y\r\n")
    assert tokeniser.pieces(ids) == ["a", "b's", "<unk>", "<unk>", "⏎", "⏎", "中文", "词", "x<y", "⏎"]
    assert [number == UNK for number in ids] == [False] * 2 + [True] * 2 + [False] * 6
    assert tokeniser.decode(ids) == "a b's <unk> <unk>\n\n中文 词 x<y\n"
    assert len(tokeniser) == 4 + 7  # <unk> has one number, though the text has it as a word


def test_text_is_composed_and_left_alone_otherwise():
    assert TOKENISERS["bpe"].normalise("e\u0301  \t x ") == "\u00e9  \t x "
    assert TOKENISERS["bpe"].normalise("ﬁ２") == unicodedata.normalize("NFC", "ﬁ２") == "ﬁ２"


@pytest.mark.parametrize("kind", EXACT)
def test_spaces_anywhere_are_kept(kind):
    for text in [" the cat", "the cat ", "  the\n\n  cat\t", " ", "▁the"]:
        assert TOKENISERS[kind].decode(TOKENISERS[kind].encode(text)) == text


def test_a_character_never_seen_is_spelt_in_bytes():
    tokeniser = TOKENISERS["bpe"]
    ids = tokeniser.encode("é猫")
    assert tokeniser.pieces(ids) == ["<0xC3>", "<0xA9>", "猫"]  # é is C3 A9 in UTF-8
    assert ids[:2] == [4 + 0xC3, 4 + 0xA9]
    assert tokeniser.spans("é猫") == [(0, 1), (0, 1), (1, 2)]


def test_byte_pairs_merge_the_most_frequent_neighbours_first():
    tokeniser = train_tokeniser(BytePairs(size=300), ["aab aab aab ab"])
    # Letters by code point: " ", a, b. "ab" is seen 4 times; then " aab" needs " a"+"ab" or "aab".
    assert tokeniser.pieces(range(260, 264)) == ["▁", "a", "b", "ab"]
    assert tokeniser.encode("ab") == [263]


def test_neighbours_seen_once_are_not_merged():
    assert len(train_tokeniser(BytePairs(), ["abcd"])) == 260 + 4


def test_characters_are_themselves_and_strangers_are_unknown():
    tokeniser = train_tokeniser(Characters(min_count=2), ["abca", "b d"])
    assert tokeniser.pieces(range(len(tokeniser))) == ["<pad>", "<bos>", "<eos>", "<unk>", "a", "b"]
    assert tokeniser.encode("abz c") == [4, 5, UNK, UNK, UNK]
    assert tokeniser.decode([4, UNK, 5]) == "a<unk>b"


def test_characters_are_counted_the_most_frequent_first():
    counted = train_tokeniser(Characters(min_count=2), ["猫 cab猫", "猫bac", "a👩b\n"])
    assert counted.pieces(range(4, len(counted))) == ["a", "b", "猫", "c"]


def test_rare_words_are_unknown():
    tokeniser = train_tokeniser(Words(min_count=2), ["red red blue blue green"])
    assert tokeniser.encode("red green blue") == [5, UNK, 4]  # equally frequent: by the alphabet
    assert tokeniser.decode([5, UNK, 4]) == "red <unk> blue"


@pytest.mark.parametrize(
    "text, pieces",
    [
        ("Hello, world!", ["Hello", ",", "world", "!"]),
        ("我有a1支笔。", ["我", "有", "a1", "支", "笔", "。"]),
        ("don't use 3.5 well-known", ["don't", "use", "3.5", "well-known"]),
        ("wait... (no)", ["wait", "...", "(", "no", ")"]),
        ("<eos>", ["<", "eos", ">"]),
        ("カタかな", list("カタかな")),
    ],
)
def test_words_are_cut_at_spaces_and_signs(text, pieces):
    tokeniser = train_tokeniser(Words(), [text])
    assert tokeniser.pieces(tokeniser.encode(text)) == pieces


@pytest.mark.parametrize(
    "text",
    [
        "Hello, world! I don't know (yet): 3.5% of $5.",
        "我有一支笔，你呢？“好的！”他说。",
        "I said: “wait... no!”",
        "Ein Mann, ein Wort; zwei [drei].",
    ],
)
def test_words_are_joined_as_in_print(text):
    tokeniser = train_tokeniser(Words(), [text])
    assert tokeniser.decode(tokeniser.encode(text)) == text


def test_words_forget_how_many_spaces_there_were():
    tokeniser = train_tokeniser(Words(), ["a b c"])
    assert tokeniser.decode(tokeniser.encode("  a\n b  c ")) == "a b c"


def test_decoding_stops_at_the_end_and_passes_over_padding():
    tokeniser = TOKENISERS["bpe"]
    ids = tokeniser.encode("the cat")
    assert tokeniser.decode([BOS, *ids, EOS, *ids]) == "the cat"
    assert tokeniser.decode([BOS, PAD, *ids, PAD]) == "the cat"
    assert tokeniser.decode([]) == ""


def test_a_broken_character_from_a_model_is_decoded_without_error():
    assert "�" in TOKENISERS["bpe"].decode([4 + 0xE7])
    assert TOKENISERS["bpe"].pieces([4 + 0xE7]) == ["<0xE7>"]


def test_pieces_show_white_space():
    tokeniser = train_tokeniser(Characters(), ["a \n\t"])
    assert tokeniser.pieces(tokeniser.encode("a \n\t")) == ["a", "▁", "⏎", "⇥"]


@pytest.mark.parametrize("kind", TOKENISERS)
def test_spans_count_characters_of_the_text_as_it_was_given(kind):
    tokeniser = TOKENISERS[kind]
    text = "e\u0301 cat"  # é in two characters
    start, end = tokeniser.spans(text)[-1]
    assert text[start:end].strip() in ("cat", "t")
    assert end == len(text)


def test_pieces_find_their_words():
    characters = TOKENISERS["characters"]
    # h e _ s a t: the space counts for the word behind it
    assert characters.piece_words("he sat", ["he", "sat"]) == [0, 0, 1, 1, 1, 1]
    assert characters.piece_words("a e a e", ["a", "e", "a", "e"]) == [0, 1, 1, 2, 2, 3, 3]
    assert characters.piece_words("猫有笔 ", ["猫", "有", "笔"]) == [0, 1, 2, 2]
    assert TOKENISERS["words"].piece_words("猫有笔。", ["猫有", "笔", "。"]) == [0, 0, 1, 2]
    # The same word twice, and a piece over two words counts for the one it covers most.
    tokeniser = train_tokeniser(Words(), ["abcde"])
    assert tokeniser.piece_words("abcde abcde", ["ab", "cde", "ab", "cde"]) == [1, 3]


def test_words_that_are_not_in_the_text_are_an_error():
    with pytest.raises(UserError, match="'dog' does not follow"):
        TOKENISERS["bpe"].piece_words("the cat", ["the", "dog"])
    with pytest.raises(UserError, match="No words"):
        TOKENISERS["bpe"].piece_words("the cat", [])


@pytest.mark.parametrize("settings", KINDS, ids=lambda settings: settings.kind)
@pytest.mark.parametrize("texts", [["a"], ["笔"], [" "], ["ab", ""], ["\x00"], ["<eos>"] * 50, ["a" * 1000]])
def test_the_smallest_corpora_work(settings, texts):
    tokeniser = train_tokeniser(settings, texts)
    ids = tokeniser.encode(texts[0])
    assert 4 <= len(tokeniser) < 300
    assert all(number < len(tokeniser) for number in ids)
    assert settings.kind in ("words", "spaces") or tokeniser.decode(ids) == texts[0]


@pytest.mark.parametrize("settings", [BytePairs(size=300), Unigram(size=300)], ids=str)
def test_a_vocabulary_is_never_larger_than_its_size(settings):
    letters = "".join(chr(0x4E00 + number) for number in range(100))
    tokeniser = train_tokeniser(settings, [letters, letters[:39], letters[:40]])
    assert len(tokeniser) == 300
    assert tokeniser.pieces(tokeniser.encode(letters[39])) == [letters[39]]  # the 40 most frequent stay
    assert len(tokeniser.encode(letters[40])) == 3
    assert tokeniser.decode(tokeniser.encode(letters)) == letters


def test_no_text_is_no_vocabulary():
    for texts in [[], ["", ""]]:
        with pytest.raises(UserError, match="no text"):
            train_tokeniser(Words(), texts)


def test_half_a_surrogate_pair_is_an_error_that_says_so():
    broken = "ab\ud800"
    for act in [
        lambda: TOKENISERS["bpe"].encode(broken),
        lambda: TOKENISERS["bpe"].encode_many(["a", broken]),
        lambda: TOKENISERS["characters"].encode_end_to_end(["a", broken]),
        lambda: TOKENISERS["bpe"].spans(broken),
        lambda: train_tokeniser(Words(), [broken]),
    ]:
        with pytest.raises(UserError, match="not valid Unicode"):
            act()


TRAIN_ALL = """
import sys
from seq2see.sequences.tokenisers import *
from seq2see.sequences.vocabularies import train_tokeniser
texts = open(sys.argv[1], encoding="utf-8").read().split("\\n")
for settings in [Characters(), Words(), BytePairs(size=380), Unigram(size=380)]:
    print(train_tokeniser(settings, texts).fingerprint)
"""


def test_training_is_the_same_in_every_process_and_on_any_number_of_threads(tmp_path):
    corpus = tmp_path / "corpus.txt"
    # Many words that are equally frequent, so that every choice between equals is put to the test.
    words = [f"{a}{b}{c}" for a in "pqrs" for b in "aeiou" for c in "lmn猫笔"]
    corpus.write_text("\n".join(" ".join(words[n : n + 5]) for n in range(0, len(words), 5)), encoding="utf-8")
    found = set()
    for threads in "123":
        parallel = "false" if threads == "1" else "true"
        environment = os.environ | {"RAYON_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": parallel}
        command = [sys.executable, "-c", TRAIN_ALL, str(corpus)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        found.add(done.stdout)
    assert len(found) == 1
    assert len(set(found.pop().split())) == 4


def test_the_kind_chooses_the_settings():
    class Side(Settings):
        tokeniser: AnyTokeniser = Words()

    side = read_tree(Side, {"tokeniser": {"kind": "bpe", "size": 512}})
    assert side.tokeniser == BytePairs(size=512)
    for wrong in [
        {"kind": "bpe", "size": 299},
        {"kind": "unigram", "size": 10**9},
        {"kind": "words", "min_count": 0},
    ]:
        with pytest.raises(UserError, match="cannot be"):
            read_tree(Side, {"tokeniser": wrong})
