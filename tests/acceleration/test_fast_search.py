"""The fast loops of a CPU and of a GPU give the results of the plain one, and save the work that they are for.

The loop of a GPU runs here on a CPU: it only omits what would wait for the GPU, so it must give the same results.
"""

from itertools import chain

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2see.acceleration import fast_search
from seq2see.acceleration.compiler import NATIVE_VARIABLE
from seq2see.acceleration.fast_search import CPULoop, FastSearchModel, GPULoop
from seq2see.acceleration.inference import with_fast_search
from seq2see.core.batch import Sequences, reorder_rows
from seq2see.decoding.beam import BeamSampler, stop_when_full
from seq2see.decoding.engine import Limits, decode, stream
from seq2see.decoding.samplers import GNMT, Average, GreedySampler, MinNewTokens, NoRepeatNGram, RandomSampler
from tiny_models import FAMILIES, few_examples, sources, tiny_model
from toy_decoders import EOS, Forbid, HistoryModel, TableModel, random_source, select_rows

SAMPLERS = [
    GreedySampler(),
    RandomSampler(3, width=3),
    BeamSampler(3),
    BeamSampler(2, GNMT(), stop_when_full),
    BeamSampler(4, Average(), num_return_sequences=1),
]
MORE_SAMPLERS = [
    *SAMPLERS, GreedySampler(GNMT()), RandomSampler(5, 0.7, 4, 0.9, width=2), BeamSampler(1), BeamSampler(40),
    BeamSampler(4, Average(alpha=-0.5)), BeamSampler(3, Average(), stop_when_full, 2),
]  # fmt: skip
LOOPS = {"CPU": CPULoop, "GPU": GPULoop}


def assert_same(left, right):
    assert [[each.tokens for each in row] for row in left] == [[each.tokens for each in row] for row in right]
    for actual, expected in zip(chain(*left), chain(*right), strict=True):
        assert actual.finished == expected.finished
        assert actual.score == pytest.approx(expected.score, abs=1e-5)
        assert actual.token_log_probabilities == pytest.approx(expected.token_log_probabilities, abs=1e-5)


@few_examples(2)
@given(
    loop=st.sampled_from(list(LOOPS.values())),
    seed=st.integers(0, 999),
    sampler=st.sampled_from(MORE_SAMPLERS),
    rows=st.integers(1, 9),
    forced=st.booleans(),
    processors=st.sampled_from([(), (NoRepeatNGram(2), MinNewTokens(2))]),
    native=st.booleans(),
)
def test_every_fast_loop_gives_the_hypotheses_of_the_plain_one(loop, seed, sampler, rows, forced, processors, native):
    model, source = HistoryModel(seed, scale=3.0), random_source(rows, seed)
    prefix = Sequences.of([[3, 4, 5, 3][: (row * 7) % 4] for row in range(rows)]) if forced else None
    arguments = (source, sampler, Limits(7), processors, prefix, torch.arange(40, 40 + rows))
    with pytest.MonkeyPatch.context() as patch:
        if not native:
            patch.setenv(NATIVE_VARIABLE, "0")
        assert_same(decode(FastSearchModel(model, loop), *arguments), decode(model, *arguments))


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("name", ["transformer, pre-norm", "recurrent, additive"])
def test_every_family_gives_the_same_hypotheses(loop, name):
    assert name in FAMILIES
    source = sources([4, 2, 5, 6, 3], seed=3)
    for sampler in (GreedySampler(), BeamSampler(3, Average()), RandomSampler(2, width=2)):
        expected = decode(tiny_model(name), source, sampler, Limits(12))
        assert_same(decode(FastSearchModel(tiny_model(name), loop), source, sampler, Limits(12)), expected)


def test_a_model_gets_the_loop_of_its_device():
    model = HistoryModel(1)
    assert with_fast_search(model).decoding_loop is CPULoop
    assert with_fast_search(model, torch.device("cpu")).decoding_loop is CPULoop
    assert with_fast_search(model, torch.device("cuda")).decoding_loop is GPULoop


class CustomSampler:
    """A sampler that acceleration does not know."""

    width = 1

    def start_search(self, history, max_lengths, indices):
        return GreedySampler().start_search(history, max_lengths, indices)


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_other_samplers_use_their_own_search(loop):
    model, source = HistoryModel(3), random_source(4)
    expected = decode(model, source, GreedySampler(), Limits(5))
    assert decode(FastSearchModel(model, loop), source, CustomSampler(), Limits(5)) == expected


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("sampler", [GreedySampler(), BeamSampler(3)], ids=["greedy", "beam"])
def test_a_stop_by_the_caller_returns_the_current_hypotheses(loop, sampler):
    calls = []
    limits = Limits(50, lambda: calls.append(True) or len(calls) == 2)
    outputs = decode(FastSearchModel(HistoryModel(3), loop), random_source(4), sampler, limits, [Forbid((EOS,))])
    assert all(len(each.tokens) == 2 and not each.finished for row in outputs for each in row)
    assert all(len(row) == sampler.width for row in outputs)


# --- CPU ---


