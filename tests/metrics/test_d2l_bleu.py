"""The BLEU of d2l by hand, and the readable standard BLEU against sacrebleu."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU

from seq2see.metrics.bleu import brevity_penalty, clipped_matches, d2l_bleu, ngram_counts, standard_bleu


def test_the_d2l_bleu_by_hand():
    # 4 of 5 words and 2 of 4 pairs match, no penalty: (4/5)^(1/2) · (2/4)^(1/4)
    score = d2l_bleu(["a", "b", "x", "d", "e"], ["a", "b", "c", "d", "e"], orders=2)
    assert score == pytest.approx(math.sqrt(4 / 5) * (2 / 4) ** (1 / 4))


def test_the_d2l_bleu_of_a_short_prediction_has_a_brevity_penalty():
    # Everything matches, but 2 words stand for 4: exp(1 - 4/2).
    assert d2l_bleu(["il", "a"], ["il", "a", "perdu", "."]) == pytest.approx(math.exp(-1))


def test_the_third_order_has_the_weight_one_eighth():
    # Words 4/5, pairs 2/4, triples 1/3, and the prediction is longer than the label.
    score = d2l_bleu(["a", "b", "c", "x", "d"], ["c", "x", "d", "b"], orders=3)
    matched = [clipped_matches(["a", "b", "c", "x", "d"], ["c", "x", "d", "b"], order) for order in (1, 2, 3)]
    assert matched == [(4, 5), (2, 4), (1, 3)]
    assert score == pytest.approx((4 / 5) ** (1 / 2) * (2 / 4) ** (1 / 4) * (1 / 3) ** (1 / 8))


def test_counts_are_clipped_by_the_reference():
    assert clipped_matches(["the", "the", "the", "the"], ["the", "cat", "and", "the", "dog"], 1) == (2, 4)


def test_the_product_stops_where_the_prediction_has_no_longer_ngrams():
    assert d2l_bleu(["a"], ["a"], orders=4) == 1.0
    assert d2l_bleu([], ["a"]) == 0.0
    assert d2l_bleu(["a"], []) == 0.0


def test_the_two_forms_of_the_brevity_penalty_agree():
    for predicted in range(1, 8):
        for labeled in range(8):
            piecewise = 1.0 if predicted > labeled else math.exp(1 - labeled / predicted)
            assert brevity_penalty(labeled, predicted) == pytest.approx(piecewise)


def test_a_short_text_has_no_ngrams():
    assert ngram_counts(["a", "b"], 3).total() == 0


def test_standard_bleu_by_hand_sums_counts_over_the_corpus_first():
    predictions = [["a", "b", "c", "d", "e"], ["f", "g", "h", "i"]]
    labels = [["a", "b", "c", "d", "x"], ["f", "g", "h", "i", "j"]]
    # Words 8/9, pairs 6/7, triples 4/5, fours 2/3; nine words for ten.
    by_hand = math.exp(1 - 10 / 9) * (8 / 9 * 6 / 7 * 4 / 5 * 2 / 3) ** (1 / 4)
    assert standard_bleu(predictions, labels) == pytest.approx(by_hand)


sentences = st.lists(st.sampled_from("abc"), min_size=1, max_size=9)


@given(st.lists(st.tuples(sentences, sentences), min_size=1, max_size=7))
def test_standard_bleu_equals_sacrebleu_without_smoothing(pairs):
    predictions, labels = zip(*pairs, strict=True)
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    texts = [[" ".join(tokens) for tokens in side] for side in (predictions, labels)]
    expected = metric.corpus_score(texts[0], [texts[1]]).score
    assert 100 * standard_bleu(predictions, labels) == pytest.approx(expected, abs=1e-9)
