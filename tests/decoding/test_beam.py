"""Beam search against brute force, greedy decoding, and the scores of the model."""

import pytest
import torch

from seq2see.core.batch import Sequences
from seq2see.decoding.beam import BeamSampler, stop_when_full, stop_when_unbeatable
from seq2see.decoding.engine import Limits, decode
from seq2see.decoding.samplers import GNMT, Average, GreedySampler, NoPenalty, NoRepeatNGram
from toy_decoders import EOS, HistoryModel, TableModel, best_outputs, random_source, rescore, select_rows

PENALTIES = [NoPenalty(), Average(alpha=1.0), Average(alpha=0.4), Average(alpha=-0.5), GNMT(alpha=0.6)]
STOPPING_RULES = [stop_when_unbeatable, stop_when_full]


class StepCounter:
    """A model that counts its steps."""

    def __init__(self, model):
        self.model, self.steps, self.start = model, 0, model.start

    def step(self, tokens, state):
        self.steps += 1
        return self.model.step(tokens, state)


def one_by_one(model, source, row):
    return model, None if isinstance(model, TableModel) else select_rows(source, [row])


def score_of(length_penalty):
    return lambda total, length: length_penalty(torch.tensor(total, dtype=torch.float64), length).item()


@pytest.mark.parametrize("length_penalty", PENALTIES, ids=repr)
@pytest.mark.parametrize("model", [TableModel(1), HistoryModel(2)], ids=lambda model: type(model).__name__)
def test_a_beam_wide_enough_is_brute_force(model, length_penalty):
    source, max_length = random_source(2), 4
    results = decode(model, source, BeamSampler(4**max_length, length_penalty), Limits(max_length))
    for row, answers in enumerate(results):
        expected = best_outputs(*one_by_one(model, source, row), max_length, score_of(length_penalty))
        assert len(answers) == len(expected) == 121  # 1 + 3 + 9 + 27 finished, 81 unfinished
        assert {answer.tokens for answer in answers} == {tokens for _, tokens, _ in expected}
        for answer, (score, tokens, finished) in zip(answers[:9], expected[:9], strict=True):
            assert answer.score == pytest.approx(score, abs=1e-5)
            assert (answer.tokens, answer.finished) == (tokens, finished)


@pytest.mark.parametrize("seed", range(3))
def test_a_beam_as_wide_as_all_prefixes_finds_the_best(seed):
    """Outputs of four tokens have 27 prefixes of three."""
    model, source, max_length = HistoryModel(seed), random_source(3, seed), 4
    for length_penalty in PENALTIES:
        for row, answers in enumerate(decode(model, source, BeamSampler(27, length_penalty), Limits(max_length))):
            best = best_outputs(model, select_rows(source, [row]), max_length, score_of(length_penalty))[0]
            assert answers[0].tokens == best[1]
            assert answers[0].score == pytest.approx(best[0], abs=1e-5)


def never(worst_score, best_attainable_score):
    return torch.zeros_like(worst_score, dtype=torch.bool)


@pytest.mark.parametrize("length_penalty", PENALTIES, ids=repr)
def test_stopping_when_unbeatable_does_not_change_the_result_and_saves_steps(length_penalty):
    steps = {stop_when_unbeatable: 0, never: 0}
    for seed in range(8):
        results = {}
        for stopping_rule in steps:
            model = StepCounter(HistoryModel(seed, scale=4.0))
            results[stopping_rule] = decode(
                model, random_source(1, seed), BeamSampler(2, length_penalty, stopping_rule), Limits(8)
            )
            steps[stopping_rule] += model.steps
        assert results[stop_when_unbeatable] == results[never]
    assert steps[stop_when_unbeatable] < steps[never] == 8 * 8


@pytest.mark.parametrize("length_penalty", PENALTIES, ids=repr)
def test_a_beam_of_one_is_greedy(length_penalty):
    for seed in range(6):
        model, source = HistoryModel(seed), random_source(7, seed)
        greedy = decode(model, source, GreedySampler(length_penalty), Limits(5))
        for stopping_rule in STOPPING_RULES if length_penalty == NoPenalty() else [stop_when_full]:
            beam = decode(model, source, BeamSampler(1, length_penalty, stopping_rule), Limits(5))
            for (actual,), (expected,) in zip(beam, greedy, strict=True):
                assert (actual.tokens, actual.finished) == (expected.tokens, expected.finished)
                assert actual.score == pytest.approx(expected.score, rel=1e-6)


