"""BPE-dropout: without dropout the library's own segmentation, with it the probabilities worked out on paper."""

import argparse
import inspect
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2see.data.catalogue.catalogue import CatalogueCorpus
from seq2see.data.catalogue.corpus_files import locate
from seq2see.data.catalogue.entries import CATALOGUE
from seq2see.data.tokenizers.bpe_dropout import BPEMerges
from seq2see.data.tokenizers.tokenizer import BPE, train_tokenizer

CODE = inspect.getsource(argparse).splitlines()
TOKENIZER = train_tokenizer(BPE(vocab_size=900), [*CODE, "Überall grüßt die Straße.", "我有一支笔。", "我有一只猫。"])
MERGES = BPEMerges(*TOKENIZER.merges)

# a = 0, b = 1, c = 2, d = 3; first a and b are merged, then c and d, then both results.
ABCD = BPEMerges(
    {"a": 0, "b": 1, "c": 2, "d": 3, "ab": 4, "cd": 5, "abcd": 6, "aa": 7},
    [["a", "b"], ["c", "d"], ["ab", "cd"], ["a", "a"]],
)


def test_merging_by_hand():
    assert ABCD.segment("abcd") == (6,)
    assert ABCD.segment("bcda") == (1, 5, 0)
    assert ABCD.segment("aab") == (0, 4)  # "ab" has a better rank than "aa", though it comes later
    assert ABCD.segment("aaa") == (7, 0)  # of equal ranks the first
    assert ABCD.candidates((0, 0, 1, 2, 3)) == [(0, 4, 1), (1, 5, 3), (3, 7, 0)]


def test_words_are_composed_and_keep_their_leading_space():
    assert TOKENIZER.pre_tokenize("ein Cafe\u0301,  bitte!\n") == ["ein", " Café", ",", "  ", "bitte", "!", "\n"]
    assert TOKENIZER.pre_tokenize("") == []


def test_without_dropout_every_word_is_segmented_as_by_the_library():
    words = {word for line in CODE for word in TOKENIZER.pre_tokenize(line)}
    assert len(words) > 1000
    for word in words:
        assert list(MERGES.segment(word)) == TOKENIZER.encode(word)
        assert set(MERGES.sample(word, 3, 0.0, seed=1)) == {MERGES.segment(word)}


@given(text=st.text(st.characters(exclude_categories=["Cs"])) | st.text("the self.grüß  Ü我有笔é🎉_\n\t", max_size=40))
def test_without_dropout_any_text_is_segmented_as_by_the_library(text):
    words = TOKENIZER.pre_tokenize(text)
    assert "".join(words) == TOKENIZER.normalize(text)
    assert [token for word in words for token in MERGES.segment(word)] == TOKENIZER.encode(text)


@pytest.mark.skipif(locate(CATALOGUE["multi30k"]) is None, reason="Multi30k is not on this machine")
def test_without_dropout_real_sentences_are_segmented_as_by_the_library():
    examples = CatalogueCorpus(name="multi30k", languages="en-de").splits()["train"][:1000]
    texts = [text for example in examples for text in (example.source, example.target)]
    tokenizer = train_tokenizer(BPE(vocab_size=4000), texts)
    merges = BPEMerges(*tokenizer.merges)
    segmentations = {word: merges.segment(word) for text in texts for word in tokenizer.pre_tokenize(text)}
    for text, ids in zip(texts, tokenizer.encode_many(texts), strict=True):
        assert [token for word in tokenizer.pre_tokenize(text) for token in segmentations[word]] == ids


@given(
    word=st.text("abcdeghinorstuü我🎉", min_size=1, max_size=12),
    dropout=st.sampled_from([0.1, 0.5, 0.99]),
    seed=st.integers(0, 3),
)
def test_every_segmentation_spells_its_word(word, dropout, seed):
    segmentations = MERGES.sample(word, 7, dropout, seed)
    assert len(segmentations) == 7
    assert {TOKENIZER.decode(each) for each in segmentations} == {TOKENIZER.normalize(word)}


def test_segmentations_have_the_expected_frequencies():
    # Two merges are possible, of a and b and of c and d: with probability p p both are skipped, and that is the end.
    # Otherwise one is made, then the other unless it is skipped, and then the whole, with the same probability.
    dropout, count = 0.3, 40_000
    frequencies = Counter(ABCD.sample("abcd", count, dropout, seed=5))
    made = 1 - dropout
    both = made * made + dropout * made * made
    expected = {
        (0, 1, 2, 3): dropout**2,
        (4, 2, 3): made * dropout,
        (0, 1, 5): dropout * made * dropout,
        (4, 5): both * dropout,
        (6,): both * made,
    }
    assert sum(expected.values()) == pytest.approx(1)
    assert set(frequencies) == set(expected)
    for segmentation, share in expected.items():
        tolerance = 4 * (share * (1 - share) / count) ** 0.5
        assert frequencies[segmentation] / count == pytest.approx(share, abs=tolerance)


def test_segmentations_are_a_function_of_seed_and_word():
    first = MERGES.sample(" arguments", 64, 0.3, seed=1)
    assert first == MERGES.sample(" arguments", 64, 0.3, seed=1)
    assert first != MERGES.sample(" arguments", 64, 0.3, seed=2)
    assert len(set(first)) > 5
    # Fewer samples are not the first of many, but the default is the most frequent one of both.
    assert Counter(first).most_common(1)[0][0] == MERGES.segment(" arguments")


def test_more_dropout_gives_more_tokens():
    lengths = [sum(map(len, MERGES.sample(" arguments", 64, dropout, seed=1))) for dropout in (0.0, 0.1, 0.5, 0.9)]
    assert lengths == sorted(set(lengths))
