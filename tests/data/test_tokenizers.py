"""Tokenizers: properties for any text, and the tokens of each kind for a few readable words."""

import os
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2see.core.errors import UserError
from seq2see.core.settings import Settings, read_tree
from seq2see.data.tokenizers.tokenizer import (
    BOS,
    BPE,
    EOS,
    PAD,
    UNK,
    Characters,
    TokenizerSettings,
    Unigram,
    Whitespace,
    WordLevel,
    add_mask_token,
    train_tokenizer,
)  # fmt: skip

TEXTS = [
    "the cat sat on the mat, the cat!",
    "the dog sat on the cat.",
    "我有一支笔。",
    "我有一只猫，猫有一支笔。",
    "a tag <eos> and <pad> and <0x41> in the text <eos>",
]
KINDS = [Characters(), WordLevel(), Whitespace(), BPE(vocab_size=400), Unigram(vocab_size=400)]
TOKENIZERS = {settings.kind: train_tokenizer(settings, TEXTS) for settings in KINDS}
EXACT = ["bpe", "unigram"]
any_text = st.text(st.characters(exclude_categories=["Cs"]))
likely_text = st.text(st.sampled_from("theca ,.!<>/▁\n\t我有笔e\u0301é🎉\x00 0x41")) | st.lists(
    st.sampled_from(["<eos>", "<pad>", "</s>", "<unk>", "<0x41>", " ", "  ", "the", "▁", "cat"])
).map("".join)


@pytest.mark.parametrize("kind", EXACT)
@given(text=any_text | likely_text)
def test_decoding_restores_any_text_in_composed_form(kind, text):
    tokenizer = TOKENIZERS[kind]
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == tokenizer.normalize(text)
    assert all(UNK < number < len(tokenizer) for number in ids)


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(text=any_text | likely_text)
def test_no_text_becomes_a_control_token(kind, text):
    assert not {PAD, BOS, EOS}.intersection(TOKENIZERS[kind].encode(text))


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(text=any_text | likely_text)
def test_every_token_can_be_displayed_and_has_offsets_in_the_text(kind, text):
    tokenizer = TOKENIZERS[kind]
    ids, offsets = tokenizer.encode(text), tokenizer.offsets(text)
    assert len(tokenizer.tokens(ids)) == len(offsets) == len(ids)
    assert all(0 <= start < end <= len(text) for start, end in offsets)
    assert not any("�" in token or " " in token for token in tokenizer.tokens(ids))


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_the_names_of_special_tokens_are_encoded_as_text(kind):
    tokenizer = TOKENIZERS[kind]
    for text in ["<pad>", "<bos>", "<eos>", "<unk>", "</s>", "the<eos>cat", "<eos><eos>"]:
        ids = tokenizer.encode(text)
        assert not {PAD, BOS, EOS}.intersection(ids)
        assert len(ids) > 1 or (kind == "whitespace" and text in ("<unk>", "</s>"))
        assert ids == tokenizer.encode_many([text])[0]


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(texts=st.lists(any_text | likely_text))
def test_concatenated_are_the_ids_of_every_text(kind, texts):
    """Characters are encoded by a table of our own, which must equal the library's encoding."""
    rows = TOKENIZERS[kind].encode_many(texts)
    ids, lengths = TOKENIZERS[kind].encode_concatenated(texts)
    assert ids.tolist() == [number for row in rows for number in row]
    assert lengths.tolist() == [len(row) for row in rows]


def test_a_token_of_several_characters_is_never_encoded_as_characters():
    masked = add_mask_token(TOKENIZERS["characters"])
    assert masked.encode_concatenated(["[MASK]"])[0].tolist() == masked.encode("[MASK]")


def test_pre_tokenized_text_is_split_at_spaces_and_line_ends_only():
    tokenizer = train_tokenizer(Whitespace(), [" n.v. b's <unk> x<y 中文 词 \n a \n"])
    ids = tokenizer.encode(" a b's <unk> new \n\n 中文 词 x<y\r\n")
    assert tokenizer.tokens(ids) == ["a", "b's", "<unk>", "<unk>", "⏎", "⏎", "中文", "词", "x<y", "⏎"]
    assert [number == UNK for number in ids] == [False] * 2 + [True] * 2 + [False] * 6
    assert tokenizer.decode(ids) == "a b's <unk> <unk>\n\n中文 词 x<y\n"
    assert len(tokenizer) == 4 + 7  # <unk> has one id, though it is a word of the text


def test_text_is_composed_and_does_not_change_otherwise():
    assert TOKENIZERS["bpe"].normalize("e\u0301  \t x ") == "\u00e9  \t x "
    assert TOKENIZERS["bpe"].normalize("ﬁ２") == unicodedata.normalize("NFC", "ﬁ２") == "ﬁ２"


