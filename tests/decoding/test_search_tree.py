"""A traced search has the results of the search, and its tree contains the candidates."""

import pytest
import torch

from seq2see.core.batch import Sequences
from seq2see.decoding.beam import BeamSampler, stop_when_full
from seq2see.decoding.engine import Limits, decode
from seq2see.decoding.samplers import GNMT, Average, GreedySampler, NoRepeatNGram, RandomSampler, RepetitionPenalty
from seq2see.decoding.search_tree import ROOT, trace_search
from toy_decoders import EOS, HistoryModel, random_source

SAMPLERS = [
    GreedySampler(), GreedySampler(Average()), RandomSampler(7), RandomSampler(3, temperature=2.5, top_k=3),
    BeamSampler(2), BeamSampler(3, GNMT(alpha=0.6)), BeamSampler(4, Average(alpha=-0.5), stop_when_full),
    BeamSampler(8, Average()),
]  # fmt: skip


@pytest.mark.parametrize("forced", [(), (4, 3)], ids=["free", "forced"])
@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: f"{type(sampler).__name__} {SAMPLERS.index(sampler)}")
def test_tracing_does_not_change_the_result_and_the_path_of_the_best_sums_to_its_score(sampler, forced):
    for seed in range(4):
        model, source, prefix = HistoryModel(seed), random_source(1, seed), Sequences.of([list(forced)])
        tree = trace_search(model, source, sampler, Limits(6), [NoRepeatNGram(3)], prefix)
        (expected,) = decode(model, source, sampler, Limits(6), [NoRepeatNGram(3)], prefix)
        assert tree.hypotheses == expected
        best = expected[0]
        path = [tree.nodes[number] for number in tree.path(best, len(forced))]
        assert [node.token for node in path] == [*best.tokens[len(forced) :], *[EOS] * best.finished]
        assert path[-1].total == pytest.approx(best.log_probability, abs=1e-5)
        assert path[-1].score == pytest.approx(best.score, abs=1e-5)
        scores = best.token_log_probabilities[len(forced) :]
        assert [node.log_probability for node in path] == pytest.approx(list(scores), abs=1e-6)


@pytest.mark.parametrize("width", [2, 3])
def test_at_each_step_of_a_beam_search_the_best_are_expanded_and_the_others_pruned(width):
    tree = trace_search(HistoryModel(5), random_source(1, 5), BeamSampler(width), Limits(5))
    for time in range(1 + tree.nodes[-1].time):
        step_nodes = [node for node in tree.nodes if node.time == time]
        expanded = [node.total for node in step_nodes if node.outcome == "expanded"]
        pruned = [node.total for node in step_nodes if node.outcome == "pruned" and node.token != EOS]
        assert len(expanded) == width or time == 0
        assert len(step_nodes) == 2 * width or time == 0
        assert max(pruned, default=-torch.inf) <= min(expanded)
        # Only expanded nodes have continuations.
        assert all(node.parent == ROOT or tree.nodes[node.parent].outcome == "expanded" for node in step_nodes)
    assert all(node.token == EOS for node in tree.nodes if node.outcome == "finished")


def test_eos_among_the_best_of_a_beam_is_finished_and_other_eos_are_pruned():
    ranks = set()
    for seed in range(30):
        tree = trace_search(HistoryModel(seed), random_source(1, seed), BeamSampler(2), Limits(4))
        for time in range(1 + tree.nodes[-1].time):
            step_nodes = sorted((each for each in tree.nodes if each.time == time), key=lambda each: -each.total)
            ends = {rank: node.outcome for rank, node in enumerate(step_nodes) if node.token == EOS}
            assert ends == {rank: "finished" if rank < 2 else "pruned" for rank in ends}
            ranks |= ends.keys()
    assert ranks >= {0, 1, 2, 3}


def test_the_tree_of_a_sample_contains_the_likely_tokens_and_the_drawn_one():
    best_nodes = set()
    for drawn in range(4):
        tree = trace_search(HistoryModel(2), random_source(1, 2), RandomSampler(drawn, temperature=3.0), Limits(4))
        for time in range(1 + tree.nodes[-1].time):
            step_nodes = [node for node in tree.nodes if node.time == time]
            assert len([node for node in step_nodes if node.outcome != "pruned"]) == 1
            assert {node.token for node in step_nodes} == {EOS, 3, 4, 5}  # all tokens except PAD and BOS
            best_nodes.add((step_nodes[0].token == EOS, step_nodes[0].outcome))
    assert (True, "pruned") in best_nodes  # an <eos> that was not drawn is pruned


def test_repetition_penalty_multiplies_log_probabilities_of_earlier_tokens():
    model, source = HistoryModel(2), random_source(1, 2)
    plain = trace_search(model, source, GreedySampler(), Limits(1), [], Sequences.of([[3, 3]]))
    less = trace_search(model, source, GreedySampler(), Limits(1), [RepetitionPenalty(1.5)], Sequences.of([[3, 3]]))
    before, after = ({node.token: node.log_probability for node in tree.nodes} for tree in (plain, less))
    expected = {token: score * (1.5 if token == 3 else 1) for token, score in before.items()}
    total = torch.tensor(list(expected.values())).logsumexp(0).item()
    assert after == pytest.approx({token: score - total for token, score in expected.items()}, abs=1e-5)
