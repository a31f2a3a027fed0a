"""A step whose time is a tensor, as in a CUDA graph, equals the step whose time is an int."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from seq2see.core.batch import Sequences
from seq2see.decoding import beam
from seq2see.decoding.beam import BeamSampler, stop_when_full
from seq2see.decoding.beam_hypotheses import torch_add_finished
from seq2see.decoding.beam_step import torch_beam_step
from seq2see.decoding.engine import Limits, decode
from seq2see.decoding.hypotheses import History
from seq2see.decoding.length_penalties import GNMT, Average
from seq2see.decoding.logits_processors import MinNewTokens
from seq2see.decoding.samplers import DecodingStep, GreedySampler, RandomSampler
from seq2see.models.build import fresh_model
from seq2see.models.settings import ModelSettings, Text
from seq2see.models.transformer import TransformerSettings

INPUTS, MAX_LENGTH, VOCAB_SIZE = 3, 7, 6
SAMPLERS = {
    "greedy": GreedySampler(),
    "beam": BeamSampler(2),
    "average": BeamSampler(3, Average()),
    "until full": BeamSampler(2, GNMT(), stop_when_full, 1),
}
STACK = TransformerSettings(width=16, depth=1, heads=2)


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
@pytest.mark.parametrize("seed", range(5))
def test_a_step_with_a_tensor_time_equals_a_step_with_an_int_time(sampler, seed, monkeypatch):
    monkeypatch.setattr(beam, "beam_step", torch_beam_step)  # C++ supports only an int
    monkeypatch.setattr(beam, "add_finished", torch_add_finished)
    draws = torch.Generator().manual_seed(seed)
    rows, max_lengths = INPUTS * sampler.width, torch.full((INPUTS,), MAX_LENGTH)
    empty = History.empty(torch.zeros(rows, dtype=torch.long), MAX_LENGTH)
    search = sampler.start_search(empty, max_lengths, [0, 1, 2])
    other_search = sampler.start_search(
        History.empty(torch.zeros(rows, dtype=torch.long), MAX_LENGTH), max_lengths, [0, 1, 2]
    )
    time_tensor = torch.zeros(1, dtype=torch.long)
    history, *others = other_search.search_state
    other_search.search_state = (replace(history, time=time_tensor), *others)
    for _ in range(MAX_LENGTH - 1):
        scores = (2 * torch.randn(rows, VOCAB_SIZE, generator=draws)).log_softmax(1)
        scores[:, :2] = -torch.inf  # PAD and BOS
        one, other = search.select(scores.clone()), other_search.advance(scores.clone())
        assert torch.equal(one.tokens, other.tokens)
        assert torch.equal(search.done, other_search.done)
    history, *others = other_search.search_state
    assert history.time.tolist() == [MAX_LENGTH - 1]
    other_search.search_state = (replace(history, time=MAX_LENGTH - 1), *others)
    actual, expected = search.results(), other_search.results()
    assert [[each.tokens for each in answers] for answers in actual] == [
        [each.tokens for each in answers] for answers in expected
    ]
    assert [answers[0].score for answers in actual] == pytest.approx([answers[0].score for answers in expected])


class FusedModel:
    """A model with fused steps, which it counts."""

    def __init__(self, model):
        self.model, self.fused_steps = model, 0

    def start(self, source, rows, max_length):
        return self.model.start(source, rows, max_length)

    def step(self, tokens, state):
        return self.model.step(tokens, state)

    def fused_step(self, search, step: DecodingStep, state):
        from seq2see.core.rows import reorder_rows
        from seq2see.decoding.engine import log_probabilities, suppress_special_tokens

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