@pytest.mark.parametrize("kind", EXACT)
def test_spaces_anywhere_are_kept(kind):
    for text in [" the cat", "the cat ", "  the\n\n  cat\t", " ", "▁the"]:
        assert TOKENIZERS[kind].decode(TOKENIZERS[kind].encode(text)) == text


def test_an_unknown_character_is_encoded_in_bytes():
    tokenizer = TOKENIZERS["bpe"]
    ids = tokenizer.encode("é猫")
    assert tokenizer.tokens(ids) == ["<0xC3>", "<0xA9>", "猫"]  # é is C3 A9 in UTF-8
    assert ids[:2] == [4 + 0xC3, 4 + 0xA9]
    assert tokenizer.offsets("é猫") == [(0, 1), (0, 1), (1, 2)]


def test_bpe_merges_the_most_frequent_pair_first():
    tokenizer = train_tokenizer(BPE(vocab_size=300), ["aab aab aab ab"])
    # Characters by code point: " ", a, b. "ab" occurs 4 times; then " aab" needs " a"+"ab" or "aab".
    assert tokenizer.tokens(range(260, 264)) == ["▁", "a", "b", "ab"]
    assert tokenizer.encode("ab") == [263]


def test_pairs_that_occur_once_are_not_merged():
    assert len(train_tokenizer(BPE(), ["abcd"])) == 260 + 4


def test_characters_are_tokens_and_rare_ones_are_unknown():
    tokenizer = train_tokenizer(Characters(min_count=2), ["abca", "b d"])
    assert tokenizer.tokens(range(len(tokenizer))) == ["<pad>", "<bos>", "<eos>", "<unk>", "a", "b"]
    assert tokenizer.encode("abz c") == [4, 5, UNK, UNK, UNK]
    assert tokenizer.decode([4, UNK, 5]) == "a<unk>b"


def test_characters_are_counted_the_most_frequent_first():
    counted = train_tokenizer(Characters(min_count=2), ["猫 cab猫", "猫bac", "a👩b\n"])
    assert counted.tokens(range(4, len(counted))) == ["a", "b", "猫", "c"]


def test_rare_words_are_unknown():
    tokenizer = train_tokenizer(WordLevel(min_count=2), ["red red blue blue green"])
    assert tokenizer.encode("red green blue") == [5, UNK, 4]  # equally frequent: by the alphabet
    assert tokenizer.decode([5, UNK, 4]) == "red <unk> blue"


@pytest.mark.parametrize(
    "text, tokens",
    [
        ("Hello, world!", ["Hello", ",", "world", "!"]),
        ("我有a1支笔。", ["我", "有", "a1", "支", "笔", "。"]),
        ("don't use 3.5 well-known", ["don't", "use", "3.5", "well-known"]),
        ("wait... (no)", ["wait", "...", "(", "no", ")"]),
        ("<eos>", ["<", "eos", ">"]),
        ("カタかな", list("カタかな")),
    ],
)
def test_words_are_split_at_spaces_and_symbols(text, tokens):
    tokenizer = train_tokenizer(WordLevel(), [text])
    assert tokenizer.tokens(tokenizer.encode(text)) == tokens


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
    tokenizer = train_tokenizer(WordLevel(), [text])
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_words_do_not_store_the_number_of_spaces():
    tokenizer = train_tokenizer(WordLevel(), ["a b c"])
    assert tokenizer.decode(tokenizer.encode("  a\n b  c ")) == "a b c"


def test_decoding_stops_at_eos_and_skips_padding():
    tokenizer = TOKENIZERS["bpe"]
    ids = tokenizer.encode("the cat")
    assert tokenizer.decode([BOS, *ids, EOS, *ids]) == "the cat"
    assert tokenizer.decode([BOS, PAD, *ids, PAD]) == "the cat"
    assert tokenizer.decode([]) == ""


def test_a_broken_character_from_a_model_is_decoded_without_error():
    assert "�" in TOKENIZERS["bpe"].decode([4 + 0xE7])
    assert TOKENIZERS["bpe"].tokens([4 + 0xE7]) == ["<0xE7>"]


def test_tokens_display_white_space():
    tokenizer = train_tokenizer(Characters(), ["a \n\t"])
    assert tokenizer.tokens(tokenizer.encode("a \n\t")) == ["a", "▁", "⏎", "⇥"]


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_offsets_count_characters_of_the_original_text(kind):
    tokenizer = TOKENIZERS[kind]
    text = "e\u0301 cat"  # é in two characters
    start, end = tokenizer.offsets(text)[-1]
    assert text[start:end].strip() in ("cat", "t")
    assert end == len(text)


