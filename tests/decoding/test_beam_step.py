"""The C++ functions of beam search give the results of the PyTorch functions, to the last bit."""

from dataclasses import replace
from functools import cache

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2see.decoding import beam_hypotheses, beam_step, compiler
from seq2see.decoding.beam import BeamSampler, stop_when_full, stop_when_unbeatable
from seq2see.decoding.beam_hypotheses import BeamHypotheses, FinishedCandidates, native_add_finished, torch_add_finished
from seq2see.decoding.beam_step import LiveBeams, native_beam_step, torch_beam_step
from seq2see.decoding.compiler import NATIVE_VARIABLE, load_native_library, native_library_if_loaded
from seq2see.decoding.engine import Limits, decode
from seq2see.decoding.hypotheses import History
from seq2see.decoding.length_penalties import Average, NoPenalty
from toy_decoders import EOS, HistoryModel, random_source

INFINITY = float("inf")
MAX_LENGTH = 7


@pytest.fixture(autouse=True)
def library():
    return load_native_library().library or pytest.skip(str(load_native_library().reason))


def random_scores(shape, values, random):
    """Random scores with few different values, so that many are equal; the lowest is minus infinity."""
    return torch.randint(0, values, shape, generator=random).div(values).log()


def history_of(rows, random, time=3):
    tokens = torch.zeros(rows, MAX_LENGTH, dtype=torch.long)
    tokens[:, :time] = torch.randint(3, 9, (rows, time), generator=random)
    log_probabilities = torch.zeros(rows, MAX_LENGTH)
    log_probabilities[:, :time] = -torch.rand(rows, time, generator=random)
    return History(tokens, log_probabilities, torch.zeros(rows, dtype=torch.long), time)


def live_beams(sums, random, done=None):
    done = torch.zeros(sums.size(0), dtype=torch.bool) if done is None else done
    rows = torch.arange(sums.numel()).view(sums.shape)
    return LiveBeams(sums.sort(dim=1, descending=True).values, done, history_of(sums.numel(), random), rows)


def assert_same_history(actual, expected):
    assert actual.tokens.tolist() == expected.tokens.tolist()
    assert actual.log_probabilities.tolist() == expected.log_probabilities.tolist()
    assert actual.prompt_lengths is expected.prompt_lengths
    assert actual.time == expected.time


def assert_same_step(scores, beams):
    actual, expected = native_beam_step(scores, beams), torch_beam_step(scores, beams)
    assert actual.sums.tolist() == expected.sums.tolist()
    for name in ("tokens", "log_probabilities", "parents"):
        assert getattr(actual.step, name).tolist() == getattr(expected.step, name).tolist(), name
    assert_same_history(actual.history, expected.history)
    assert actual.maybe_exhausted == bool((expected.sums[:, 0] == -INFINITY).any())
    is_eos = expected.ended_candidates and expected.ended_candidates.is_eos & ~beams.done[:, None]
    assert (actual.ended_candidates is not None) == (is_eos is not None and bool(is_eos.any()))
    if actual.ended_candidates is not None:
        assert actual.ended_candidates.is_eos.tolist() == is_eos.tolist()
        assert actual.ended_candidates.sums.tolist() == expected.ended_candidates.sums.tolist()
        assert actual.ended_candidates.parents.tolist() == expected.ended_candidates.parents.tolist()


@given(
    shape=st.tuples(st.integers(1, 3), st.sampled_from([1, 2, 4, 5, 32])),
    vocab_size=st.sampled_from([3, 4, 7, 63, 64, 65, 131, 700]),
    values=st.sampled_from([1, 2, 5, 10**6]),
    offset=st.sampled_from([0.0, 1e8]),
    seed=st.integers(0, 999),
)
def test_a_native_beam_step_equals_the_torch_beam_step(shape, vocab_size, values, offset, seed):
    """With ties, impossible tokens, impossible hypotheses, inputs that are done, and sums that absorb the scores."""
    random = torch.Generator().manual_seed(seed)
    scores = random_scores((shape[0] * shape[1], vocab_size), values, random)
    scores[:, EOS] += torch.randint(0, 2, (1,), generator=random)  # in some cases likely
    done = torch.rand(shape[0], generator=random) < 0.3
    assert_same_step(scores, live_beams(random_scores(shape, 5, random) - offset, random, done))


@pytest.mark.parametrize("ends", [(-1.0, -9.0), (-9.0, -1.0)], ids=["falling", "rising"])
def test_a_large_vocabulary_is_ranked_wherever_the_best_scores_are(ends):
    random = torch.Generator().manual_seed(0)
    scores = torch.linspace(*ends, 8003).repeat(8, 1)
    scores[:, 4000:4100] = -0.5  # a hundred equal scores, of which the first are selected
    assert_same_step(scores, live_beams(torch.rand(2, 4, generator=random), random))
    assert set(native_beam_step(scores, live_beams(torch.zeros(2, 4), random)).step.tokens.tolist()) == {
        4000,
        4001,
        4002,
        4003,
    }


def test_a_score_that_is_better_by_the_last_bit_is_selected():
    """The first eight are equal; a later score is better by the last bit."""
    scores = torch.full((4, 200), -2.0)
    scores[:, 3:11], scores[:, 150] = -1.0, torch.nextafter(torch.tensor(-1.0), torch.tensor(0.0))
    beams = live_beams(torch.tensor([[0.0, -9.0, -9.0, -9.0]]), torch.Generator())
    assert native_beam_step(scores, beams).step.tokens.tolist() == [150, 3, 4, 5]
    assert_same_step(scores, beams)


