"""The unigram vocabulary: sums over all segmentations by hand, and useful tokens."""

import numpy as np
import pytest

from seq2see.data.tokenizers.unigram import Lattice, _candidates, train_unigram


def test_the_probability_of_a_text_is_summed_over_all_segmentations():
    lattice = Lattice(["aba", "b"], ["a", "b", "ab"])
    probabilities = np.array([0.5, 0.25, 0.125])
    # aba: a b a = 0.5 * 0.25 * 0.5 = 0.0625, and ab a = 0.125 * 0.5 = 0.0625; b: 0.25
    assert lattice.likelihoods(probabilities).tolist() == [0.125, 0.25]
    assert lattice.backward(probabilities)[:, 0].tolist() == [0.125, 0.25]
    # In half of the probability mass a is used twice, in half of it once; 4 times aba and 3 times b.
    expected = lattice.expected_counts(probabilities, np.array([4.0, 3.0]))
    assert expected.tolist() == [4 * 1.5, 4 * 0.5 + 3, 4 * 0.5]


def test_a_token_does_not_replace_itself():
    tokens = ["a", "b", "ab", "aba"]
    replaced = Lattice(tokens, tokens, skip_whole=True).likelihoods(np.array([0.5, 0.25, 0.125, 0.125]))
    # a character cannot be replaced; ab by a b; aba by a b a or ab a
    assert replaced.tolist() == [0, 0, 0.125, 0.125]


def test_candidates_occur_twice_and_the_one_that_covers_most_comes_first():
    assert _candidates({"abc": 2, "cab": 1}, 9) == ["ab", "abc", "bc"]  # 3 x 2, 2 x 3, 2 x 2 letters
    assert _candidates({"abc": 2, "cab": 1}, 2) == ["ab", "abc"]
    assert _candidates({"xabcd": 2}, 1) == ["xabcd"]


def test_the_tokens_that_explain_most_text_stay():
    words = {"sing": 20, "singing": 20, "walk": 20, "walking": 20, "ring": 1}
    tokens = [token for token, _ in train_unigram(words, sorted(set("".join(words))), vocab_size=12)]
    assert set("".join(words)) <= set(tokens)  # 9 letters: s i n g w a l k r
    assert {"walk", "sing", "ing"} <= set(tokens)
    assert len(tokens) <= 12


def test_probabilities_sum_to_one_and_the_most_probable_token_comes_first():
    words = {"abab": 5, "abc": 7, "ccab": 2}
    scores = [score for _, score in train_unigram(words, ["a", "b", "c"], vocab_size=6)]
    assert scores == sorted(scores, reverse=True)
    assert np.exp(scores).sum() == pytest.approx(1, abs=0.02)


def test_unknown_characters_and_very_long_words_do_no_harm():
    tokens = dict(train_unigram({"ab" * 500 + "?" + "ab": 2, "?": 9}, ["a", "b"], vocab_size=5))
    assert {"a", "b", "ab"} <= set(tokens)
    assert all(np.isfinite(list(tokens.values())))
    assert not any("?" in token for token in tokens)


def test_a_long_word_of_rare_characters_does_not_underflow():
    # 1,000 different characters, each with probability 1/1000: 1e-3000 underflows a float.
    word = "".join(chr(0x4E00 + number) for number in range(1000))
    scores = [score for _, score in train_unigram({word: 1}, list(word), vocab_size=1000)]
    assert np.exp(scores) == pytest.approx(0.001, rel=1e-3)
    assert len(scores) == 1000


def test_the_order_of_the_words_does_not_change_the_tokens():
    words = {f"{a}{b}{a}": 3 for a in "pqr" for b in "xyz"}
    reverse = dict(reversed(words.items()))
    assert train_unigram(words, list("pqrxyz"), 11) == train_unigram(reverse, list("pqrxyz"), 11)