def test_tokens_are_assigned_to_words():
    characters = TOKENIZERS["characters"]
    # h e _ s a t: the space belongs to the next word
    assert characters.word_ids("he sat", ["he", "sat"]) == [0, 0, 1, 1, 1, 1]
    assert characters.word_ids("a e a e", ["a", "e", "a", "e"]) == [0, 1, 1, 2, 2, 3, 3]
    assert characters.word_ids("猫有笔 ", ["猫", "有", "笔"]) == [0, 1, 2, 2]
    assert TOKENIZERS["words"].word_ids("猫有笔。", ["猫有", "笔", "。"]) == [0, 0, 1, 2]
    # A word that occurs twice, and a token over two words, which belongs to the one that it overlaps most.
    tokenizer = train_tokenizer(WordLevel(), ["abcde"])
    assert tokenizer.word_ids("abcde abcde", ["ab", "cde", "ab", "cde"]) == [1, 3]


def test_words_that_are_not_in_the_text_are_an_error():
    with pytest.raises(UserError, match="'dog' does not follow"):
        TOKENIZERS["bpe"].word_ids("the cat", ["the", "dog"])
    with pytest.raises(UserError, match="no words"):
        TOKENIZERS["bpe"].word_ids("the cat", [])


@pytest.mark.parametrize("settings", KINDS, ids=lambda settings: settings.kind)
@pytest.mark.parametrize("texts", [["a"], ["笔"], [" "], ["ab", ""], ["\x00"], ["<eos>"] * 50, ["a" * 1000]])
def test_the_smallest_corpora_work(settings, texts):
    tokenizer = train_tokenizer(settings, texts)
    ids = tokenizer.encode(texts[0])
    assert 4 <= len(tokenizer) < 300
    assert all(number < len(tokenizer) for number in ids)
    assert settings.kind in ("words", "whitespace") or tokenizer.decode(ids) == texts[0]


@pytest.mark.parametrize("settings", [BPE(vocab_size=300), Unigram(vocab_size=300)], ids=str)
def test_a_vocabulary_is_never_larger_than_its_size(settings):
    letters = "".join(chr(0x4E00 + number) for number in range(100))
    tokenizer = train_tokenizer(settings, [letters, letters[:39], letters[:40]])
    assert len(tokenizer) == 300
    assert tokenizer.tokens(tokenizer.encode(letters[39])) == [letters[39]]  # the 40 most frequent stay
    assert len(tokenizer.encode(letters[40])) == 3
    assert tokenizer.decode(tokenizer.encode(letters)) == letters


def test_a_vocabulary_needs_text():
    for texts in [[], ["", ""]]:
        with pytest.raises(UserError, match="no text"):
            train_tokenizer(WordLevel(), texts)


def test_an_unpaired_surrogate_is_an_error_with_its_cause():
    broken = "ab\ud800"
    for call in [
        lambda: TOKENIZERS["bpe"].encode(broken),
        lambda: TOKENIZERS["bpe"].encode_many(["a", broken]),
        lambda: TOKENIZERS["characters"].encode_concatenated(["a", broken]),
        lambda: TOKENIZERS["bpe"].offsets(broken),
        lambda: train_tokenizer(WordLevel(), [broken]),
    ]:
        with pytest.raises(UserError, match="not valid Unicode"):
            call()


TRAIN_ALL = """
import sys
from seq2see.data.tokenizers.tokenizer import *
from seq2see.data.tokenizers.tokenizer import train_tokenizer
texts = open(sys.argv[1], encoding="utf-8").read().split("\\n")
for settings in [Characters(), WordLevel(), BPE(vocab_size=380), Unigram(vocab_size=380)]:
    print(train_tokenizer(settings, texts).fingerprint)
"""


def test_training_is_the_same_in_every_process_and_on_any_number_of_threads(tmp_path):
    corpus = tmp_path / "corpus.txt"
    # Many words that are equally frequent, so that ties occur everywhere.
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


def test_the_kind_selects_the_settings():
    class Side(Settings):
        tokenizer: TokenizerSettings = WordLevel()

    side = read_tree(Side, {"tokenizer": {"kind": "bpe", "vocab_size": 512}})
    assert side.tokenizer == BPE(vocab_size=512)
    for wrong in [
        {"kind": "bpe", "vocab_size": 299},
        {"kind": "unigram", "vocab_size": 10**9},
        {"kind": "words", "min_count": 0},
    ]:
        with pytest.raises(UserError, match="cannot be"):
            read_tree(Side, {"tokenizer": wrong})
