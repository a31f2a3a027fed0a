"""Metrics of dialogues against values that are computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from seq2see.metrics.dialogue import (
    CANDIDATES,
    TfIdf,
    distinct,
    distinct_interval,
    draw_candidates,
    hit,
    is_generic,
    ratio_interval,
    repeats_ngram,
    reply_properties,
    self_bleu,
    words_in,
)


def test_distinct_counts_different_ngrams():
    replies = [words_in("a b a"), words_in("a b")]
    assert distinct(replies, 1) == 2 / 5
    assert distinct(replies, 2) == 2 / 3
    assert distinct([], 1) == 0


def test_self_bleu_is_100_for_copies_and_near_0_without_a_common_word():
    assert self_bleu(["a b c d e", "a b c d e"]) == pytest.approx([1, 1])
    # No match: half a match of 4, 3, 2 and 1 n-grams.
    assert self_bleu(["a b c d", "e f g h"])[0] == pytest.approx((1 / 8 * 1 / 6 * 1 / 4 * 1 / 2) ** 0.25)


def test_self_bleu_of_two_replies_by_hand():
    # 1-grams 3/4 (a, b, c), 2-grams 2/3, 3-grams 1/2, 4-grams 0/1, smoothed to 1/2.
    expected = math.exp((math.log(3 / 4) + math.log(2 / 3) + math.log(1 / 2) + math.log(1 / 2)) / 4)
    assert self_bleu(["a b c d", "a b c e"])[0] == pytest.approx(expected)


def test_a_short_reply_has_a_brevity_penalty():
    (first, second) = self_bleu(["a b c d", "a b c d e"])
    assert first == pytest.approx(math.exp(1 - 5 / 4))
    assert second < 1


def test_a_repeated_ngram_is_a_loop():
    assert repeats_ngram("I am fine, I am fine, I am fine")
    assert not repeats_ngram("I am fine")
    assert repeats_ngram("我很好我很好我很好")


@pytest.mark.parametrize(
    ("text", "generic"), [("I don't know.", True), ("我不知道。", True), ("OK!", True), ("Rome.", False)]
)
def test_generic_replies_are_those_that_fit_every_message(text: str, generic: bool):
    assert is_generic(text) == generic


def test_candidates_are_different_replies_of_other_dialogues_and_the_same_for_all():
    texts, dialogues = [f"reply {number % 40}" for number in range(60)], [number // 3 for number in range(60)]
    drawn = draw_candidates(texts, dialogues, seed=1)
    assert drawn == draw_candidates(texts, dialogues, seed=1)
    for index, chosen in enumerate(drawn):
        assert chosen[0] == index
        assert len(chosen) == len({texts[each] for each in chosen}) == CANDIDATES
        assert all(dialogues[each] != dialogues[index] for each in chosen[1:])
    assert draw_candidates(texts, dialogues, seed=2) != drawn


def test_a_tie_is_a_hit_by_chance():
    assert hit([1.0] * 20) == 1 / 20
    assert hit([0.5, 0.4, 0.5]) == 1 / 2


def test_tfidf_prefers_the_candidate_with_the_rare_word():
    tfidf = TfIdf(["the cat", "the dog", "the the"])
    query = tfidf.vector("the cat sleeps")
    assert tfidf.similarity(query, tfidf.vector("the cat")) > tfidf.similarity(query, tfidf.vector("the dog"))
    assert tfidf.similarity(query, query) == pytest.approx(1)
    assert tfidf.idf["cat"] == pytest.approx(math.log(4 / 2) + 1)


def test_the_factors_of_texts_weigh_their_words():
    tfidf = TfIdf(["a b", "a b"])  # both words are equally frequent
    assert tfidf.weighted_vector(["a", "b b"], [3.0, 2.0]) == pytest.approx({"a": 0.6, "b": 0.8})
    assert tfidf.weighted_vector(["a b b"], [5.0]) == pytest.approx(tfidf.vector("a b b"))


def test_an_interval_draws_whole_dialogues():
    # Ten replies of one dialogue that are right, and ten of another that are wrong: only 0, 50 or 100 % can be drawn.
    flags, dialogues = [1.0] * 10 + [0.0] * 10, [0] * 10 + [1] * 10
    interval = ratio_interval(flags, [1.0] * 20, dialogues, seed=1, scale=100)
    assert (interval.value, interval.low, interval.high) == (50, 0, 100)
    alone = ratio_interval(flags, [1.0] * 20, list(range(20)), seed=1, scale=100)
    assert alone.low > 20
    assert alone.high < 80


def test_the_interval_of_distinct_contains_its_value():
    texts = [f"word{number % 7} word{number % 11} end" for number in range(60)]
    interval = distinct_interval(texts, [number // 2 for number in range(60)], 1, seed=1)
    assert interval.value == pytest.approx((7 + 4 + 1) / 180)  # word0 to word10, and end
    assert interval.low <= interval.value <= interval.high


def test_copies_are_found_without_case_and_punctuation():
    found = reply_properties(["I see!", "a new one"], [0, 1], ["i see"], seed=1)
    assert found["copied"].value == 50
    assert np.isfinite([each.value for each in found.values()]).all()


def test_the_interval_of_distinct_lies_on_both_sides_though_every_sample_repeats_dialogues():
    texts = [f"word{number} word{number % 5}" for number in range(60)]
    interval = distinct_interval(texts, list(range(60)), 1, seed=1)
    assert interval.low < interval.value < interval.high < interval.value + 0.1
