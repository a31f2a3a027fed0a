"""Word alignment from attention, by hand, and the selection of heads."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch

from seq2see.core.errors import UserError
from seq2see.metrics.alignment import (
    GoldAlignment,
    HeadSelection,
    SentenceAttention,
    align,
    alignment_error_rate,
    score_heads,
    select_heads,
    word_attention,
)


def test_error_rate_by_hand():
    # A = {00, 11, 22}, S = {00, 12}, P = S + {11}: one sure hit, two possible hits.
    gold = GoldAlignment.of(sure=[(0, 0), (1, 2)], possible=[(1, 1)])
    links = {(0, 0), (1, 1), (2, 2)}
    assert alignment_error_rate([links], [gold]) == pytest.approx(1 - (1 + 2) / (3 + 2))


def test_all_sure_links_and_only_possible_ones_are_perfect():
    gold = GoldAlignment.of(sure=[(0, 0)], possible=[(1, 1)])
    assert alignment_error_rate([{(0, 0)}], [gold]) == 0
    assert alignment_error_rate([{(0, 0), (1, 1)}], [gold]) == 0
    assert alignment_error_rate([{(1, 0)}], [gold]) == 1
    assert alignment_error_rate([set()], [gold]) == 1


def test_counts_are_summed_over_sentences_before_dividing():
    golds = [GoldAlignment.of([(0, 0)]), GoldAlignment.of([(0, 0), (1, 1), (2, 2)])]
    links = [{(1, 0)}, {(0, 0), (1, 1), (2, 2)}]
    # 3 + 3 hits of 4 + 4; the mean of the sentences' rates would be 1/2.
    assert alignment_error_rate(links, golds) == pytest.approx(1 / 4)


def test_source_tokens_are_summed_and_target_tokens_are_averaged():
    weights = np.array(
        [
            [0.0, 0.3, 0.3, 0.4],  # two tokens of target word 0
            [0.2, 0.1, 0.2, 0.5],
            [0.5, 0.1, 0.0, 0.4],  # target word 1
            [0.9, 0.0, 0.0, 0.1],  # <eos>
        ]
    )
    sentence = SentenceAttention(weights, source_words=[None, 0, 0, 1], target_words=[0, 0, 1, None])
    expected = np.array([[0.45, 0.45], [0.1, 0.4]])
    np.testing.assert_allclose(word_attention(sentence), expected)


def test_the_sum_of_two_tokens_exceeds_a_larger_single_token():
    sentence = SentenceAttention(torch.tensor([[0.3, 0.3, 0.4]]), source_words=[0, 0, 1], target_words=[0])
    assert align(sentence, GoldAlignment.of([(0, 0)])) == {(0, 0)}


def test_target_words_without_gold_links_and_truncated_words_get_no_link():
    sentence = SentenceAttention(torch.eye(3), source_words=[0, 1, 2], target_words=[0, 1, 2])
    gold = GoldAlignment.of(sure=[(0, 0)], possible=[(1, 2), (0, 5)])
    assert align(sentence, gold) == {(0, 0), (2, 2)}


def test_a_sentence_without_source_words_is_linked_to_nothing():
    assert (
        align(SentenceAttention(torch.ones(2, 1), source_words=[None], target_words=[0, 1]), GoldAlignment.of([(0, 0)]))
        == set()
    )


def test_align_needs_one_attention_map():
    with pytest.raises(ValueError, match="one attention map"):
        align(SentenceAttention(np.ones((2, 4, 3, 3)), range(3), range(3)), GoldAlignment.of([(0, 0)]))


def test_weights_of_another_size_than_the_tokens_are_an_error():
    with pytest.raises(ValueError, match="3 target and 2 source"):
        word_attention(SentenceAttention(np.ones((2, 3)), [0, 1], [0, 1, 2]))


def make_sentences(count: int, good: tuple[int, int], layers: int = 2, heads: int = 4):
    """Sentences whose words are translated in order; only one head attends to the right word."""
    generator = np.random.default_rng(0)
    sentences, golds = [], []
    for number in range(count):
        words = 5 + number % 7
        weights = generator.random((layers, heads, words + 1, words + 2)) + 0.001
        weights[good[0], good[1], :words, 1 : words + 1] += 3 * np.eye(words)
        weights /= weights.sum(axis=-1, keepdims=True)
        sentences.append(SentenceAttention(weights, [None, *range(words), None], [*range(words), None]))
        golds.append(GoldAlignment.of([(word, word) for word in range(words)]))
    return sentences, golds


def test_the_one_head_that_aligns_is_found():
    selection = select_heads(*make_sentences(11, good=(1, 2)))
    assert (selection.layer, selection.heads, selection.error_rate) == (1, (2,), 0)


def test_two_heads_that_each_align_half_are_found_together():
    words, uniform = 6, np.full(6, 1 / 6)
    weights = np.full((1, 5, words, words), 1 / 6)
    wrong = np.roll(np.eye(words), 1, axis=1)
    weights[0, [0, 2, 4]] = wrong
    weights[0, 1] = np.where(np.arange(words)[:, None] < 3, np.eye(words), uniform)
    weights[0, 3] = np.where(np.arange(words)[:, None] >= 3, np.eye(words), uniform)
    sentence = SentenceAttention(weights, range(words), range(words))
    selection = select_heads([sentence], [GoldAlignment.of([(word, word) for word in range(words)])])
    assert set(selection.heads) == {1, 3}
    assert selection.error_rate == 0
    alone = select_heads([sentence], [GoldAlignment.of([(word, word) for word in range(words)])], max_heads=1)
    assert alone.heads in ((1,), (3,))


def test_among_equally_good_heads_the_first_of_the_first_layer_is_selected():
    sentence = SentenceAttention(np.broadcast_to(np.eye(3), (2, 2, 3, 3)), range(3), range(3))
    assert select_heads([sentence], [GoldAlignment.of([(0, 0)])]) == HeadSelection(0, (0,), 0.0)


def test_the_mean_of_all_heads_is_a_candidate():
    # Each of five heads attends mostly to another wrong word; their mean attends to the right one.
    words, heads = 6, 5
    weights = np.zeros((1, heads, words, words))
    for head in range(heads):
        weights[0, head] = 0.45 * np.eye(words) + 0.55 * np.roll(np.eye(words), head + 1, axis=1)
    sentence = SentenceAttention(weights, range(words), range(words))
    gold = GoldAlignment.of([(word, word) for word in range(words)])
    selection = select_heads([sentence], [gold], max_heads=1)
    assert selection.heads == (0, 1, 2, 3, 4)
    assert selection.error_rate == 0


def test_score_heads_agrees_with_aligning_sentence_by_sentence():
    sentences, golds = make_sentences(13, good=(0, 1))
    sentences = [
        SentenceAttention(np.roll(s.weights, number % 3, axis=-2), s.source_words, s.target_words)
        for number, s in enumerate(sentences)
    ]
    golds = [GoldAlignment.of(gold.sure, [(0, 1), (0, 99), (99, 1)]) for gold in golds]
    # These sentences have no words to link; their gold links count as missed.
    sentences += [
        SentenceAttention(np.ones((2, 4, 1, 1)), [0], [None]),
        SentenceAttention(np.ones((2, 4, 1, 1)), [None], [0]),
    ]
    golds += [GoldAlignment.of([(0, 0)]), GoldAlignment.of([(0, 0)])]
    selection = HeadSelection(0, (1, 3), 0.0)
    links = [
        align(dataclasses.replace(s, weights=s.weights[0, [1, 3]].mean(axis=0)), gold)
        for s, gold in zip(sentences, golds, strict=True)
    ]
    rate = alignment_error_rate(links, golds)
    assert 0.1 < rate < 1
    assert score_heads(selection, sentences, golds) == pytest.approx(rate)


def test_a_selection_can_be_stored_as_json():
    selection = HeadSelection(1, (2, 0), 0.125)
    assert HeadSelection.of(json.loads(json.dumps(dataclasses.asdict(selection)))) == selection


def test_missing_gold_links_are_an_error():
    sentences, _ = make_sentences(3, good=(0, 0))
    with pytest.raises(UserError, match="gold links"):
        select_heads(sentences, [GoldAlignment.of([])] * 3)
    with pytest.raises(UserError, match="gold links"):
        alignment_error_rate([set()], [GoldAlignment.of([])])


def test_half_precision_tensors_are_supported():
    sentence = SentenceAttention(torch.eye(2, dtype=torch.bfloat16, requires_grad=True), [0, 1], [0, 1])
    assert align(sentence, GoldAlignment.of([(0, 0), (1, 1)])) == {(0, 0), (1, 1)}
