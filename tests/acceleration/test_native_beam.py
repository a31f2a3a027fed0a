"""The C++ functions of beam search give the results of the plain search, to the last bit."""

from copy import copy
from functools import cache

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2see.acceleration import compiler
from seq2see.acceleration.compiler import NATIVE_VARIABLE, load_native_library, native_library_if_loaded
from seq2see.acceleration.fast_search import CPUBeamSearch, native_add_finished, native_beam_step
from seq2see.acceleration.inference import with_fast_search
from seq2see.decoding.beam import BeamHypotheses, BeamSampler, BeamSearch, stop_when_full, stop_when_unbeatable
from seq2see.decoding.engine import Limits, decode
from seq2see.decoding.samplers import Average, History, NoPenalty
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


def search_of(sums, random, done=None, search_class=BeamSearch):
    """A plain search in the middle of its work: with live, stored and finished hypotheses."""
    inputs, width = sums.shape
    search = search_class(BeamSampler(width), history_of(sums.numel(), random), torch.full((inputs,), MAX_LENGTH))
    search.sums = sums.sort(dim=1, descending=True).values
    search.done = torch.zeros(inputs, dtype=torch.bool) if done is None else done
    scores = random_scores((inputs, width), 5, random).sort(dim=1, descending=True).values
    search.stored = BeamHypotheses.of(scores, history_of(sums.numel(), random, 2))
    return search


def native_step(search, scores):
    return native_beam_step(scores, search.sums, search.done, search.history)


def assert_same_history(actual, expected):
    assert actual.tokens.tolist() == expected.tokens.tolist()
    assert actual.log_probabilities.tolist() == expected.log_probabilities.tolist()
    assert actual.prompt_lengths is expected.prompt_lengths
    assert actual.time == expected.time


def assert_same_step(scores, search):
    """The search in C++ makes the step of the plain one, and is afterwards in the same state."""
    native, result = copy(search), native_step(search, scores)
    native.__class__ = CPUBeamSearch
    native.may_stop = bool((search.stored.scores[:, -1] > -INFINITY).any())
    step, plain_step = native.advance(scores), search.advance(scores)
    assert step.tokens.tolist() == result.step.tokens.tolist()  # it was the step in C++
    assert result.maybe_exhausted == bool((search.sums[:, 0] == -INFINITY).any())
    for name in ("tokens", "log_probabilities", "parents"):
        assert getattr(step, name).tolist() == getattr(plain_step, name).tolist(), name
    assert_same_history(native.history, search.history)
    assert native.sums.tolist() == search.sums.tolist()
    assert native.done.tolist() == search.done.tolist()
    for name in BeamHypotheses.__dataclass_fields__:
        assert getattr(native.stored, name).tolist() == getattr(search.stored, name).tolist(), name


@given(
    shape=st.tuples(st.integers(1, 3), st.sampled_from([1, 2, 4, 5, 32])),
    vocab_size=st.sampled_from([3, 4, 7, 63, 64, 65, 131, 700]),
    values=st.sampled_from([1, 2, 5, 10**6]),
    offset=st.sampled_from([0.0, 1e8]),
    seed=st.integers(0, 999),
)
def test_a_native_step_equals_the_plain_step(shape, vocab_size, values, offset, seed):
    """With ties, impossible tokens, impossible hypotheses, inputs that are done, and sums that absorb the scores."""
    random = torch.Generator().manual_seed(seed)
    scores = random_scores((shape[0] * shape[1], vocab_size), values, random)
    scores[:, EOS] += torch.randint(0, 2, (1,), generator=random)  # in some cases likely
    done = torch.rand(shape[0], generator=random) < 0.3
    assert_same_step(scores, search_of(random_scores(shape, 5, random) - offset, random, done))


@pytest.mark.parametrize("ends", [(-1.0, -9.0), (-9.0, -1.0)], ids=["falling", "rising"])
def test_a_large_vocabulary_is_ranked_wherever_the_best_scores_are(ends):
    random = torch.Generator().manual_seed(0)
    scores = torch.linspace(*ends, 8003).repeat(8, 1)
    scores[:, 4000:4100] = -0.5  # a hundred equal scores, of which the first are selected
    assert_same_step(scores, search_of(torch.rand(2, 4, generator=random), random))
    assert set(native_step(search_of(torch.zeros(2, 4), random), scores).step.tokens.tolist()) == {
        4000,
        4001,
        4002,
        4003,
    }


def test_a_score_that_is_better_by_the_last_bit_is_selected():
    """The first eight are equal; a later score is better by the last bit."""
    scores = torch.full((4, 200), -2.0)
    scores[:, 3:11], scores[:, 150] = -1.0, torch.nextafter(torch.tensor(-1.0), torch.tensor(0.0))
    search = search_of(torch.tensor([[0.0, -9.0, -9.0, -9.0]]), torch.Generator())
    assert native_step(search, scores).step.tokens.tolist() == [150, 3, 4, 5]
    assert_same_step(scores, search)


def test_among_equal_sums_the_better_token_comes_first():
    """The sum of -1e8 absorbs both scores: token 5 is better, though token 3 has the lower id."""
    scores = torch.full((2, 9), -INFINITY)
    scores[:, 3], scores[:, 5] = -1.0, -0.5
    search = search_of(torch.tensor([[-1e8, -INFINITY]]), torch.Generator())
    assert native_step(search, scores).step.tokens.tolist() == [5, 3]
    assert_same_step(scores, search)


