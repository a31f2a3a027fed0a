"""Rows that are done are dropped, and this does not change the results."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2see.core.batch import Sequences
from seq2see.decoding import engine
from seq2see.decoding.beam import BeamSampler, stop_when_full
from seq2see.decoding.engine import Limits, decode, stream
from seq2see.decoding.length_penalties import GNMT, Average
from seq2see.decoding.logits_processors import MinNewTokens, NoRepeatNGram
from seq2see.decoding.samplers import GreedySampler, RandomSampler
from tiny_models import few_examples
from toy_decoders import EOS, HistoryModel, random_source, select_rows

SAMPLERS = [
    GreedySampler(),
    RandomSampler(3, width=3),
    BeamSampler(3),
    BeamSampler(2, GNMT(), stop_when_full),
    BeamSampler(4, Average(), num_return_sequences=1),
]


class Countdown:
    """Generates the token 5 once for each token of its source, then <eos>; its state is the remaining count."""

    def __init__(self):
        self.stepped = []

    def start(self, source, rows, max_length):
        return source.lengths.clone()

    def step(self, tokens, remaining):
        self.stepped.append(remaining.tolist())
        eos_logits = torch.where(remaining > 0, -30.0, 30.0)
        logits = torch.zeros(tokens.size(0), 1, 6)
        logits[:, 0, EOS], logits[:, 0, 5] = eos_logits, 20.0
        return logits, remaining - 1


def lengths_of(answers):
    return [len(row[0].tokens) for row in answers]


def test_by_hand_rows_are_dropped_when_a_quarter_of_them_is_done():
    model, lengths = Countdown(), [5, 1, 3, 1, 2]
    answers = decode(model, Sequences.of([[3] * length for length in lengths]), GreedySampler(), Limits(9))
    assert lengths_of(answers) == lengths
    assert model.stepped == [[5, 1, 3, 1, 2], [4, 0, 2, 0, 1], [3, 1, 0], [2, 0], [1], [0]]


def test_by_hand_rows_are_not_dropped_when_few_of_them_are_done():
    model, lengths = Countdown(), [4, 4, 1, 4, 4]
    answers = decode(model, Sequences.of([[3] * length for length in lengths]), GreedySampler(), Limits(9))
    assert lengths_of(answers) == lengths
    assert [len(rows) for rows in model.stepped] == [5, 5, 5, 5, 5]


def test_by_hand_beam_search_drops_whole_inputs():
    model, lengths = Countdown(), [3, 1, 2]
    answers = decode(
        model,
        Sequences.of([[3] * length for length in lengths]),
        BeamSampler(2, stopping_rule=stop_when_full),
        Limits(9),
    )
    assert [max(len(answer.tokens) for answer in row) for row in answers] == [4, 2, 3]
    assert [len(rows) for rows in model.stepped] == [3, 6, 6, 4, 2]
    assert set(model.stepped[-1]) == {-1}


@few_examples(3)
@given(
    seed=st.integers(0, 999),
    sampler=st.sampled_from(SAMPLERS),
    rows=st.integers(1, 9),
    forced=st.booleans(),
)
def test_dropping_rows_does_not_change_hypotheses_and_steps(seed, sampler, rows, forced):
    model, source = HistoryModel(seed, scale=3.0), random_source(rows, seed)
    prefix = Sequences.of([[3, 4, 5, 3][: (row * 7) % 4] for row in range(rows)]) if forced else None
    logits_processors = [NoRepeatNGram(2), MinNewTokens(1)]

    def run(ratio):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(engine, "DROP_DONE_RATIO", ratio)
            return read(
                stream(model, source, sampler, Limits(7), logits_processors, prefix, torch.arange(40, 40 + rows))
            )

    steps, answers = run(0)  # with 0 rows are never dropped
    for ratio in (4, 10**6):
        other_steps, other_answers = run(ratio)
        assert [step.tokens.tolist() for step in other_steps] == [step.tokens.tolist() for step in steps]
        assert [parents_of(step) for step in other_steps] == [parents_of(step) for step in steps]
        assert [[each.tokens for each in row] for row in other_answers] == [
            [each.tokens for each in row] for row in answers
        ]
        for actual, expected in zip(other_steps, steps, strict=True):
            torch.testing.assert_close(actual.log_probabilities, expected.log_probabilities)
        for actual, expected in zip(other_answers, answers, strict=True):
            assert [each.score for each in actual] == pytest.approx([each.score for each in expected], abs=1e-6)


def read(run):
    steps = []
    while True:
        try:
            steps.append(next(run))
        except StopIteration as end:
            return steps, end.value


def parents_of(step):
    return None if step.parents is None else step.parents.tolist()


def test_samples_do_not_change_when_other_samples_of_the_input_have_ended():
    model, source = HistoryModel(4), random_source(3)
    many = decode(model, source, RandomSampler(8, width=5), Limits(9))
    for row in range(3):
        alone = decode(
            model, select_rows(source, [row]), RandomSampler(8, width=5), Limits(9), indices=torch.tensor([row])
        )
        assert {answer.tokens for answer in alone[0]} == {answer.tokens for answer in many[row]}


def test_a_row_keeps_its_own_prefix_when_rows_before_it_are_dropped():
    prefixes = Sequences.of([[3], [5], [4, 4, 5, 3]])
    for sampler in (GreedySampler(), BeamSampler(2)):
        answers = decode(HistoryModel(2), random_source(3), sampler, Limits(1), (), prefixes)
        assert [row[0].tokens[:4] for row in answers][2] == (4, 4, 5, 3)