def test_among_equal_sums_the_better_token_comes_first():
    """The sum of -1e8 absorbs both scores: token 5 is better, though token 3 has the lower id."""
    scores = torch.full((2, 9), -INFINITY)
    scores[:, 3], scores[:, 5] = -1.0, -0.5
    beams = live_beams(torch.tensor([[-1e8, -INFINITY]]), torch.Generator())
    assert native_beam_step(scores, beams).step.tokens.tolist() == [5, 3]
    assert_same_step(scores, beams)


def test_rows_of_scores_need_not_be_contiguous():
    random = torch.Generator().manual_seed(1)
    scores = random_scores((4, 3, 70), 50, random)[:, 1]
    assert not scores.is_contiguous()
    assert_same_step(scores, live_beams(torch.zeros(2, 2), random))


def test_the_old_history_is_not_changed():
    random = torch.Generator().manual_seed(2)
    beams = live_beams(torch.rand(1, 4, generator=random), random)
    before = [tensor.clone() for tensor in (beams.history.tokens, beams.history.log_probabilities, beams.sums)]
    native_beam_step(random_scores((4, 70), 50, random), beams)
    after = (beams.history.tokens, beams.history.log_probabilities, beams.sums)
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


@pytest.mark.parametrize("place", [0, 69, 100, 8002])
def test_nan_scores_are_left_to_torch(place):
    random = torch.Generator().manual_seed(3)
    scores, beams = random_scores((4, 8003), 50, random), live_beams(torch.zeros(2, 2), random)
    assert native_beam_step(scores, beams) is not None
    scores[3, place] = float("nan")
    assert native_beam_step(scores, beams) is None


def test_unsupported_tensors_are_left_to_torch():
    random = torch.Generator().manual_seed(4)
    scores, beams = random_scores((4, 70), 50, random), live_beams(torch.zeros(2, 2), random)
    assert native_beam_step(scores, beams) is not None
    assert native_beam_step(scores.double(), beams) is None
    assert native_beam_step(scores.T.contiguous().T, beams) is None
    assert native_beam_step(scores[:, :1], beams) is None
    assert native_beam_step(scores, replace(beams, sums=beams.sums.double())) is None
    assert native_beam_step(scores, replace(beams, sums=torch.zeros(2, 4)[:, ::2])) is None
    assert native_beam_step(scores, replace(beams, done=torch.zeros(4, dtype=torch.bool)[::2])) is None
    wide = live_beams(torch.zeros(1, 33), random)
    assert native_beam_step(random_scores((33, 70), 50, random), wide) is None


def test_the_default_dtype_has_no_effect():
    random = torch.Generator().manual_seed(6)
    scores, beams = random_scores((4, 70), 50, random), live_beams(torch.rand(2, 2, generator=random), random)
    torch.set_default_dtype(torch.float64)
    try:
        assert_same_step(scores, beams)
    finally:
        torch.set_default_dtype(torch.float32)


@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 5)), values=st.sampled_from([1, 2, 4]), seed=st.integers(0, 999)
)
def test_native_add_finished_equals_torch_add_finished(shape, values, seed):
    random = torch.Generator().manual_seed(seed)
    rows = shape[0] * shape[1]
    older = BeamHypotheses.of(
        random_scores(shape, values, random).sort(dim=1, descending=True).values, history_of(rows, random, 2)
    )
    parents = torch.randint(0, rows, shape, generator=random)
    finished = FinishedCandidates(random_scores(shape, values, random), parents, history_of(rows, random, 3))
    scores = random_scores((rows, 3, 11), 50, random)[:, 1]
    actual, expected = native_add_finished(older, finished, scores), torch_add_finished(older, finished, scores)
    for name in BeamHypotheses.__dataclass_fields__:
        assert getattr(actual, name).tolist() == getattr(expected, name).tolist(), name


def test_nan_hypothesis_scores_are_left_to_torch():
    random = torch.Generator().manual_seed(5)
    older, scores = BeamHypotheses.of(torch.zeros(1, 2), history_of(2, random)), random_scores((2, 11), 50, random)
    parents, finished_scores = torch.zeros(1, 2, dtype=torch.long), torch.tensor([[0.0, float("nan")]])
    finished = FinishedCandidates(finished_scores, parents, history_of(2, random))
    assert native_add_finished(older, finished, scores) is None
    assert native_add_finished(older, replace(finished, scores=torch.zeros(1, 2)), scores) is not None


@pytest.mark.parametrize("stopping_rule", [stop_when_unbeatable, stop_when_full])
@pytest.mark.parametrize("length_penalty", [NoPenalty(), Average(alpha=0.4)], ids=repr)
def test_a_whole_search_is_the_same_with_and_without_cplusplus(length_penalty, stopping_rule, monkeypatch):
    for seed in range(4):
        model, source = HistoryModel(seed), random_source(7, seed)
        monkeypatch.delenv(NATIVE_VARIABLE, raising=False)
        actual = decode(model, source, BeamSampler(3, length_penalty, stopping_rule), Limits(6))
        monkeypatch.setenv(NATIVE_VARIABLE, "0")
        assert native_library_if_loaded() is None
        assert actual == decode(model, source, BeamSampler(3, length_penalty, stopping_rule), Limits(6))


def test_a_search_on_a_cpu_uses_the_native_functions(monkeypatch):
    monkeypatch.setattr(beam_step, "torch_beam_step", None)
    monkeypatch.setattr(beam_hypotheses, "torch_add_finished", None)
    assert decode(HistoryModel(0), random_source(2), BeamSampler(3), Limits(6))


def test_a_beam_step_does_not_wait_for_the_compiler(monkeypatch):
    monkeypatch.setattr(compiler, "_load_once", cache(lambda: pytest.fail("the library was searched for")))
    assert native_library_if_loaded() is None
