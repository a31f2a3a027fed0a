"""A watched search is the search itself, and its tree holds what it looked at."""

import pytest
import torch

from seq2see.core.batch import Sequences
from seq2see.decoding.beam import BeamSampler, stop_when_full
from seq2see.decoding.engine import Limits, decode
from seq2see.decoding.length_penalties import GNMT, Average
from seq2see.decoding.logits_processors import NoRepeatNGram, RepetitionPenalty
from seq2see.decoding.samplers import GreedySampler, RandomSampler
from seq2see.decoding.search_tree import ROOT, trace_search
from toy_decoders import EOS, HistoryModel, random_source

SAMPLERS = [
    GreedySampler(), GreedySampler(Average()), RandomSampler(7), RandomSampler(3, temperature=2.5, top_k=3), BeamSampler(2), BeamSampler(3, GNMT(alpha=0.6)),
    BeamSampler(4, Average(alpha=-0.5), stop_when_full), BeamSampler(8, Average()),
]  # fmt: skip


@pytest.mark.parametrize("forced", [(), (4, 3)], ids=["free", "forced"])
@pytest.mark.parametrize("chooser", SAMPLERS, ids=lambda it: f"{type(it).__name__} {SAMPLERS.index(it)}")
def test_watching_changes_nothing_and_the_path_of_the_winner_adds_up(sampler, forced):
    for seed in range(4):
        model, source, prefix = HistoryModel(seed), random_source(1, seed), Sequences.of([list(forced)])
        tree = trace_search(model, source, sampler, Limits(6), [NoRepeatNGram(3)], prefix)
        (expected,) = decode(model, source, sampler, Limits(6), [NoRepeatNGram(3)], prefix)
        assert tree.answers == expected
        winner = expected[0]
        path = [tree.nodes[number] for number in tree.path(winner, len(forced))]
        assert [branch.token for branch in path] == [*winner.tokens[len(forced) :], *[EOS] * winner.finished]
        assert path[-1].total == pytest.approx(winner.log_probability, abs=1e-5)
        assert path[-1].score == pytest.approx(winner.score, abs=1e-5)
        known = winner.token_log_probabilities[len(forced) :]
        assert [branch.log_probability for branch in path] == pytest.approx(list(known), abs=1e-6)


@pytest.mark.parametrize("width", [2, 3])
def test_of_each_turn_of_a_beam_the_best_are_followed_and_the_others_left(width):
    tree = trace_search(HistoryModel(5), random_source(1, 5), BeamSampler(width), Limits(5))
    for time in range(1 + tree.nodes[-1].time):
        turn = [branch for branch in tree.nodes if branch.time == time]
        taken = [branch.total for branch in turn if branch.outcome == "expanded"]
        left = [branch.total for branch in turn if branch.outcome == "pruned" and branch.token != EOS]
        assert len(taken) == width or time == 0
        assert len(turn) == 2 * width or time == 0
        assert max(left, default=-torch.inf) <= min(taken)
        # Only what was followed has continuations.
        assert all(branch.parent == ROOT or tree.nodes[branch.parent].outcome == "expanded" for branch in turn)
    assert all(branch.token == EOS for branch in tree.nodes if branch.outcome == "finished")


def test_what_ends_among_the_best_of_a_beam_is_set_aside_and_other_ends_are_left():
    ranks = set()
    for seed in range(30):
        tree = trace_search(HistoryModel(seed), random_source(1, seed), BeamSampler(2), Limits(4))
        for time in range(1 + tree.nodes[-1].time):
            turn = sorted((each for each in tree.nodes if each.time == time), key=lambda each: -each.total)
            ends = {rank: branch.outcome for rank, branch in enumerate(turn) if branch.token == EOS}
            assert ends == {rank: "finished" if rank < 2 else "pruned" for rank in ends}
            ranks |= ends.keys()
    assert ranks >= {0, 1, 2, 3}


def test_a_row_that_walks_alone_tells_what_else_was_likely_and_what_it_drew():
    likeliest = set()
    for drawn in range(4):
        tree = trace_search(HistoryModel(2), random_source(1, 2), RandomSampler(drawn, temperature=3.0), Limits(4))
        for time in range(1 + tree.nodes[-1].time):
            turn = [branch for branch in tree.nodes if branch.time == time]
            assert len([branch for branch in turn if branch.outcome != "pruned"]) == 1
            assert {branch.token for branch in turn} == {EOS, 3, 4, 5}  # all there are; PAD and BOS are never said
            likeliest.add((turn[0].token == EOS, turn[0].outcome))
    assert (True, "pruned") in likeliest  # an end that was not drawn is none


def test_discouraging_counts_the_log_probability_of_what_was_said_so_many_times():
    model, source = HistoryModel(2), random_source(1, 2)
    plain = trace_search(model, source, GreedySampler(), Limits(1), [], Sequences.of([[3, 3]]))
    less = trace_search(model, source, GreedySampler(), Limits(1), [RepetitionPenalty(1.5)], Sequences.of([[3, 3]]))
    before, after = ({branch.token: branch.log_probability for branch in tree.nodes} for tree in (plain, less))
    expected = {token: score * (1.5 if token == 3 else 1) for token, score in before.items()}
    total = torch.tensor(list(expected.values())).logsumexp(0).item()
    assert after == pytest.approx({token: score - total for token, score in expected.items()}, abs=1e-5)
