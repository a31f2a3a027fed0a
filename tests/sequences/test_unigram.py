"""The unigram vocabulary: sums over all cuttings by hand, and pieces that are worth having."""

import numpy as np
import pytest

from seq2see.sequences.unigram import Lattice, _candidates, train_unigram


def test_the_chance_of_a_text_is_summed_over_all_ways_to_cut_it():
    lattice = Lattice(["aba", "b"], ["a", "b", "ab"])
    probabilities = np.array([0.5, 0.25, 0.125])
    # aba: a b a = 0.5 * 0.25 * 0.5 = 0.0625, and ab a = 0.125 * 0.5 = 0.0625; b: 0.25
    assert lattice.likelihoods(probabilities).tolist() == [0.125, 0.25]
    assert lattice.backward(probabilities)[:, 0].tolist() == [0.125, 0.25]
    # Half of the time a is used twice, half of the time once; 4 times aba and 3 times b.
    expected = lattice.expected(probabilities, np.array([4.0, 3.0]))
    assert expected.tolist() == [4 * 1.5, 4 * 0.5 + 3, 4 * 0.5]


def test_a_piece_does_not_replace_itself():
    pieces = ["a", "b", "ab", "aba"]
    replaced = Lattice(pieces, pieces, skip_whole=True).likelihoods(np.array([0.5, 0.25, 0.125, 0.125]))
    # a letter cannot be replaced; ab by a b; aba by a b a or ab a
    assert replaced.tolist() == [0, 0, 0.125, 0.125]


def test_candidates_are_seen_twice_and_the_one_that_covers_most_comes_first():
    assert _candidates({"abc": 2, "cab": 1}, 9) == ["ab", "abc", "bc"]  # 3 x 2, 2 x 3, 2 x 2 letters
    assert _candidates({"abc": 2, "cab": 1}, 2) == ["ab", "abc"]
    assert _candidates({"xabcd": 2}, 1) == ["xabcd"]


def test_the_pieces_that_explain_most_text_stay():
    words = {"sing": 20, "singing": 20, "walk": 20, "walking": 20, "ring": 1}
    pieces = [piece for piece, _ in train_unigram(words, sorted(set("".join(words))), vocab_size=12)]
    assert set("".join(words)) <= set(pieces)  # 8 letters: s i n g w a l k r = 9
    assert {"walk", "sing", "ing"} <= set(pieces)
    assert len(pieces) <= 12


def test_chances_sum_to_one_and_the_likeliest_comes_first():
    words = {"abab": 5, "abc": 7, "ccab": 2}
    scores = [score for _, score in train_unigram(words, ["a", "b", "c"], vocab_size=6)]
    assert scores == sorted(scores, reverse=True)
    assert np.exp(scores).sum() == pytest.approx(1, abs=0.02)


def test_unknown_letters_and_very_long_words_do_no_harm():
    pieces = dict(train_unigram({"ab" * 500 + "?" + "ab": 2, "?": 9}, ["a", "b"], vocab_size=5))
    assert {"a", "b", "ab"} <= set(pieces)
    assert all(np.isfinite(list(pieces.values())))
    assert not any("?" in piece for piece in pieces)


def test_a_long_word_of_rare_letters_keeps_its_chance():
    # 1,000 different letters, each one in 1,000: 1e-3000 is a chance that no float can hold.
    word = "".join(chr(0x4E00 + number) for number in range(1000))
    scores = [score for _, score in train_unigram({word: 1}, list(word), vocab_size=1000)]
    assert np.exp(scores) == pytest.approx(0.001, rel=1e-3)
    assert len(scores) == 1000


def test_the_order_in_which_words_are_given_does_not_choose_the_pieces():
    words = {f"{a}{b}{a}": 3 for a in "pqr" for b in "xyz"}
    turned = dict(reversed(words.items()))
    assert train_unigram(words, list("pqrxyz"), 11) == train_unigram(turned, list("pqrxyz"), 11)