def results_of_all_kinds(widths):
    for seed in range(2):
        model, source = HistoryModel(seed), random_source(5, seed)
        for width in widths:
            for length_penalty in PENALTIES:
                for stopping_rule in STOPPING_RULES:
                    yield (
                        model,
                        source,
                        width,
                        length_penalty,
                        decode(model, source, BeamSampler(width, length_penalty, stopping_rule), Limits(6)),
                    )


def test_scores_equal_the_log_probabilities_of_the_model():
    for model, source, _, length_penalty, results in results_of_all_kinds([3]):
        for row, answers in enumerate(results):
            for answer in answers:
                scores = rescore(model, select_rows(source, [row]), answer.tokens + (EOS,) * answer.finished)
                assert answer.token_log_probabilities == pytest.approx(scores, abs=1e-5)
                assert answer.log_probability == pytest.approx(sum(scores), abs=1e-5)
                assert answer.score == pytest.approx(score_of(length_penalty)(sum(scores), len(scores)), abs=1e-5)


def test_hypotheses_are_sorted_distinct_and_valid():
    unfinished = 0
    for _, _, width, _, results in results_of_all_kinds([2, 5]):
        for answers in results:
            scores = [answer.score for answer in answers]
            assert len(answers) == width
            assert scores == sorted(scores, reverse=True)
            assert len({(answer.tokens, answer.finished) for answer in answers}) == len(answers)
            for answer in answers:
                assert set(answer.tokens) <= {3, 4, 5}
                assert len(answer.tokens) + answer.finished <= 6
                assert answer.finished or len(answer.tokens) == 6
                unfinished += not answer.finished
    assert unfinished > 0


class Tree:
    """A model with given probabilities of the next token for each sequence of past tokens."""

    def __init__(self, tree):
        self.tree = tree

    def start(self, source, rows, max_length):
        return torch.zeros(rows, 0, dtype=torch.long)

    def step(self, tokens, past):
        past = torch.cat([past, tokens], dim=1)
        rows = [self.tree.get(tuple(row[1:]), {EOS: 1.0}) for row in past.tolist()]
        table = torch.tensor([[row.get(token, 0.0) for token in range(5)] for row in rows])
        return table.log()[:, None], past


GARDEN_PATH = Tree({(): {3: 0.6, 4: 0.4}, (3,): {EOS: 0.3, 3: 0.35, 4: 0.35}, (4,): {EOS: 0.9, 3: 0.1}})
ONE = Sequences.of([[3]])


def test_by_hand_two_beams_avoid_the_garden_path_that_greedy_follows():
    (greedy,) = decode(GARDEN_PATH, ONE, GreedySampler(), Limits(3))[0]
    first, second = decode(GARDEN_PATH, ONE, BeamSampler(2), Limits(3))[0]
    assert greedy.tokens == (3, 3)
    assert first.tokens == (4,)  # 0.4 x 0.9 = 0.36
    assert second.tokens == (3, 3)  # 0.6 x 0.35 = 0.21, a tie with (3, 4): the lower id wins
    assert first.score == pytest.approx(torch.tensor(0.36).log().item())
    assert second.score == pytest.approx(torch.tensor(0.21).log().item())


def test_impossible_continuations_are_not_returned():
    assert len(decode(GARDEN_PATH, ONE, BeamSampler(30), Limits(3))[0]) == 5


def test_no_more_hypotheses_are_returned_than_requested():
    assert len(decode(GARDEN_PATH, ONE, BeamSampler(4, num_return_sequences=2), Limits(3))[0]) == 2


LATE = Tree({(): {EOS: 0.5, 3: 0.5}, (3,): {3: 1.0}, (3, 3): {3: 1.0}, (3, 3, 3): {EOS: 1.0}})


def test_by_hand_the_stopping_rules_differ_where_a_long_hypothesis_wins():
    """Mean log-probability: log(0.5) / 1 for the empty output, log(0.5) / 4 for the long one."""
    unbeatable = decode(LATE, ONE, BeamSampler(1, Average(), stop_when_unbeatable), Limits(6))[0][0]
    full = decode(LATE, ONE, BeamSampler(1, Average(), stop_when_full), Limits(6))[0][0]
    assert unbeatable.tokens == (3, 3, 3)
    assert unbeatable.score == pytest.approx(torch.tensor(0.5).log().item() / 4)
    assert full.tokens == ()


def test_by_hand_the_search_stops_as_soon_as_nothing_can_win():
    """After <eos> at 0.36 no live hypothesis has more than 0.21, but two outputs are required: one more step."""
    model = StepCounter(GARDEN_PATH)
    decode(model, ONE, BeamSampler(2), Limits(50))
    assert model.steps == 3
    model = StepCounter(LATE)
    decode(model, ONE, BeamSampler(1, Average(), stop_when_unbeatable), Limits(50))
    assert model.steps == 4  # then the beam is empty


