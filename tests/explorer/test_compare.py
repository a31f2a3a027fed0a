"""Two sides: each as its model answers alone, and one target as both models score it."""

from __future__ import annotations

import math

import pytest
from text_models import SOURCE, run_of, text_model, workspace

from seq2see.core.errors import UserError
from seq2see.explorer.views.compare import CompareRequest, sides

OTHER = "你有一支笔"


def probabilities(tokens):
    return [each["probability"] for each in tokens]


def test_each_side_is_what_its_model_says_alone():
    found = sides(workspace(), CompareRequest(run=run_of("transformer"), second=run_of("rnn"), text=SOURCE))
    for name, side in zip(("transformer", "rnn"), found["sides"], strict=True):
        alone = text_model(name)(SOURCE).outputs[0]
        assert (side["name"], side["answer"]) == (name, alone.text)
        assert [(each["token"], each["probability"]) for each in side["tokens"]] == [
            (each.text, each.probability) for each in alone.tokens
        ]


def test_both_read_the_answer_of_the_first_as_their_models_score_it():
    found = sides(workspace(), CompareRequest(run=run_of("transformer"), second=run_of("rnn"), text=SOURCE))
    target = text_model("transformer")(SOURCE).text
    assert found["target"] == target
    for name, read in zip(("transformer", "rnn"), found["read"], strict=True):
        scored = text_model(name).score(SOURCE, target)
        assert sum(map(math.log, probabilities(read))) == pytest.approx(scored, abs=1e-4)
        assert read[-1]["token"] == "<eos>"


def test_one_run_reads_two_texts_and_a_target_of_ones_own():
    asked = CompareRequest(run=run_of("transformer"), text=SOURCE, other=OTHER, target="abc")
    found = sides(workspace(), asked)
    assert [side["input"]["text"] for side in found["sides"]] == [SOURCE, OTHER]
    for text, read in zip((SOURCE, OTHER), found["read"], strict=True):
        assert sum(map(math.log, probabilities(read))) == pytest.approx(
            text_model("transformer").score(text, "abc"), abs=1e-4
        )


def test_what_only_one_side_says_is_marked():
    same = sides(workspace(), CompareRequest(run=run_of("gpt"), text=SOURCE))
    assert not any(any(side["differs"]) for side in same["sides"])
    found = sides(workspace(), CompareRequest(run=run_of("gpt"), second=run_of("lstm"), text=SOURCE))
    pieces = [[each["token"] for each in side["tokens"]] for side in found["sides"]]
    common = len(SOURCE)  # both begin with the text that they go on from
    assert pieces[0] != pieces[1]
    for side in found["sides"]:
        assert not any(side["differs"][:common])
        assert len(side["differs"]) == len(side["tokens"])
    assert any(found["sides"][0]["differs"])


def test_a_model_that_reads_tells_what_else_was_likely_and_writes_nothing():
    found = sides(workspace(), CompareRequest(run=run_of("bert"), text="我有[MASK]本书", other="我有[MASK]支笔"))
    assert found["read"] == [[], []]
    for text, side in zip(("我有[MASK]本书", "我有[MASK]支笔"), found["sides"], strict=True):
        alone = text_model("bert")(text, top_k=8).candidates
        assert [[each["token"] for each in guess] for guess in side["one_step_predictions"]] == [
            [each.text for each in guess] for guess in alone
        ]


def test_what_is_too_long_to_be_shown_is_refused():
    with pytest.raises(UserError, match="1,0"):
        sides(workspace(), CompareRequest(run=run_of("gpt"), text="书" * 1001))
