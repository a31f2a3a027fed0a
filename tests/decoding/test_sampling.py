"""Sampling: top-k and top-p, frequencies equal probabilities, and batches do not change samples."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2see.core.batch import Sequences
from seq2see.decoding.engine import Limits, decode
from seq2see.decoding.samplers import (
    GreedySampler,
    RandomSampler,
    keep_top_k,
    keep_top_p,
    sample_inverse_cdf,
    stable_topk,
)
from toy_decoders import WORDS, Forbid, HistoryModel, TableModel, next_log_probabilities, random_source, select_rows

LIMITS = Limits(max_new_tokens=6)


def test_top_k_keeps_the_highest_and_among_equals_the_first():
    filtered = keep_top_k(torch.tensor([[0.1, 0.3, 0.3, 0.3]]), 2)
    assert (filtered > -torch.inf).tolist() == [[False, True, True, False]]


def test_top_p_keeps_the_smallest_set_that_reaches_the_mass():
    scores = torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64).log()
    kept_tokens = {mass: (keep_top_p(scores, mass) > -torch.inf).tolist()[0] for mass in (0.01, 0.49, 0.51, 0.81)}
    assert kept_tokens[0.01] == [False, True, False]  # one always stays
    assert kept_tokens[0.49] == [False, True, False]
    assert kept_tokens[0.51] == [False, True, True]
    assert kept_tokens[0.81] == [True, True, True]
    assert keep_top_p(scores, 0.51)[0, 2] == scores[0, 2]
    assert (keep_top_p(torch.zeros(1, 4), 0.5) > -torch.inf).tolist() == [
        [True, True, False, False]
    ]  # the mass is reached exactly


def test_inverse_cdf_sampling_selects_the_token_whose_interval_contains_the_number():
    probabilities = torch.tensor([[0.25, 0.0, 0.5, 0.25, 0.0]], dtype=torch.float64).expand(6, -1)
    uniforms = torch.tensor([0.0, 0.2499, 0.25, 0.7499, 0.75, 1 - 2**-53], dtype=torch.float64)
    assert sample_inverse_cdf(probabilities, uniforms).tolist() == [0, 0, 2, 2, 3, 3]


def test_inverse_cdf_sampling_never_exceeds_the_last_token():
    totals = 1 + torch.arange(-1000, 1000, dtype=torch.float64) * 2**-52
    probabilities = torch.stack([totals / 2, totals / 2], dim=1)
    assert sample_inverse_cdf(probabilities, torch.full_like(totals, 1 - 2**-53)).tolist() == [1] * 2000
    assert sample_inverse_cdf(3 * torch.ones(1, 4), torch.tensor([0.6])).tolist() == [
        2
    ]  # probabilities need not sum to 1


def test_rare_tokens_and_tiny_temperatures_are_exact_for_float32_scores():
    rare = RandomSampler(0).probabilities(torch.tensor([[0.0, -20.0]]))
    assert sample_inverse_cdf(rare, torch.tensor([1 - 1e-9], dtype=torch.float64)).tolist() == [1]
    assert sample_inverse_cdf(rare, torch.tensor([1 - 3e-9], dtype=torch.float64)).tolist() == [0]
    assert RandomSampler(0, temperature=1e-320).probabilities(torch.tensor([[-2.0, -1.0]])).tolist() == [[0.0, 1.0]]


def tokens_of(answers):
    return [[answer.tokens for answer in row] for row in answers]


@pytest.mark.parametrize(
    "sample", [RandomSampler(3, temperature=1e-9), RandomSampler(3, top_k=1), RandomSampler(3, top_p=1e-9)], ids=str
)
def test_sampling_from_one_token_is_greedy(sample):
    model, source = HistoryModel(1), random_source(11)
    assert decode(model, source, sample, LIMITS) == decode(model, source, GreedySampler(), LIMITS)


def test_filters_that_keep_all_tokens_have_no_effect():
    model, source = HistoryModel(1), random_source(11)
    plain = decode(model, source, RandomSampler(3), LIMITS)
    assert decode(model, source, RandomSampler(3, top_k=6, top_p=1.0), LIMITS) == plain
    assert decode(model, source, RandomSampler(3, top_k=600), LIMITS) == plain


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_frequencies_are_the_probabilities(temperature):
    model, draws = TableModel(2, scale=0.7), 4000
    sample = RandomSampler(seed=5, temperature=temperature, width=draws)
    answers = decode(model, Sequences.of([[3]]), sample, Limits(1))[0]
    tokens = [answer.tokens[0] if answer.tokens else 2 for answer in answers]
    choices = (2, *WORDS)
    scores = torch.tensor(next_log_probabilities(model, None, ()))[list(choices)]
    expected = draws * (scores / temperature).softmax(0)
    counts = torch.tensor([tokens.count(token) for token in choices])
    statistic = ((counts - expected) ** 2 / expected).sum()
    degrees = torch.tensor((len(choices) - 1) / 2)
    assert counts.sum() == draws
    assert torch.special.gammaincc(degrees, statistic / 2) > 1e-6  # p-value of the chi-square test


def test_log_probabilities_do_not_depend_on_the_temperature():
    model = TableModel(2)
    answer = decode(model, Sequences.of([[3]]), RandomSampler(1, temperature=0.3, top_k=2), Limits(1))[0][0]
    token = answer.tokens[0] if answer.tokens else 2
    assert answer.log_probability == pytest.approx(next_log_probabilities(model, None, ())[token], abs=1e-6)


def test_the_same_seed_gives_the_same_sample_in_any_batch():
    model, source, indices = HistoryModel(4), random_source(7), torch.tensor([90, 91, 92, 93, 94, 95, 96])
    together = decode(model, source, RandomSampler(8, width=3), LIMITS, indices=indices)
    for rows in ([0], [4, 2], [6, 5, 3, 1]):
        part = decode(model, select_rows(source, rows), RandomSampler(8, width=3), LIMITS, indices=indices[rows])
        assert tokens_of(part) == [tokens_of(together)[row] for row in rows]


def test_other_seeds_examples_samples_and_steps_give_other_draws():
    model = TableModel(0, scale=0.0)  # all tokens equally probable
    limits, logits_processors = Limits(40), (Forbid((2,)),)

    def draw(seed=1, index=0, width=1):
        indices = torch.tensor([index])
        return decode(
            model, Sequences.of([[3]]), RandomSampler(seed, width=width), limits, logits_processors, indices=indices
        )[0]

    answers = [draw()[0], draw(seed=2)[0], draw(index=1)[0], *draw(width=3)]
    assert len({answer.tokens for answer in answers}) == 5  # the first is drawn twice
    assert len(set(answers[0].tokens)) == 3


def test_samples_of_an_input_are_ordered_by_score():
    for row in decode(HistoryModel(4), random_source(5), RandomSampler(8, width=6), LIMITS):
        scores = [answer.score for answer in row]
        assert len(row) == 6
        assert scores == sorted(scores, reverse=True)


def test_the_highest_come_first_and_among_equals_the_lower_index():
    scores = torch.tensor([[1.0, 3.0, 2.0, 3.0, 3.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
    assert stable_topk(scores, 4)[1].tolist() == [[1, 3, 4, 2], [0, 1, 2, 3]]


def test_among_equals_at_the_limit_the_lowest_indices_are_selected():
    assert stable_topk(torch.tensor([[1.0, 5.0, 1.0, 1.0]]), 2)[1].tolist() == [[1, 0]]


def test_among_equals_the_lower_index_comes_first_wherever_higher_scores_are():
    scores = torch.zeros(1, 300)
    scores[0, [5, 71, 200]] = 2.0
    scores[0, 70] = 3.0
    assert stable_topk(scores, 3)[1].tolist() == [[70, 5, 71]]


def test_all_scores_are_returned_if_there_are_fewer_than_requested():
    best, indices = stable_topk(torch.tensor([[1.0, 2.0]]), 5)
    assert (best.tolist(), indices.tolist()) == ([[2.0, 1.0]], [[1, 0]])


@given(
    choices=st.integers(1, 1000),
    count=st.integers(1, 12),
    values=st.sampled_from([1, 2, 5, 10**6]),
    seed=st.integers(0, 999),
)
def test_top_k_equals_the_start_of_a_stable_sort(choices, count, values, seed):
    random = torch.Generator().manual_seed(seed)
    scores = torch.randint(0, values, (3, choices), generator=random).float().log()  # with many ties, and -inf
    expected = scores.sort(dim=1, descending=True, stable=True)
    best, indices = stable_topk(scores, count)
    assert indices.tolist() == expected.indices[:, :count].tolist()
    assert best.tolist() == expected.values[:, :count].tolist()
