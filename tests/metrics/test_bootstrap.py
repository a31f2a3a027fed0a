"""Paired bootstrap: significant if one system is clearly better, not significant if the systems are similar."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sacrebleu.metrics import BLEU

from seq2see.core.errors import UserError
from seq2see.metrics.bleu import corpus_bleu
from seq2see.metrics.bootstrap import (
    paired_bootstrap,
    paired_bootstrap_accuracy,
    paired_bootstrap_of_runs,
    sentence_statistics,
)

WORDS = ["the", "a", "big", "red", "dog", "cat", "bird", "house", "tree", "sees", "likes", "near", "under"]


def make_outputs(share_wrong: float, seed: int, count: int = 60) -> tuple[list[str], list[str]]:
    """References of random words, and outputs in which a share of the words is changed."""
    numbers = np.random.default_rng(1)
    noise = np.random.default_rng(seed)
    references, outputs = [], []
    for _ in range(count):
        words = numbers.choice(WORDS, size=9)
        wrong = noise.random(9) < share_wrong
        outputs.append(" ".join(np.where(wrong, noise.choice(WORDS, size=9), words)))
        references.append(" ".join(words))
    return outputs, references


def test_a_clearly_better_system_has_a_small_p_value():
    worse, references = make_outputs(0.5, seed=2)
    better, _ = make_outputs(0.1, seed=3)
    result = paired_bootstrap(worse, better, references, seed=7, samples=200)
    assert result.p_value == pytest.approx(1 / 201)
    assert result.first.score == pytest.approx(corpus_bleu(worse, references).value)
    assert result.second.score == pytest.approx(corpus_bleu(better, references).value)
    assert result.difference.low > 0
    assert result.first.low < result.first.mean < result.first.high


def test_without_matching_4_grams_the_score_is_smoothed():
    outputs, references = ["a b c d e f"], ["a b x d e y"]
    result = paired_bootstrap(outputs, references, references, seed=7, samples=10)
    assert result.first.score == pytest.approx(corpus_bleu(outputs, references).value)
    assert result.first.score > 0


def test_the_order_of_the_systems_only_changes_the_sign():
    first, references = make_outputs(0.3, seed=2)
    second, _ = make_outputs(0.3, seed=3)
    one = paired_bootstrap(first, second, references, seed=7, samples=100)
    other = paired_bootstrap(second, first, references, seed=7, samples=100)
    assert one.p_value == pytest.approx(other.p_value)
    assert one.difference.mean == pytest.approx(-other.difference.mean)
    assert 0.01 < one.p_value < 0.99


def test_a_system_is_not_better_than_itself():
    outputs, references = make_outputs(0.3, seed=2)
    assert paired_bootstrap(outputs, outputs, references, seed=1, samples=50).p_value == 1


def test_the_same_seed_gives_the_same_interval_and_another_seed_another():
    first, references = make_outputs(0.3, seed=2)
    second, _ = make_outputs(0.25, seed=3)
    results = [paired_bootstrap(first, second, references, seed=seed, samples=50) for seed in (0, 0, 1)]
    assert results[0] == results[1]
    assert results[0].difference != results[2].difference
    assert "seed:1" in results[2].signature


def test_statistics_of_a_sentence_by_hand():
    # Three of four words match, two of three pairs, one of two triples, none of one.
    statistics = sentence_statistics(BLEU(), ["a b c x"], ["a b c d e"])
    assert statistics.tolist() == [[4, 5, 3, 2, 1, 0, 4, 3, 2, 1]]


def test_the_string_contains_the_difference_and_the_p_value():
    first, references = make_outputs(0.3, seed=2)
    text = str(paired_bootstrap(first, first, references, seed=1, samples=20))
    assert "difference 0.00 (0.00 ± 0.00), p = 1.000" in text


def test_systems_with_different_numbers_of_outputs_are_an_error():
    with pytest.raises(UserError, match="1 outputs but 2"):
        paired_bootstrap(["a", "b"], ["a"], ["a", "b"], seed=0)
    with pytest.raises(UserError, match="no outputs"):
        paired_bootstrap([], [], [], seed=0)


class TestSeveralRuns:
    def test_the_score_of_a_system_is_the_mean_of_its_runs(self):
        runs = [make_outputs(0.3, seed)[0] for seed in (2, 3, 4)]
        other, references = make_outputs(0.2, seed=5)
        result = paired_bootstrap_of_runs(runs, [other], references, seed=7, samples=40)
        scores = [corpus_bleu(run, references).value for run in runs]
        assert result.first.score == pytest.approx(sum(scores) / 3)
        assert result.second.score == pytest.approx(corpus_bleu(other, references).value)
        alone = [paired_bootstrap(run, other, references, seed=7, samples=40).first.mean for run in runs]
        assert result.first.mean == pytest.approx(sum(alone) / 3)

    def test_three_copies_of_a_run_equal_one_run(self):
        first, references = make_outputs(0.3, seed=2)
        second, _ = make_outputs(0.28, seed=3)
        alone = paired_bootstrap(first, second, references, seed=7, samples=60)
        thrice = paired_bootstrap_of_runs([first] * 3, [second] * 3, references, seed=7, samples=60)
        assert thrice.p_value == alone.p_value
        assert thrice.difference.low == pytest.approx(alone.difference.low)

    def test_every_run_needs_one_output_for_each_reference(self):
        outputs, references = make_outputs(0.3, seed=2)
        with pytest.raises(UserError, match="59 outputs but 60"):
            paired_bootstrap_of_runs([outputs], [outputs, outputs[:-1]], references, seed=7)


def counts(correct: list[int]) -> np.ndarray:
    """Examples with one prediction each."""
    return np.array([(each, 1) for each in correct])


def test_accuracies_are_compared_as_the_normal_approximation_predicts():
    """Only examples on which the systems differ count: of 60, 36 against 24 is z = 12 / √(60 - 12²/400)."""
    both, first, second, neither = [1] * 280, [1] * 24, [0] * 36, [0] * 60
    one = counts([*both, *first, *second, *neither])
    other = counts([*both, *[0] * 24, *[1] * 36, *neither])
    result = paired_bootstrap_accuracy(one, other, seed=3, samples=20_000)
    assert (result.first.score, result.second.score, result.difference.score) == (76.0, 79.0, 3.0)
    assert result.p_value == pytest.approx(0.5 * math.erfc(12 / math.sqrt(2 * (60 - 0.36))), abs=0.01)
    width = result.difference.high - result.difference.low
    assert width == pytest.approx(2 * 1.96 * 100 * math.sqrt(60 - 0.36) / 400, rel=0.03)
    assert paired_bootstrap_accuracy(other, one, seed=3, samples=20_000).difference.score == -3.0
    assert paired_bootstrap_accuracy(one, one, seed=3).p_value == 1.0


def test_a_sample_without_predictions_has_accuracy_zero():
    """Of two examples only one has a prediction, and it is not in every sample."""
    result = paired_bootstrap_accuracy(np.array([(0, 0), (1, 1)]), np.array([(0, 0), (0, 1)]), seed=3, samples=50)
    assert (result.first.score, result.second.score) == (100.0, 0.0)
    assert 0 < result.first.mean < 100


def test_words_of_one_sentence_are_drawn_together():
    """Ten words that are always correct or wrong together have the information of one."""
    one, other = np.array([(5, 10), (5, 10)] * 20), np.array([(10, 10), (2, 10)] * 20)
    together = paired_bootstrap_accuracy(one, other, seed=3)
    apart = paired_bootstrap_accuracy(np.repeat(one, 10, axis=0), np.repeat(other, 10, axis=0), seed=3)
    assert together.difference.score == 10.0
    assert together.difference.high - together.difference.low > 2 * (apart.difference.high - apart.difference.low)