def test_rows_are_copied_only_when_they_are_reordered(monkeypatch):
    orders = []

    def recorded(state, rows):
        orders.append(rows.tolist())
        return reorder_rows(state, rows)

    monkeypatch.setattr(fast_search, "reorder_rows", recorded)
    endless, model = [Forbid((EOS,))], with_fast_search(HistoryModel(3))  # otherwise rows that are done are dropped
    decode(model, random_source(4), GreedySampler(), Limits(5), endless)
    decode(model, random_source(4), BeamSampler(1), Limits(5), endless)
    assert not orders
    decode(model, random_source(4), BeamSampler(3), Limits(5), endless)
    assert orders
    assert list(range(12)) not in orders


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: type(sampler).__name__)
def test_step_log_probabilities_of_a_model_is_used(sampler):
    class LogProbabilityModel(HistoryModel):
        decoding_loop = CPULoop

        def step_log_probabilities(self, tokens, state):
            logits, state = super().step(tokens, state)
            return logits.float().log_softmax(-1), state

        def step(self, tokens, state):
            raise AssertionError("the logits are not needed")

    prefix = Sequences.of([[3, 4, 5, 3], [], [5], [4, 4], [3, 3, 3], [4], [5, 3]])
    results = decode(LogProbabilityModel(3), random_source(7), sampler, Limits(5), (), prefix)
    assert_same(results, decode(HistoryModel(3), random_source(7), sampler, Limits(5), (), prefix))


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
    source = Sequences.of([[3] * length for length in lengths])
    answers = decode(with_fast_search(model), source, GreedySampler(), Limits(9))
    assert lengths_of(answers) == lengths
    assert model.stepped == [[5, 1, 3, 1, 2], [4, 0, 2, 0, 1], [3, 1, 0], [2, 0], [1], [0]]


def test_by_hand_a_row_that_has_its_maximum_length_is_not_read_again():
    inputs = []

    class RecordingModel(TableModel):
        def step(self, tokens, state):
            inputs.append(tokens.tolist())
            return super().step(tokens, state)

    prefix = Sequences.of([[3, 4], [5, 3, 4]])
    decode(with_fast_search(RecordingModel(1)), None, GreedySampler(), Limits(1), (), prefix)
    assert inputs[1:] == [[[4]]]  # the first row has already generated its only token


def test_by_hand_rows_are_not_dropped_when_few_of_them_are_done():
    model, lengths = Countdown(), [4, 4, 1, 4, 4]
    source = Sequences.of([[3] * length for length in lengths])
    answers = decode(with_fast_search(model), source, GreedySampler(), Limits(9))
    assert lengths_of(answers) == lengths
    assert [len(rows) for rows in model.stepped] == [5, 5, 5, 5, 5]


def test_by_hand_beam_search_drops_whole_inputs():
    model, lengths = Countdown(), [3, 1, 2]
    answers = decode(
        with_fast_search(model),
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
    model, source = with_fast_search(HistoryModel(seed, scale=3.0)), random_source(rows, seed)
    prefix = Sequences.of([[3, 4, 5, 3][: (row * 7) % 4] for row in range(rows)]) if forced else None
    logits_processors = [NoRepeatNGram(2), MinNewTokens(1)]

    def run(ratio):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fast_search, "DROP_DONE_RATIO", ratio)
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
    model, source = with_fast_search(HistoryModel(4)), random_source(3)
    many = decode(model, source, RandomSampler(8, width=5), Limits(9))
    for row in range(3):
        alone = decode(
            model, select_rows(source, [row]), RandomSampler(8, width=5), Limits(9), indices=torch.tensor([row])
        )
        assert {answer.tokens for answer in alone[0]} == {answer.tokens for answer in many[row]}


def test_a_row_keeps_its_own_prefix_when_rows_before_it_are_dropped():
    prefixes = Sequences.of([[3], [5], [4, 4, 5, 3]])
    for sampler in (GreedySampler(), BeamSampler(2)):
        answers = decode(with_fast_search(HistoryModel(2)), random_source(3), sampler, Limits(1), (), prefixes)
        assert [row[0].tokens[:4] for row in answers][2] == (4, 4, 5, 3)


# --- GPU ---


def test_on_a_gpu_the_loop_asks_only_at_some_steps_whether_all_is_done(monkeypatch):
    """After all rows are done it runs until the next check; nothing is dropped."""
    model, lengths = Countdown(), [3, 1, 2]
    source = Sequences.of([[3] * length for length in lengths])
    monkeypatch.setattr(fast_search, "DONE_CHECK_INTERVAL", 6)
    outputs = decode(with_fast_search(model, torch.device("cuda")), source, GreedySampler(), Limits(9))
    assert lengths_of(outputs) == lengths
    assert [len(rows) for rows in model.stepped] == [3] * 6


def test_on_a_gpu_the_loop_ends_at_the_maximum_length():
    model = Countdown()
    outputs = decode(with_fast_search(model, torch.device("cuda")), Sequences.of([[3] * 9]), GreedySampler(), Limits(3))
    assert lengths_of(outputs) == [3]
    assert len(model.stepped) == 3


READS = ("__bool__", "__int__", "__float__", "item", "tolist", "nonzero")
"""What needs a number of a tensor, for which a GPU would have to finish all its work."""


@pytest.mark.parametrize(
    "sampler", [GreedySampler(), BeamSampler(3), RandomSampler(1, top_k=3)], ids=["greedy", "beam", "top-k"]
)
def test_on_a_gpu_no_number_is_read_in_most_steps(sampler, monkeypatch):
    reads: list[str] = []

    def recorded(name):
        function = getattr(torch.Tensor, name)
        return lambda tensor, *arguments, **options: reads.append(name) or function(tensor, *arguments, **options)

    for model in (with_fast_search(HistoryModel(3), torch.device("cuda")), HistoryModel(3)):
        steps = stream(model, random_source(4), sampler, Limits(9), [Forbid((EOS,))])
        next(steps)
        with monkeypatch.context() as patch:
            for name in READS:
                patch.setattr(torch.Tensor, name, recorded(name))
            for _ in range(fast_search.DONE_CHECK_INTERVAL - 2):
                next(steps)
        assert bool(reads) == (model.__class__ is HistoryModel)  # the plain loop reads at every step what is done
