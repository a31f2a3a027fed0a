"""A turn whose time is a tensor, as a GPU records it, is the turn whose time is a number."""

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

INPUTS, MAX_LENGTH, VOCABULARY = 3, 7, 6
SAMPLERS = {
    "greedy": GreedySampler(),
    "beam": BeamSampler(2),
    "average": BeamSampler(3, Average()),
    "until full": BeamSampler(2, GNMT(), stop_when_full, 1),
}
STACK = TransformerSettings(width=16, depth=1, heads=2)


@pytest.mark.parametrize("chooser", SAMPLERS.values(), ids=SAMPLERS)
@pytest.mark.parametrize("seed", range(5))
def test_a_recorded_turn_is_a_turn(sampler, seed, monkeypatch):
    monkeypatch.setattr(beam, "advance", torch_beam_step)  # C++ knows plain numbers only
    monkeypatch.setattr(beam, "keep", torch_add_finished)
    draws = torch.Generator().manual_seed(seed)
    rows, max_lengths = INPUTS * sampler.width, torch.full((INPUTS,), MAX_LENGTH)
    empty = History.empty(torch.zeros(rows, dtype=torch.long), MAX_LENGTH)
    plain = sampler.start_search(empty, max_lengths, [0, 1, 2])
    recorded = sampler.start_search(
        History.empty(torch.zeros(rows, dtype=torch.long), MAX_LENGTH), max_lengths, [0, 1, 2]
    )
    time_tensor = torch.zeros(1, dtype=torch.long)
    history, *others = recorded.search_state
    recorded.search_state = (replace(history, time=time_tensor), *others)
    for _ in range(MAX_LENGTH - 1):
        scores = (2 * torch.randn(rows, VOCABULARY, generator=draws)).log_softmax(1)
        scores[:, :2] = -torch.inf  # PAD and BOS
        one, other = plain.select(scores.clone()), recorded.advance(scores.clone())
        assert torch.equal(one.tokens, other.tokens)
        assert torch.equal(plain.done, recorded.done)
    history, *others = recorded.search_state
    assert history.time.tolist() == [MAX_LENGTH - 1]
    recorded.search_state = (replace(history, time=MAX_LENGTH - 1), *others)
    mine, theirs = plain.results(), recorded.results()
    assert [[each.tokens for each in answers] for answers in mine] == [
        [each.tokens for each in answers] for answers in theirs
    ]
    assert [answers[0].score for answers in mine] == pytest.approx([answers[0].score for answers in theirs])


class Recorder:
    """A model that goes round like a recorded one, and counts how often."""

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
        chosen = search.advance(suppress_special_tokens(log_probabilities(logits[:, -1])))
        search.stop_at_max_length()
        return chosen, state


def decoded(model, sampler, **more):
    source = Sequences.of([[5, 6, 7], [8, 4], [9, 9, 5, 6]])
    return [[each.tokens for each in row] for row in decode(model, source, sampler, Limits(9), **more)]


@pytest.mark.parametrize("chooser", SAMPLERS.values(), ids=SAMPLERS)
def test_the_loop_leaves_every_round_to_a_model_that_records(sampler):
    settings = ModelSettings(source=Text(), encoder=STACK, decoder=STACK)
    model = fresh_model(settings, (20, 20), "xavier", seed=3).eval()
    recorder = Recorder(model)
    assert decoded(recorder, sampler) == decoded(model, sampler)
    assert recorder.fused_steps > 0


def test_what_differs_from_round_to_round_is_not_recorded():
    settings = ModelSettings(source=Text(), encoder=STACK, decoder=STACK)
    model = fresh_model(settings, (20, 20), "xavier", seed=3).eval()
    recorder = Recorder(model)
    logits_processors = [MinNewTokens(3)]
    assert decoded(recorder, GreedySampler(), logits_processors=logits_processors) == decoded(
        model, GreedySampler(), logits_processors=logits_processors
    )
    assert decoded(recorder, RandomSampler(seed=1)) == decoded(model, RandomSampler(seed=1))
    assert recorder.fused_steps == 0


def test_a_prompt_is_read_before_rounds_begin():
    settings = ModelSettings(source=Text(), encoder=STACK, decoder=STACK)
    model = fresh_model(settings, (20, 20), "xavier", seed=3).eval()
    recorder, prefix = Recorder(model), Sequences.of([[4], [5, 6, 7], []])
    for sampler in (GreedySampler(), BeamSampler(2)):
        assert decoded(recorder, sampler, prefix=prefix) == decoded(model, sampler, prefix=prefix)
    assert 0 < recorder.fused_steps < 18
