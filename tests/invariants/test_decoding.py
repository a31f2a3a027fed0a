"""Decoding with real models: scores equal those of teacher forcing, and results do not depend on the batch.

Invariants I4, I10, I11, I12, I13 and I15, for every family of models.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2see.core.batch import Batch, Sequences
from seq2see.decoding.beam import BeamSampler
from seq2see.decoding.engine import Limits, decode
from seq2see.decoding.samplers import GNMT, Average, GreedySampler, NoPenalty, RandomSampler
from seq2see.models.build import fresh_model
from tiny_models import (
    BOS,
    EOS,
    FAMILIES,
    few_examples,
    recurrent_decoder,
    recurrent_encoder,
    seq2seq_settings,
    sources,
    tiny_model,
    transformer,
)
from toy_decoders import best_outputs, select_rows

every_family = pytest.mark.parametrize("name", FAMILIES)
MAX_LENGTH = 5
rows_of = st.lists(st.integers(1, 5), min_size=1, max_size=3)
seeds = st.integers(0, 999)


def teacher_forced_log_probabilities(
    model, source: Sequences, token_rows: list[tuple[int, ...]], owners: list[int]
) -> list[list[float]]:
    """The log probability of every token of several outputs, by one teacher-forced pass over all of them."""
    target = Sequences.of([[BOS, *tokens][: len(tokens)] for tokens in token_rows])
    outputs = Sequences.of([list(tokens) for tokens in token_rows]).values
    rows = torch.tensor(owners)
    batch = Batch(Sequences(source.values[rows], source.lengths[rows]), target, outputs, rows)
    with torch.no_grad():
        log_probabilities = model(batch).log_softmax(-1).gather(2, outputs[..., None]).squeeze(-1)
    return [row[: len(tokens)].tolist() for row, tokens in zip(log_probabilities, token_rows, strict=True)]


@every_family
@few_examples()
@given(rows=rows_of, seed=seeds)
def test_a_beam_of_one_is_greedy(name, rows, seed):
    model, source = tiny_model(name, torch.float64), sources(rows, seed)
    greedy = decode(model, source, GreedySampler(), Limits(MAX_LENGTH))
    narrow = decode(model, source, BeamSampler(1), Limits(MAX_LENGTH))
    for (greedy_output,), (beam_output,) in zip(greedy, narrow, strict=True):
        assert greedy_output.tokens == beam_output.tokens
        assert greedy_output.score == pytest.approx(beam_output.score, abs=1e-5)


@every_family
@few_examples()
@given(rows=rows_of, seed=seeds, length_penalty=st.sampled_from([NoPenalty(), Average(alpha=0.8), GNMT(alpha=0.6)]))
def test_beam_scores_match_teacher_forcing(name, rows, seed, length_penalty):
    model, source = tiny_model(name, torch.float64), sources(rows, seed)
    results = decode(model, source, BeamSampler(4, length_penalty), Limits(MAX_LENGTH))
    row_outputs = [(row, output) for row, outputs in enumerate(results) for output in outputs]
    token_rows = [output.tokens + (EOS,) * output.finished for _, output in row_outputs]
    expected = teacher_forced_log_probabilities(model, source, token_rows, [row for row, _ in row_outputs])
    for (_, output), tokens, log_probabilities in zip(row_outputs, token_rows, expected, strict=True):
        assert output.token_log_probabilities == pytest.approx(log_probabilities, abs=2e-5)
        assert output.log_probability == pytest.approx(sum(log_probabilities), abs=1e-4)
        score = float(length_penalty(torch.tensor(sum(log_probabilities)), len(tokens)))
        assert output.score == pytest.approx(score, abs=1e-4)
    for outputs in results:
        scores = [output.score for output in outputs]
        assert scores == sorted(scores, reverse=True)
        complete = [output.tokens + (EOS,) * output.finished for output in outputs]
        assert len(set(complete)) == len(complete) == 4
        for output, tokens in zip(outputs, complete, strict=True):
            assert 1 <= len(tokens) <= MAX_LENGTH
            assert not {0, BOS, EOS} & set(output.tokens)
            assert output.finished or len(output.tokens) == MAX_LENGTH


@pytest.mark.parametrize(
    "settings",
    [
        seq2seq_settings(transformer(depth=1), transformer(depth=1)),
        seq2seq_settings(recurrent_encoder("gru").with_(depth=1), recurrent_decoder("gru", "additive").with_(depth=1)),
    ],
    ids=["transformer", "recurrent"],
)
@pytest.mark.parametrize("length_penalty", [NoPenalty(), GNMT(alpha=0.9)], ids=["none", "gnmt"])
def test_an_exhaustive_beam_search_finds_the_best_sequence(settings, length_penalty):
    model = fresh_model(settings, (6, 6), "xavier", seed=3).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight *= 2  # larger weights give more distinct probabilities
    source = Sequences.of([[3, 4, 5]])
    (results,) = decode(model, source, BeamSampler(81, length_penalty), Limits(4))

    def score(total: float, length: int) -> float:
        return float(length_penalty(torch.tensor(total), length))

    with torch.no_grad():
        best = best_outputs(model, source, 4, score)
    assert [output.tokens for output in results[:5]] == [tokens for _, tokens, _ in best[:5]]
    assert [output.score for output in results[:5]] == pytest.approx([each for each, _, _ in best[:5]], abs=1e-5)
    (narrow,) = decode(model, source, BeamSampler(2, length_penalty), Limits(4))
    assert narrow[0].score <= results[0].score + 1e-6


@every_family
@few_examples()
@given(seed=seeds, data=st.data())
def test_outputs_do_not_depend_on_the_batch(name, seed, data):
    model, source = tiny_model(name, torch.float64), sources([4, 1, 5, 2], seed)
    sampler = data.draw(st.sampled_from([GreedySampler(), RandomSampler(seed, width=2), BeamSampler(3)]))
    indices = torch.tensor([70, 71, 72, 73])
    batched = decode(model, source, sampler, Limits(MAX_LENGTH), indices=indices)
    order = data.draw(st.permutations(range(4)))
    for rows in (order[:1], order[1:]):
        separate = decode(model, select_rows(source, rows), sampler, Limits(MAX_LENGTH), indices=indices[rows])
        for row, outputs in zip(rows, separate, strict=True):
            assert [output.tokens for output in outputs] == [output.tokens for output in batched[row]]


@every_family
def test_the_same_seed_gives_the_same_sample_and_another_seed_another(name):
    model, source = tiny_model(name), sources([4, 1, 5, 2])

    def sample(seed: int) -> list[tuple[int, ...]]:
        return [row[0].tokens for row in decode(model, source, RandomSampler(seed), Limits(MAX_LENGTH))]

    assert sample(1) == sample(1) != sample(2)
