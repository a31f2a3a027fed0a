"""A turn whose time is a tensor, as a GPU records it, is the turn whose time is a number."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from seq2see.core.batch import Sequences
from seq2see.decoding import beam
from seq2see.decoding.beam import Beam, when_full
from seq2see.decoding.choosers import Greedy, Sample, Step
from seq2see.decoding.engine import Limits, decode
from seq2see.decoding.hypotheses import History
from seq2see.decoding.kept import plain_keep
from seq2see.decoding.penalties import GNMT, Average
from seq2see.decoding.rules import MinimumLength
from seq2see.decoding.turns import plain_turn
from seq2see.models.build import fresh_model
from seq2see.models.settings import ModelSettings, Text
from seq2see.models.transformer import TransformerSettings

INPUTS, ROOM, VOCABULARY = 3, 7, 6
CHOOSERS = {
    "greedy": Greedy(),
    "beam": Beam(2),
    "average": Beam(3, Average()),
    "until full": Beam(2, GNMT(), when_full, 1),
}
STACK = TransformerSettings(width=16, depth=1, heads=2)


@pytest.mark.parametrize("chooser", CHOOSERS.values(), ids=CHOOSERS)
@pytest.mark.parametrize("seed", range(5))
def test_a_recorded_turn_is_a_turn(chooser, seed, monkeypatch):
    monkeypatch.setattr(beam, "take_turn", plain_turn)  # C++ knows plain numbers only
    monkeypatch.setattr(beam, "keep", plain_keep)
    draws = torch.Generator().manual_seed(seed)
    rows, deadlines = INPUTS * chooser.width, torch.full((INPUTS,), ROOM)
    empty = History.empty(torch.zeros(rows, dtype=torch.long), ROOM)
    plain = chooser.begin(empty, deadlines, [0, 1, 2])
    recorded = chooser.begin(History.empty(torch.zeros(rows, dtype=torch.long), ROOM), deadlines, [0, 1, 2])
    moment = torch.zeros(1, dtype=torch.long)
    history, *others = recorded.standing
    recorded.standing = (replace(history, time=moment), *others)
    for _ in range(ROOM - 1):
        scores = (2 * torch.randn(rows, VOCABULARY, generator=draws)).log_softmax(1)
        scores[:, :2] = -torch.inf  # PAD and BOS
        one, other = plain.choose(scores.clone()), recorded.take_turn(scores.clone())
        assert torch.equal(one.tokens, other.tokens)
        assert torch.equal(plain.done, recorded.done)
    history, *others = recorded.standing
    assert history.time.tolist() == [ROOM - 1]
    recorded.standing = (replace(history, time=ROOM - 1), *others)
    mine, theirs = plain.results(), recorded.results()
    assert [[each.tokens for each in answers] for answers in mine] == [
        [each.tokens for each in answers] for answers in theirs
    ]
    assert [answers[0].score for answers in mine] == pytest.approx([answers[0].score for answers in theirs])


class Recorder:
    """A model that goes round like a recorded one, and counts how often."""

    def __init__(self, model):
        self.model, self.rounds = model, 0

    def start(self, source, rows, room):
        return self.model.start(source, rows, room)

    def step(self, tokens, state):
        return self.model.step(tokens, state)

    def go_round(self, search, step: Step, state):
        from seq2see.core.rows import move_rows
        from seq2see.decoding.engine import log_probabilities, sayable

        self.rounds += 1
        state = state if step.parents is None else move_rows(state, step.parents)
        logits, state = self.model.step(step.tokens[:, None], state)
        chosen = search.take_turn(sayable(log_probabilities(logits[:, -1])))
        search.meet_deadlines()
        return chosen, state


def decoded(model, chooser, **more):
    source = Sequences.of([[5, 6, 7], [8, 4], [9, 9, 5, 6]])
    return [[each.tokens for each in row] for row in decode(model, source, chooser, Limits(9), **more)]


@pytest.mark.parametrize("chooser", CHOOSERS.values(), ids=CHOOSERS)
def test_the_loop_leaves_every_round_to_a_model_that_records(chooser):
    settings = ModelSettings(source=Text(), encoder=STACK, decoder=STACK)
    model = fresh_model(settings, (20, 20), "xavier", seed=3).eval()
    recorder = Recorder(model)
    assert decoded(recorder, chooser) == decoded(model, chooser)
    assert recorder.rounds > 0


def test_what_differs_from_round_to_round_is_not_recorded():
    settings = ModelSettings(source=Text(), encoder=STACK, decoder=STACK)
    model = fresh_model(settings, (20, 20), "xavier", seed=3).eval()
    recorder = Recorder(model)
    rules = [MinimumLength(3)]
    assert decoded(recorder, Greedy(), rules=rules) == decoded(model, Greedy(), rules=rules)
    assert decoded(recorder, Sample(seed=1)) == decoded(model, Sample(seed=1))
    assert recorder.rounds == 0


def test_a_prompt_is_read_before_rounds_begin():
    settings = ModelSettings(source=Text(), encoder=STACK, decoder=STACK)
    model = fresh_model(settings, (20, 20), "xavier", seed=3).eval()
    recorder, prefix = Recorder(model), Sequences.of([[4], [5, 6, 7], []])
    for chooser in (Greedy(), Beam(2)):
        assert decoded(recorder, chooser, prefix=prefix) == decoded(model, chooser, prefix=prefix)
    assert 0 < recorder.rounds < 18
