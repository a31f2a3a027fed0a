"""Decoding with captured steps, with recorded operators in place of CUDA graphs: it needs no GPU."""

from __future__ import annotations

import pytest
import torch
from recorded_graphs import recorded_graphs  # noqa: F401

from seq2see.acceleration.fast_search import GPUBeamSearch, GPUIndependentSearch
from seq2see.acceleration.graphed_decoding import GraphedHistory, GraphedLoop, GraphedModel
from seq2see.core.batch import Sequences, reorder_rows
from seq2see.decoding.beam import BeamSampler, stop_when_full
from seq2see.decoding.engine import Limits, decode, log_probabilities, stream, suppress_special_tokens
from seq2see.decoding.samplers import GNMT, Average, GreedySampler, History, MinNewTokens, RandomSampler
from seq2see.models.build import fresh_model
from seq2see.models.settings import ModelSettings, Text
from seq2see.models.transformer import TransformerSettings
from tiny_models import sources, tiny_model

INPUTS, MAX_LENGTH, VOCAB_SIZE = 3, 7, 6
SAMPLERS = {
    "greedy": GreedySampler(),
    "beam": BeamSampler(2),
    "average": BeamSampler(3, Average()),
    "until full": BeamSampler(2, GNMT(), stop_when_full, 1),
}
STACK = TransformerSettings(width=16, depth=1, heads=2)


def search_of(sampler):
    """A search of a GPU without any generated token."""
    empty = History.empty(torch.zeros(INPUTS * sampler.width, dtype=torch.long), MAX_LENGTH)
    max_lengths = torch.full((INPUTS,), MAX_LENGTH)
    if isinstance(sampler, BeamSampler):
        return GPUBeamSearch(sampler, empty, max_lengths)
    return GPUIndependentSearch(sampler, empty, max_lengths, [0, 1, 2])


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
@pytest.mark.parametrize("seed", range(5))
def test_a_step_with_a_tensor_time_equals_a_step_with_an_int_time(sampler, seed):
    draws, rows = torch.Generator().manual_seed(seed), INPUTS * sampler.width
    search, other_search = search_of(sampler), search_of(sampler)
    other_search.history = GraphedHistory.of(other_search.history, torch.zeros(1, dtype=torch.long))
    for _ in range(MAX_LENGTH - 1):
        scores = (2 * torch.randn(rows, VOCAB_SIZE, generator=draws)).log_softmax(1)
        scores[:, :2] = -torch.inf  # PAD and BOS
        one, other = search.select(scores.clone()), other_search.advance(scores.clone())
        assert torch.equal(one.tokens, other.tokens)
        assert torch.equal(search.done, other_search.done)
    assert other_search.history.time.tolist() == [MAX_LENGTH - 1]
    other_search.history = other_search.history.at(MAX_LENGTH - 1)
    actual, expected = search.results(), other_search.results()
    assert [[each.tokens for each in outputs] for outputs in actual] == [
        [each.tokens for each in outputs] for outputs in expected
    ]
    assert [outputs[0].score for outputs in actual] == pytest.approx([outputs[0].score for outputs in expected])


class FusedModel:
    """A model with fused steps, which it counts."""

    decoding_loop = GraphedLoop

    def __init__(self, model):
        self.model, self.fused_steps = model, 0

    def start(self, source, rows, max_length):
        return self.model.start(source, rows, max_length)

    def step(self, tokens, state):
        return self.model.step(tokens, state)

    def fused_step(self, search, step, state):
        self.fused_steps += 1
        state = state if step.parents is None else reorder_rows(state, step.parents)
        logits, state = self.model.step(step.tokens[:, None], state)
        selected = search.advance(suppress_special_tokens(log_probabilities(logits[:, -1])))
        search.stop_at_max_length()
        return selected, state


def decode_tokens(model, sampler, **options):
    source = Sequences.of([[5, 6, 7], [8, 4], [9, 9, 5, 6]])
    return [[each.tokens for each in row] for row in decode(model, source, sampler, Limits(9), **options)]


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
def test_the_loop_uses_the_fused_steps_of_a_model(sampler):
    settings = ModelSettings(source=Text(), encoder=STACK, decoder=STACK)
    model = fresh_model(settings, (20, 20), "xavier", seed=3).eval()
    fused_model = FusedModel(model)
    assert decode_tokens(fused_model, sampler) == decode_tokens(model, sampler)
    assert fused_model.fused_steps > 0