def test_rows_of_scores_need_not_be_contiguous():
    random = torch.Generator().manual_seed(1)
    scores = random_scores((4, 3, 70), 50, random)[:, 1]
    assert not scores.is_contiguous()
    assert_same_step(scores, search_of(torch.zeros(2, 2), random))


def test_the_old_history_is_not_changed():
    random = torch.Generator().manual_seed(2)
    search = search_of(torch.rand(1, 4, generator=random), random)
    before = [tensor.clone() for tensor in (search.history.tokens, search.history.log_probabilities, search.sums)]
    native_step(search, random_scores((4, 70), 50, random))
    after = (search.history.tokens, search.history.log_probabilities, search.sums)
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


@pytest.mark.parametrize("place", [0, 69, 100, 8002])
def test_nan_scores_are_left_to_torch(place):
    random = torch.Generator().manual_seed(3)
    scores, search = random_scores((4, 8003), 50, random), search_of(torch.zeros(2, 2), random)
    assert native_step(search, scores) is not None
    scores[3, place] = float("nan")
    assert native_step(search, scores) is None


def test_unsupported_tensors_are_left_to_torch():
    random = torch.Generator().manual_seed(4)
    scores, search = random_scores((4, 70), 50, random), search_of(torch.zeros(2, 2), random)
    assert native_step(search, scores) is not None
    assert native_step(search, scores.double()) is None
    assert native_step(search, scores.T.contiguous().T) is None
    assert native_step(search, scores[:, :1]) is None
    sums, done, history = search.sums, search.done, search.history
    assert native_beam_step(scores, sums, done, history) is not None
    assert native_beam_step(scores, sums.double(), done, history) is None
    assert native_beam_step(scores, torch.zeros(2, 4)[:, ::2], done, history) is None
    assert native_beam_step(scores, sums, torch.zeros(4, dtype=torch.bool)[::2], history) is None
    wide = search_of(torch.zeros(1, 33), random)
    assert native_step(wide, random_scores((33, 70), 50, random)) is None


def test_the_default_dtype_has_no_effect():
    random = torch.Generator().manual_seed(6)
    scores, search = random_scores((4, 70), 50, random), search_of(torch.rand(2, 2, generator=random), random)
    torch.set_default_dtype(torch.float64)
    try:
        assert_same_step(scores, search)
    finally:
        torch.set_default_dtype(torch.float32)


@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 5)), values=st.sampled_from([1, 2, 4]), seed=st.integers(0, 999)
)
def test_the_merge_in_cplusplus_equals_the_plain_one(shape, values, seed):
    random = torch.Generator().manual_seed(seed)
    rows = shape[0] * shape[1]
    search = search_of(torch.zeros(shape), random)
    parents, sums = torch.randint(0, rows, shape, generator=random), random_scores(shape, values, random)
    is_eos = torch.rand(shape, generator=random) < 0.7
    scores = random_scores((rows, 3, 11), 50, random)[:, 1]
    finished_scores = sums.masked_fill(~is_eos, -INFINITY)
    actual = native_add_finished(search.stored, scores, finished_scores, parents, search.history)
    search.store_finished(scores, sums, parents, is_eos)
    for name in BeamHypotheses.__dataclass_fields__:
        assert getattr(actual, name).tolist() == getattr(search.stored, name).tolist(), name


def test_nan_hypothesis_scores_are_left_to_torch():
    random = torch.Generator().manual_seed(5)
    stored, scores = BeamHypotheses.of(torch.zeros(1, 2), history_of(2, random)), random_scores((2, 11), 50, random)
    parents, history = torch.zeros(1, 2, dtype=torch.long), history_of(2, random)
    assert native_add_finished(stored, scores, torch.tensor([[0.0, float("nan")]]), parents, history) is None
    assert native_add_finished(stored, scores, torch.zeros(1, 2), parents, history) is not None


@pytest.mark.parametrize("stopping_rule", [stop_when_unbeatable, stop_when_full])
@pytest.mark.parametrize("length_penalty", [NoPenalty(), Average(alpha=0.4)], ids=repr)
def test_a_whole_search_is_the_same_with_and_without_cplusplus(length_penalty, stopping_rule, monkeypatch):
    for seed in range(4):
        model, source = with_fast_search(HistoryModel(seed)), random_source(7, seed)
        monkeypatch.delenv(NATIVE_VARIABLE, raising=False)
        actual = decode(model, source, BeamSampler(3, length_penalty, stopping_rule), Limits(6))
        monkeypatch.setenv(NATIVE_VARIABLE, "0")
        assert native_library_if_loaded() is None
        assert actual == decode(model, source, BeamSampler(3, length_penalty, stopping_rule), Limits(6))


def test_a_fast_search_on_a_cpu_uses_the_native_functions(monkeypatch):
    monkeypatch.setattr(BeamSearch, "advance", None)
    monkeypatch.setattr(BeamSearch, "store_finished", None)
    assert decode(with_fast_search(HistoryModel(0)), random_source(2), BeamSampler(3), Limits(6))


def test_a_beam_step_does_not_wait_for_the_compiler(monkeypatch):
    monkeypatch.setattr(compiler, "_load_once", cache(lambda: pytest.fail("the library was searched for")))
    assert native_library_if_loaded() is None
