"""The decoding loop: rows alone and in batches, forced prefixes, limits, streaming, stopping."""

from itertools import chain

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2see.core.batch import Sequences
from seq2see.core.errors import UserError
from seq2see.decoding.beam import BeamSampler
from seq2see.decoding.engine import DecodingLoop, Limits, decode, stream
from seq2see.decoding.greedy import decode_greedily
from seq2see.decoding.samplers import Average, GreedySampler, MinNewTokens, NoRepeatNGram, RandomSampler
from tiny_models import few_examples, tiny_model
from tiny_models import sources as tiny_sources
from toy_decoders import (
    BOS,
    EOS,
    Forbid,
    HistoryModel,
    TableModel,
    next_log_probabilities,
    random_source,
    rescore,
    select_rows,
)

SAMPLERS = [GreedySampler(), RandomSampler(3, width=2), BeamSampler(3), BeamSampler(4, Average())]
every_sampler = pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: type(sampler).__name__)
LIMITS = Limits(max_new_tokens=5)
PREFIXES = Sequences.of([[3, 4, 5, 3], [], [5], [4, 4], [3, 3, 3], [4], [5, 3]])


def assert_same(left, right):
    assert [[answer.tokens for answer in row] for row in left] == [[answer.tokens for answer in row] for row in right]
    for actual, expected in zip(chain(*left), chain(*right), strict=True):
        assert actual.finished == expected.finished
        assert actual.score == pytest.approx(expected.score, abs=1e-5)
        assert actual.token_log_probabilities == pytest.approx(expected.token_log_probabilities, abs=1e-5)


@few_examples(3)
@given(
    seed=st.integers(0, 999),
    sampler=st.sampled_from(SAMPLERS),
    order=st.permutations(range(7)),
    forced=st.booleans(),
)
def test_rows_alone_together_and_in_another_order_give_the_same(seed, sampler, order, forced):
    model, source, indices = HistoryModel(seed), random_source(7, seed), torch.arange(50, 57)
    prefix = PREFIXES if forced else None
    logits_processors = [NoRepeatNGram(2), MinNewTokens(2)]
    together = decode(model, source, sampler, LIMITS, logits_processors, prefix, indices)

    def of(rows):
        return decode(
            model,
            select_rows(source, rows),
            sampler,
            LIMITS,
            logits_processors,
            select_rows(prefix, rows),
            indices[rows],
        )

    assert_same(of(order), [together[row] for row in order])
    assert_same(of([order[0]]), [together[order[0]]])
    assert_same(of(order[:3]), [together[row] for row in order[:3]])


@every_sampler
@pytest.mark.parametrize("model", [TableModel(3), HistoryModel(3)], ids=lambda model: type(model).__name__)
def test_hypotheses_begin_with_their_prefix_and_count_its_log_probabilities(model, sampler):
    source = None if isinstance(model, TableModel) else random_source(7)
    for row, answers in enumerate(decode(model, source, sampler, LIMITS, (), PREFIXES)):
        length = int(PREFIXES.lengths[row])
        assert answers
        for answer in answers:
            assert answer.tokens[:length] == tuple(PREFIXES.values[row, :length].tolist())
            assert len(answer.tokens) + answer.finished <= length + 5
            assert answer.finished or len(answer.tokens) == length + 5
            scores = rescore(model, select_rows(source, [row]), answer.tokens + (EOS,) * answer.finished)
            assert answer.token_log_probabilities == pytest.approx(scores, abs=1e-5)


def test_logits_processors_do_not_apply_to_a_prefix():
    answers = decode(TableModel(3), None, BeamSampler(2), LIMITS, [Forbid((4,)), NoRepeatNGram(1)], PREFIXES)
    assert all(answer.tokens[:2] == (4, 4) for answer in answers[3])
    assert all(answer.tokens[:3] == (3, 3, 3) for answer in answers[4])
    assert all(4 not in answer.tokens for answer in answers[1])


@every_sampler
def test_a_prefix_of_probability_zero_is_forced_too(sampler):
    model = TableModel(3)
    model.table[:, :, 4] = -torch.inf
    prefix = Sequences.of([[4, 3], [3, 4, 5], [5]])
    answers = decode(model, None, sampler, LIMITS, (), prefix)
    assert [row[0].tokens[:2] for row in answers[:2]] == [(4, 3), (3, 4)]
    assert [row[0].log_probability < -9999 for row in answers] == [True, True, False]