def test_steps_that_differ_are_not_fused():
    settings = ModelSettings(source=Text(), encoder=STACK, decoder=STACK)
    model = fresh_model(settings, (20, 20), "xavier", seed=3).eval()
    fused_model = FusedModel(model)
    logits_processors = [MinNewTokens(3)]
    assert decode_tokens(fused_model, GreedySampler(), logits_processors=logits_processors) == decode_tokens(
        model, GreedySampler(), logits_processors=logits_processors
    )
    assert decode_tokens(fused_model, RandomSampler(seed=1)) == decode_tokens(model, RandomSampler(seed=1))
    assert fused_model.fused_steps == 0


def test_a_prompt_is_read_before_fused_steps_begin():
    settings = ModelSettings(source=Text(), encoder=STACK, decoder=STACK)
    model = fresh_model(settings, (20, 20), "xavier", seed=3).eval()
    fused_model, prefix = FusedModel(model), Sequences.of([[4], [5, 6, 7], []])
    for sampler in (GreedySampler(), BeamSampler(2)):
        assert decode_tokens(fused_model, sampler, prefix=prefix) == decode_tokens(model, sampler, prefix=prefix)
    assert 0 < fused_model.fused_steps < 18


# --- graphs ---


@pytest.mark.usefixtures("recorded_graphs")
class TestGraphs:
    """A captured step is replayed for other sources, and in the following searches."""

    @pytest.mark.parametrize("name", ["transformer, pre-norm", "recurrent, additive"])
    @pytest.mark.parametrize("sampler", [*SAMPLERS.values(), RandomSampler(seed=3, width=2)], ids=[*SAMPLERS, "sample"])
    def test_they_give_the_hypotheses_of_the_model(self, name, sampler):
        model = tiny_model(name)
        graphed = GraphedModel(model)
        for rows, seed in (([4, 2, 5], 1), ([3, 3, 1], 2), ([2, 6], 3), ([5, 5, 4], 4)):
            source = sources(rows, seed)
            expected, outputs = (decode(each, source, sampler, Limits(12)) for each in (model, graphed))
            assert [[each.tokens for each in row] for row in outputs] == [
                [each.tokens for each in row] for row in expected
            ]
            scores = [[each.score for row in some for each in row] for some in (outputs, expected)]
            assert scores[0] == pytest.approx(scores[1], abs=1e-4)
        assert len(graphed.graphed_starts) == 2  # one for each number of rows
        fused = [steps.fused_steps for steps in graphed.graphed_steps.values()]
        assert any(fused) == (not isinstance(sampler, RandomSampler))

    @pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
    def test_a_prefix_is_read_first(self, sampler):
        model, prefix = tiny_model("transformer, pre-norm"), Sequences.of([[7, 8, 9], [5], [6, 6]])
        outputs = [
            decode(each, sources([4, 2, 5], 1), sampler, Limits(9), prefix=prefix)
            for each in (model, GraphedModel(model))
        ]
        assert [row[0].tokens for row in outputs[0]] == [row[0].tokens for row in outputs[1]]

    @pytest.mark.parametrize("sampler", [GreedySampler(), BeamSampler(3)], ids=["greedy", "beam"])
    def test_steps_can_be_streamed(self, sampler):
        model = tiny_model("transformer, pre-norm")
        plain, graphed = (
            list(stream(each, sources([4, 2, 5], 6), sampler, Limits(20))) for each in (model, GraphedModel(model))
        )
        assert len(graphed) >= len(plain)  # the loop continues for a few steps after all rows are done
        for one, other in zip(plain, graphed, strict=False):
            assert one.tokens.tolist() == other.tokens.tolist()
            torch.testing.assert_close(one.log_probabilities, other.log_probabilities, atol=1e-4, rtol=0)

    def test_logits_processors_run_outside_of_graphs(self):
        model, processors = tiny_model("transformer, pre-norm"), [MinNewTokens(3)]
        graphed = GraphedModel(model)
        source = sources([4, 2, 5], 1)
        outputs, expected = (decode(each, source, BeamSampler(2), Limits(9), processors) for each in (graphed, model))
        assert [[each.tokens for each in row] for row in outputs] == [[each.tokens for each in row] for row in expected]
        assert not any(steps.fused_steps for steps in graphed.graphed_steps.values())

    def test_a_state_of_an_earlier_search_is_an_error(self):
        graphed, begin = GraphedModel(tiny_model("transformer, pre-norm")), torch.ones(3, 1, dtype=torch.long)
        with torch.inference_mode():
            _, first = graphed.step(begin, graphed.start(sources([4, 2, 5], 1), 3, 9))
            _, second = graphed.step(begin, graphed.start(sources([4, 2, 5], 1), 3, 9))
            graphed.step(begin, second)
            with pytest.raises(RuntimeError, match="another search"):
                graphed.step(begin, first)
