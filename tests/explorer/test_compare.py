"""The view "Compare": the predictions of both sides, and the scores of both sides for one target."""

from __future__ import annotations

import math

import pytest
from text_models import SOURCE, run_of, text_model, workspace

from seq2see.core.errors import UserError
from seq2see.explorer.views.predict import CompareRequest, compare

OTHER = "你有一支笔"


def probabilities(tokens):
    return [each["probability"] for each in tokens]


def test_each_side_has_the_prediction_of_its_model():
    found = compare(workspace(), CompareRequest(run=run_of("transformer"), second=run_of("rnn"), text=SOURCE))
    for name, side in zip(("transformer", "rnn"), found["sides"], strict=True):
        alone = text_model(name)(SOURCE).outputs[0]
        assert (side["name"], side["answer"]) == (name, alone.text)
        assert [(each["token"], each["probability"]) for each in side["tokens"]] == [
            (each.text, each.probability) for each in alone.tokens
        ]


def test_both_sides_score_the_prediction_of_the_first():
    found = compare(workspace(), CompareRequest(run=run_of("transformer"), second=run_of("rnn"), text=SOURCE))
    target = text_model("transformer")(SOURCE).text
    assert found["target"] == target
    for name, tokens in zip(("transformer", "rnn"), found["target_tokens"], strict=True):
        scored = text_model(name).score(SOURCE, target)
        assert sum(map(math.log, probabilities(tokens))) == pytest.approx(scored, abs=1e-4)
        assert tokens[-1]["token"] == "<eos>"


def test_one_run_scores_a_given_target_for_two_texts():
    request = CompareRequest(run=run_of("transformer"), text=SOURCE, other=OTHER, target="abc")
    found = compare(workspace(), request)
    assert [side["input"]["text"] for side in found["sides"]] == [SOURCE, OTHER]
    for text, tokens in zip((SOURCE, OTHER), found["target_tokens"], strict=True):
        assert sum(map(math.log, probabilities(tokens))) == pytest.approx(
            text_model("transformer").score(text, "abc"), abs=1e-4
        )


def test_tokens_of_only_one_side_are_marked():
    equal = compare(workspace(), CompareRequest(run=run_of("gpt"), text=SOURCE))
    assert not any(any(side["differs"]) for side in equal["sides"])
    found = compare(workspace(), CompareRequest(run=run_of("gpt"), second=run_of("lstm"), text=SOURCE))
    tokens = [[each["token"] for each in side["tokens"]] for side in found["sides"]]
    common = len(SOURCE)  # both outputs start with the text
    assert tokens[0] != tokens[1]
    for side in found["sides"]:
        assert not any(side["differs"][:common])
        assert len(side["differs"]) == len(side["tokens"])
    assert any(found["sides"][0]["differs"])


def test_an_encoder_only_model_has_candidates_and_no_target():
    found = compare(workspace(), CompareRequest(run=run_of("bert"), text="我有[MASK]本书", other="我有[MASK]支笔"))
    assert found["target_tokens"] == [[], []]
    for text, side in zip(("我有[MASK]本书", "我有[MASK]支笔"), found["sides"], strict=True):
        alone = text_model("bert")(text, top_k=8).candidates
        assert [[each["token"] for each in candidates] for candidates in side["candidates"]] == [
            [each.text for each in candidates] for candidates in alone
        ]


def test_a_text_above_the_maximum_length_is_an_error():
    with pytest.raises(UserError, match="1,0"):
        compare(workspace(), CompareRequest(run=run_of("gpt"), text="书" * 1001))