def test_prefixes_are_read_in_one_step_up_to_the_shortest():
    inputs = []

    class RecordingModel(TableModel):
        def step(self, tokens, state):
            inputs.append(tokens.tolist())
            return super().step(tokens, state)

    decode(RecordingModel(1), None, GreedySampler(), Limits(1), (), Sequences.of([[3, 4], [5, 3, 4]]))
    assert inputs[0] == [[BOS, 3, 4], [BOS, 5, 3]]
    ((_, forced),) = inputs[1:]
    assert forced == [4]


def test_greedy_selects_the_most_probable_token_at_every_step():
    model, source = HistoryModel(6), random_source(5)
    for row, (answer,) in enumerate(decode(model, source, GreedySampler(), LIMITS)):
        tokens = answer.tokens + (EOS,) * answer.finished
        for time, token in enumerate(tokens):
            scores = next_log_probabilities(model, select_rows(source, [row]), tokens[:time])
            assert max(range(2, 6), key=scores.__getitem__) == token


@every_sampler
def test_pad_and_bos_are_never_generated(sampler):
    model = TableModel(2)
    model.table[:, :, :2] += 9.0
    answers = decode(model, None, sampler, LIMITS, (), Sequences.of([[], []]))
    assert all(set(answer.tokens) <= {3, 4, 5} for row in answers for answer in row)


@every_sampler
def test_logits_processors_apply_to_every_hypothesis(sampler):
    model, source = HistoryModel(5), random_source(6)
    model.readout[:, EOS] += 1.0
    for answers in decode(model, source, sampler, Limits(7), [MinNewTokens(3), NoRepeatNGram(2)]):
        for answer in answers:
            pairs = list(zip(answer.tokens, answer.tokens[1:], strict=False))
            assert len(answer.tokens) >= 3
            assert len(set(pairs)) == len(pairs)


def test_min_new_tokens_counts_from_the_end_of_each_prefix():
    model = TableModel(1)
    model.table[:, :, EOS] += 20.0  # ends as soon as possible
    answers = decode(model, None, GreedySampler(), LIMITS, [MinNewTokens(2)], PREFIXES)
    assert [len(row[0].tokens) for row in answers] == [length + 2 for length in PREFIXES.lengths.tolist()]


def test_among_equally_probable_tokens_the_lowest_id_is_selected():
    model = TableModel(0, scale=0.0)
    empty = Sequences.of([[]])
    logits_processors = [Forbid((EOS,))]
    assert decode(model, None, GreedySampler(), Limits(3), logits_processors, empty)[0][0].tokens == (3, 3, 3)
    beams = decode(model, None, BeamSampler(4), Limits(2), logits_processors, empty)[0]
    assert [beam.tokens for beam in beams] == [(3, 3), (3, 4), (3, 5), (4, 3)]


@every_sampler
def test_a_stream_yields_every_step_and_returns_the_hypotheses(sampler):
    model, source = HistoryModel(3), random_source(4)
    run, steps = stream(model, source, sampler, LIMITS), []
    while True:
        try:
            steps.append(next(run))
            assert not torch.is_inference_mode_enabled()  # the code of the caller is not affected
        except StopIteration as end:
            answers = end.value
            break
    assert_same(answers, decode(model, source, sampler, LIMITS))
    if isinstance(sampler, GreedySampler):
        streamed = torch.stack([step.tokens for step in steps], dim=1).tolist()
        expected = [list(row[0].tokens) + [EOS] * row[0].finished for row in answers]
        assert streamed == [row + [0] * (len(steps) - len(row)) for row in expected]
        assert len(steps) == max(map(len, expected))


def test_the_stream_of_a_beam_search_yields_the_parent_of_each_row():
    model, source = HistoryModel(3), random_source(4)
    histories = [()] * 12
    for step in stream(model, source, BeamSampler(3), LIMITS, [Forbid((EOS,))]):
        continuations = zip(step.parents.tolist(), step.tokens.tolist(), strict=True)
        histories = [(*histories[parent], token) for parent, token in continuations]
    answers = decode(model, source, BeamSampler(3), LIMITS, [Forbid((EOS,))])
    assert [answer.tokens for row in answers for answer in row] == histories