def test_by_hand_the_search_does_not_continue_for_a_tie():
    model = StepCounter(LATE)
    answers = decode(model, ONE, BeamSampler(1), Limits(50))[0]
    assert [answer.tokens for answer in answers] == [()]
    assert model.steps == 1


def test_by_hand_a_search_without_live_hypotheses_stops():
    for stopping_rule in STOPPING_RULES:
        model = StepCounter(GARDEN_PATH)
        assert len(decode(model, ONE, BeamSampler(30, stopping_rule=stopping_rule), Limits(50))[0]) == 5
        assert model.steps == 3


def test_by_hand_with_a_penalty_on_length_the_best_attainable_score_is_that_of_the_next_step():
    """The worst stored score is log(0.18) x sqrt(2) = -2.4; the next step reaches log(0.42) x sqrt(3) = -1.5."""
    model = Tree({(): {EOS: 0.4, 3: 0.6}, (3,): {EOS: 0.3, 3: 0.7}})
    answers = decode(model, ONE, BeamSampler(2, Average(alpha=-0.5)), Limits(50))[0]
    assert [answer.tokens for answer in answers] == [(), (3, 3)]


def test_by_hand_the_search_stops_if_the_next_token_can_only_lower_the_score():
    """The stored score is log(0.4) = -0.92; the live one is log(0.6) = -0.51 now, and twice that if it ends next."""
    model = StepCounter(Tree({(): {EOS: 0.4, 3: 0.6}}))
    assert [
        answer.tokens
        for answer in decode(model, ONE, BeamSampler(2, Average(alpha=-1), num_return_sequences=1), Limits(50))[0]
    ] == [()]
    assert model.steps == 1


def test_the_stopping_rules():
    worst_score, best_attainable_score = (
        torch.tensor([-2.0, -torch.inf, -torch.inf, -2.0]),
        torch.tensor([-1.0, -1.0, -torch.inf, -2.0]),
    )
    assert stop_when_unbeatable(worst_score, best_attainable_score).tolist() == [False, False, True, True]
    assert stop_when_full(worst_score, best_attainable_score).tolist() == [True, False, True, True]


def test_rows_without_an_allowed_token_end():
    """No word may occur twice and none is allowed: the output ends."""
    model = Tree({(): {3: 1.0}, (3,): {3: 1.0}})
    for sampler in (GreedySampler(), BeamSampler(2)):
        answer = decode(model, ONE, sampler, Limits(9), [NoRepeatNGram(1)])[0][0]
        assert answer.tokens == (3,)
        assert answer.finished
        assert answer.log_probability == -1e4


def test_by_hand_one_finished_hypothesis_is_enough_when_one_is_requested():
    """After two steps (4,) is finished at 0.36 and no live hypothesis has more than 0.21."""
    steps = {}
    for answers in (1, 2, None):
        model = StepCounter(GARDEN_PATH)
        best = decode(model, ONE, BeamSampler(2, num_return_sequences=answers), Limits(50))[0][0]
        steps[answers] = model.steps
        assert best.tokens == (4,)
    assert steps == {1: 2, 2: 3, None: 3}


def test_by_hand_stopping_when_full_requires_all_hypotheses_even_if_one_is_requested():
    model = StepCounter(Tree({(): {EOS: 0.6, 3: 0.4}, (3,): {3: 1.0}, (3, 3): {EOS: 1.0}}))
    decode(model, ONE, BeamSampler(2, NoPenalty(), stop_when_full, num_return_sequences=1), Limits(50))
    assert model.steps == 3
    model.steps = 0
    decode(model, ONE, BeamSampler(2, NoPenalty(), stop_when_unbeatable, num_return_sequences=1), Limits(50))
    assert model.steps == 1


@pytest.mark.parametrize("length_penalty", PENALTIES, ids=repr)
def test_stopping_for_fewer_hypotheses_does_not_change_them(length_penalty):
    steps = {stop_when_unbeatable: 0, never: 0}
    for seed in range(8):
        for answers in (1, 2):
            results = {}
            for stopping_rule in steps:
                model = StepCounter(HistoryModel(seed, scale=4.0))
                results[stopping_rule] = decode(
                    model, random_source(1, seed), BeamSampler(4, length_penalty, stopping_rule, answers), Limits(8)
                )
                steps[stopping_rule] += model.steps
            assert results[stop_when_unbeatable] == results[never]
    assert steps[stop_when_unbeatable] < steps[never]