@every_sampler
def test_rows_that_are_done_get_pad_while_others_continue(sampler):
    model = TableModel(1)
    model.table[:, :, EOS] = -torch.inf  # no token is followed by <eos> ...
    model.table[:, 3] = -torch.inf  # ... except 3, which always is
    model.table[:, 3, EOS] = 0.0
    *_, last = stream(model, None, sampler, Limits(6), [Forbid((3,))], Sequences.of([[3], [4]]))
    tokens, log_probabilities = last.tokens.tolist(), last.log_probabilities.tolist()
    assert tokens[: sampler.width] == [0] * sampler.width
    assert log_probabilities[: sampler.width] == [0.0] * sampler.width
    assert 0 not in tokens[sampler.width :]


@every_sampler
def test_a_stop_by_the_caller_returns_the_current_hypotheses(sampler):
    calls = []

    def after_two_steps():
        calls.append(True)
        return len(calls) == 2

    limits = Limits(50, after_two_steps)
    answers = decode(HistoryModel(3), random_source(4), sampler, limits, [Forbid((EOS,))])
    assert len(calls) == 2
    assert all(len(answer.tokens) == 2 and not answer.finished for row in answers for answer in row)
    assert all(len(row) == sampler.width for row in answers)


def test_the_model_runs_in_inference_mode():
    modes = []

    class RecordingModel(TableModel):
        def step(self, tokens, state):
            modes.append(torch.is_inference_mode_enabled())
            return super().step(tokens, state)

    decode(RecordingModel(1), None, GreedySampler(), LIMITS, (), PREFIXES)
    assert len(modes) > 1
    assert all(modes)


def test_an_empty_batch_has_no_hypotheses():
    assert decode(HistoryModel(3), Sequences.of([]), GreedySampler(), LIMITS) == []


def test_a_prefix_with_special_tokens_is_an_error():
    with pytest.raises(UserError, match="<eos>"):
        decode(TableModel(), None, GreedySampler(), LIMITS, (), Sequences.of([[3, EOS]]))


def test_the_number_of_rows_follows_from_source_or_prefix():
    with pytest.raises(ValueError, match="prefix"):
        decode(TableModel(), None, GreedySampler(), LIMITS)
    with pytest.raises(ValueError, match="number of prefixes"):
        decode(HistoryModel(), random_source(3), GreedySampler(), LIMITS, (), Sequences.of([[3]]))


def test_half_precision_logits_are_normalized_in_float32():
    model = TableModel(3)
    model.table = model.table.bfloat16()
    answer = decode(model, None, GreedySampler(), LIMITS, (), Sequences.of([[]]))[0][0]
    model.table = model.table.double()
    scores = rescore(model, None, answer.tokens + (EOS,) * answer.finished)
    assert answer.token_log_probabilities == pytest.approx(scores, abs=1e-5)


def test_a_model_may_bring_its_own_loop():
    class CountingLoop(DecodingLoop):
        steps = 0

        def next(self, search, step, state):
            CountingLoop.steps += 1
            return super().next(search, step, state)

    model, endless = HistoryModel(3), [Forbid((EOS,))]
    model.decoding_loop = CountingLoop
    for run in (decode, lambda *arguments: list(stream(*arguments))):
        CountingLoop.steps = 0
        run(model, random_source(4), GreedySampler(), LIMITS, endless)
        assert CountingLoop.steps == 4


def test_greedy_decoding_equals_its_definition():
    lengths = set()
    for seed in range(8):
        model, source = HistoryModel(seed), random_source(7, seed)
        outputs = decode(model, source, GreedySampler(), LIMITS)
        tokens = [[*answer.tokens, *[EOS] * answer.finished] for (answer,) in outputs]
        assert decode_greedily(model, source, LIMITS.max_new_tokens) == tokens
        lengths |= set(map(len, tokens))
    assert lengths > {LIMITS.max_new_tokens}  # some end, and some are cut


@pytest.mark.parametrize("name", ["transformer, pre-norm", "recurrent, additive"])
def test_greedy_decoding_of_a_trained_family_equals_its_definition(name):
    model, sources = tiny_model(name), tiny_sources([4, 2, 5, 6], seed=3)
    expected = decode(model, sources, GreedySampler(), Limits(12))
    assert decode_greedily(model, sources, 12) == [[*row[0].tokens, *[EOS] * row[0].finished] for row in expected]
